"""An embedding server on a loopback port: OpenAI's strings, vLLM's conversations, and faults."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.protocols import Encoder
from canopy_rag.testing.chat_server import ChatServer, Received, Served, refuses, sends

Embed = Callable[[str], NDArray[np.float32]]
"""From a text to its vector, of any length."""


class EmbeddingHost(ChatServer):
    """The server; use it as a context manager. Scripted replies go first, then it embeds.

    Args:
        *script: Replies to the first requests, in order.
        models: How each model embeds, a LoRA adapter's name included; another name is refused.
    """

    route = "/embeddings"

    def __init__(self, *script: Served, models: Mapping[str, Embed]) -> None:
        super().__init__(*script, then=self._embedded, models=list(models))
        self._embeds = models

    @property
    def asked(self) -> list[Received]:
        """The requests for embeddings among `received`."""
        return self.chats

    def _embedded(self, received: Received) -> Served:
        body = received.body
        embed = self._embeds.get(body.get("model", ""))
        if embed is None:
            return refuses(404, f"The model `{body.get('model')}` does not exist.")
        texts = [text_of(body["messages"])] if "messages" in body else body["input"]
        if not all(texts):
            return refuses(400, "'$.input' is invalid: an input is empty")
        return embeddings([embed(text) for text in texts], body.get("encoding_format", "float"))


def embeddings(rows: list[Any], encoding_format: str = "float", **changes: Any) -> Served:
    """Return a reply with vectors.

    Args:
        rows: One each; anything that is no array is sent as it is.
        encoding_format: `float` or `base64`.
        **changes: Fields of the reply that differ.
    """
    data = [
        {"object": "embedding", "index": index, "embedding": _sent(row, encoding_format)}
        for index, row in enumerate(rows)
    ]
    return sends({"object": "list", "data": data, **changes})


def text_of(messages: list[dict[str, Any]]) -> str:
    """Return what a conversation's user says; a picture counts as a word of its own."""
    parts = [part for each in messages if each["role"] == "user" for part in each["content"]]
    return " ".join(
        part["text"] if part["type"] == "text" else _name(part["image_url"]["url"])
        for part in parts
    )


def embedding_of(encoder: Encoder) -> Embed:
    """Return an encoder's way with queries, as a server's with texts."""

    def embed(text: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = encoder.encode_queries([text]).node[0]
        return row

    return embed


def _sent(row: Any, encoding_format: str) -> Any:
    if not isinstance(row, np.ndarray):
        return row
    if encoding_format == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")
    return [float(value) for value in row]


def _name(uri: str) -> str:
    return f"picture{hashlib.sha256(uri.encode()).hexdigest()[:8]}"
