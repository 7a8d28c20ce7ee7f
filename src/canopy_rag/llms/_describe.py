"""What servers tell about themselves: models, context windows, pictures, token counts."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canopy_rag.llms._clients import Clients
from canopy_rag.llms._errors import AttemptError, check
from canopy_rag.llms._replicas import Replica
from canopy_rag.llms._request import sendable

UNLISTED = "default"
"""Name sent to a server that lists no model, and so has one that needs no name."""
PROBE_PX = 448
"""Side of the first picture: one tile, or 196 to 256 tokens, for the models there are."""
PROBE_LEAST = 32
"""Fewest tokens of it that are no mere placeholder."""
_CONTEXT_KEYS = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together
    "max_context_length",  # Mistral
    "context_window",  # Groq
)


_BUSY = {429, 502, 503, 504}
_NO_SUCH_PATH = {404, 405, 501}


async def describe(
    clients: Clients, replica: Replica, model: str | None, secret: str | None
) -> None:
    """Ask a server for its model, context window and modalities, and note them.

    Args:
        clients: Ask.
        replica: The server.
        model: The model's name if the user gave one; then a server without a list will do.
        secret: The key, kept out of messages.

    Raises:
        AttemptError: If the server refuses, or lists several models and none was named.
    """
    url = replica.address
    response = await clients.get(replica, "/models")
    needed = model is None and response.status_code not in _NO_SUCH_PATH
    if needed or response.status_code in _BUSY:
        check(response, url.shown, secret)
    told = described(response.content if response.is_success else b"", model, url.shown)
    window = told.context_tokens
    if told.llama_cpp:
        props = await clients.get(replica, url.beside("props"))
        window = (context_of_props(props.content) if props.is_success else None) or window
    replica.model, replica.sees, replica.context_tokens = told.model, told.sees, window
    replica.described = True


async def count(clients: Clients, replica: Replica, text: str, secret: str | None) -> int | None:
    """Return the number of tokens of `text`, or None if the server cannot tell.

    Raises:
        AttemptError: If the server is too busy to tell.
    """
    content = await _tokenize(
        clients, replica, token_request(replica.model or UNLISTED, text), secret
    )
    return None if content is None else token_count(content, text)


async def count_picture(
    clients: Clients, replica: Replica, size: tuple[int, int], secret: str | None
) -> int | None:
    """Return the tokens of a picture of `size`, or None if the server cannot tell (vLLM can).

    Whether it can is learnt from the first picture: a server that counts the placeholder alone,
    as older ones do, finds next to nothing in it.

    Raises:
        AttemptError: If the server is too busy to tell.
    """
    if replica.counts_pictures is None:
        probed = await _picture(clients, replica, (PROBE_PX, PROBE_PX), secret)
        replica.counts_pictures = probed is not None and probed >= PROBE_LEAST
    return await _picture(clients, replica, size, secret) if replica.counts_pictures else None


async def _picture(
    clients: Clients, replica: Replica, size: tuple[int, int], secret: str | None
) -> int | None:
    counts = []
    for parts in ((), (picture_part(*size),)):
        request = messages_request(replica.model or UNLISTED, parts)
        content = await _tokenize(clients, replica, request, secret)
        counts.append(None if content is None else token_count(content, "text"))
    without, with_picture = counts
    return None if without is None or with_picture is None else with_picture - without


async def _tokenize(
    clients: Clients, replica: Replica, request: Mapping[str, Any], secret: str | None
) -> bytes | None:
    url = replica.address
    response = await clients.post(replica, url.beside("tokenize"), request)
    if response.status_code in _BUSY:
        check(response, url.shown, secret)
    return response.content if response.is_success else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What `/v1/models` tells about one model."""

    model: str
    context_tokens: int | None = None
    sees: bool | None = None
    """Whether it takes pictures; None when untold."""
    llama_cpp: bool = False
    """Whether llama.cpp serves it, which tells more under `/props`."""


def described(content: bytes, model: str | None, url: str) -> Described:
    """Read a list of models.

    Args:
        content: Reply of `/v1/models`.
        model: The model's name; None for the only one of the list. Adapters of a listed model, as
            vLLM lists them, do not count.
        url: For messages.

    Raises:
        AttemptError: If no name was given and several models are listed.
    """
    entries = [each for each in _listed(content) if isinstance(each.get("id"), str)]
    if model is None:
        entries = [each for each in entries if not each.get("parent")]
        if len(entries) > 1:
            names = ", ".join(sorted(each["id"] for each in entries)[:10])
            raise AttemptError(f"{url} serves several models; name one of them: {names}")
    entry = next((each for each in entries if model is None or _is(each, model)), None)
    if entry is None:
        return Described(model=model or UNLISTED)
    architecture = _mapping(entry.get("architecture"))
    inputs = architecture.get("input_modalities")
    return Described(
        model=model or entry["id"],
        context_tokens=next((n for key in _CONTEXT_KEYS if (n := _size(entry.get(key)))), None)
        or _size(_mapping(entry.get("meta")).get("n_ctx")),
        sees="image" in inputs if isinstance(inputs, list) else None,
        llama_cpp=entry.get("owned_by") == "llamacpp",
    )


def context_of_props(content: bytes) -> int | None:
    """Return the context window of one request from llama.cpp's `/props`."""
    settings = _mapping(_object(content).get("default_generation_settings"))
    return _size(settings.get("n_ctx"))


def token_request(model: str, text: str) -> dict[str, Any]:
    """Return a body that llama.cpp (`content`), vLLM and SGLang (`prompt`) understand."""
    plain = sendable(text)
    return {
        "model": model,
        "content": plain,
        "prompt": plain,
        "add_special": False,
        "add_special_tokens": False,
    }


def messages_request(model: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a body that asks vLLM for the tokens of one message of a text and `parts`."""
    content = [{"type": "text", "text": "Picture:"}, *parts]
    return {"model": model, "messages": [{"role": "user", "content": content}]}


def picture_part(width: int, height: int) -> dict[str, Any]:
    """Return a message part with a black picture: what it costs depends on its size alone."""
    rows = zlib.compress(bytes(((width + 7) // 8 + 1) * height), 9)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    uri = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": uri}}


def token_count(content: bytes, text: str) -> int | None:
    """Read the reply to `token_request`; None if it is none, as from a server that read nothing."""
    reply = _object(content)
    tokens = reply.get("tokens")
    count = reply.get("count", len(tokens) if isinstance(tokens, list) else None)
    if not isinstance(count, int) or (count == 0 and text):
        return None
    return count


def _listed(content: bytes) -> list[Mapping[str, Any]]:
    data = _object(content).get("data")
    return [each for each in data if isinstance(each, Mapping)] if isinstance(data, list) else []


def _is(entry: Mapping[str, Any], model: str) -> bool:
    aliases = entry.get("aliases")
    return entry["id"] == model or (isinstance(aliases, list) and model in aliases)


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(content))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
