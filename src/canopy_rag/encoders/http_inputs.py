"""What an embedding server is sent: texts in batches, or one conversation per request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from canopy_rag.core.node_text import node_text
from canopy_rag.core.prompts import neutral
from canopy_rag.core.protocols import MediaPlace
from canopy_rag.core.types import ImagePayload, Item, Modality, Node, VideoPayload
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.pictures import Pictures, frame_times
from canopy_rag.encoders.remote import Ask

QUERY_INSTRUCTION = "Retrieve images or text relevant to the user's query."
DOCUMENT_INSTRUCTION = "Represent the user's input."
"""The system messages of Qwen3-VL-Embedding, as `qwen3-vl` has them."""
EMPTY = "NULL"
"""What an input without words and pictures is read as; servers refuse empty strings."""
MAX_TOKENS = 8000
"""Texts are read up to about here unless told otherwise: of 8,192, what a template leaves."""
BATCH_TEXTS = 64
BATCH_CHARS = 200_000
"""Most inputs of one request, and most characters; OpenAI takes 2,048 and 300,000 tokens."""
LONGEST_WORD = 32
"""A longer one is no word of a language, and many tokens."""
IMAGE_PX = 1_280 * 1_024
"""Pixels of an image: 1,280 visual tokens, as the model was trained."""
FRAME_PX = 256 * 1_024
MAX_FRAMES = 16
"""Frames of one node, evenly spread, and pixels of each: 4,096 visual tokens together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Which server is asked, and how."""

    urls: tuple[str, ...]
    model: str
    lora: str | None = None
    """The server's name of the adapter that encodes nodes and their queries (f_theta)."""
    form: Literal["auto", "text", "chat"] = "auto"
    instruction: str | None = None
    """`text`: put before each query as it is; None: nothing. `chat`: system message of queries;
    None: `QUERY_INSTRUCTION`."""
    max_tokens: int | None = None
    """Texts are cut about here; None: `MAX_TOKENS`."""
    dimensions: int | None = None
    """Asked for, of a model that can give fewer; None: its own."""
    max_in_flight: int = 8
    timeout_s: float = 120.0
    max_retries: int = 5
    backoff_s: float = 0.5

    @property
    def is_chat(self) -> bool:
        """Whether conversations are sent."""
        if self.form == "auto":
            return "qwen3-vl-embedding" in self.model.lower()
        return self.form == "chat"

    @property
    def query_instruction(self) -> str:
        """What is told before queries; empty: nothing."""
        if self.instruction is None:
            return QUERY_INSTRUCTION if self.is_chat else ""
        return self.instruction


@dataclass(frozen=True, slots=True)
class Input:
    """What a server reads as one; equal ones are sent once."""

    text: str
    instruction: str = ""
    picture: tuple[str, tuple[float, ...]] | None = None
    """Media of the item, and times in a video."""
    item: Item | None = field(default=None, compare=False)
    """Whose picture it is."""


class Inputs:
    """Makes inputs and requests.

    Args:
        options: Which server, and how.
        tokens: Counts tokens.
        place: Finds the pictures and videos of items; None: by absolute path or `data:` URI.
    """

    def __init__(
        self, options: HttpOptions, tokens: TokenModel, place: MediaPlace | None = None
    ) -> None:
        self._options = options
        self._tokens = tokens
        self._pictures = Pictures(place)
        self._max_tokens = options.max_tokens or MAX_TOKENS

    @property
    def media(self) -> frozenset[Modality]:
        """Modalities that are sent as pictures."""
        return frozenset({"image", "video"}) if self._options.is_chat else frozenset()

    def query(self, query: str) -> Input:
        """Return what is sent of a query."""
        return Input(self._text(query, self._max_tokens) or EMPTY, self._options.query_instruction)

    def node(self, item: Item, node: Node) -> Input:
        """Return what is sent of a node: its text with its context, and its picture or frames."""
        instruction = DOCUMENT_INSTRUCTION if self._options.is_chat else ""
        picture = self._picture(item, node)
        if picture is None:
            text = self._text(node_text(item, node), self._max_tokens)
            return Input(text or EMPTY, instruction)
        text = self._text(node_text(item, node), self._max_tokens // 2)
        return Input(text, instruction, picture, item)

    def asks(self, wanted: Mapping[tuple[str, Input], str]) -> list[Ask]:
        """Spread inputs over requests, in order.

        Args:
            wanted: Name in errors by model and input.
        """
        asks: list[Ask] = []
        model, inputs, names, n_chars = "", list[Input](), list[str](), 0
        for (by, each), name in wanted.items():
            full = (
                by != model
                or self._options.is_chat
                or len(inputs) == BATCH_TEXTS
                or n_chars + len(each.text) > BATCH_CHARS
            )
            if inputs and full:
                asks.append(self._ask(model, inputs, names))
                inputs, names, n_chars = [], [], 0
            model = by
            inputs.append(each)
            names.append(name)
            n_chars += len(each.text)
        if inputs:
            asks.append(self._ask(model, inputs, names))
        return asks

    def _ask(self, model: str, inputs: Sequence[Input], names: Sequence[str]) -> Ask:
        def body(begin: int, end: int) -> Mapping[str, Any]:
            if self._options.is_chat:
                return self._conversation(inputs[begin])
            return {"input": [each.instruction + each.text for each in inputs[begin:end]]}

        return Ask(model=model, names=names, body=body, dimensions=self._options.dimensions)

    def _conversation(self, each: Input) -> Mapping[str, Any]:
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": uri}} for uri in self._data_uris(each)
        ]
        if each.text:
            content.append({"type": "text", "text": each.text})
        return {
            "messages": [
                _message("system", each.instruction),
                {"role": "user", "content": content},
                _message("assistant", ""),
            ],
            # Without these two the model is pooled elsewhere, and gives other vectors.
            "continue_final_message": True,
            "add_special_tokens": True,
        }

    def _data_uris(self, each: Input) -> list[str]:
        if each.item is None or each.picture is None:
            return []
        from canopy_rag.media import data_uri

        if each.item.modality == "image":
            return [data_uri(self._pictures.image(each.item), max_px=IMAGE_PX)]
        frames = self._pictures.frames(each.item, each.picture[1])
        return [data_uri(frame, max_px=FRAME_PX) for frame in frames]

    def _picture(self, item: Item, node: Node) -> tuple[str, tuple[float, ...]] | None:
        payload = item.payload
        if item.modality in self.media:
            if isinstance(payload, ImagePayload):
                return payload.media, ()
            times = frame_times(item, node, MAX_FRAMES)
            if isinstance(payload, VideoPayload) and times:
                return payload.media, tuple(times)
        return None

    def _text(self, text: str, max_tokens: int) -> str:
        """Return what of a text is sent."""
        text = self._cut(text.strip(), max_tokens)
        if not text.isascii():  # unpaired surrogates of undecodable bytes are no text
            text = text.encode("utf-8", "replace").decode("utf-8")
        # Servers read control tokens in texts as such: a document could end its own message.
        return neutral(text) if self._options.is_chat else text

    def _cut(self, text: str, max_tokens: int) -> str:
        """Return the beginning of a text that has about so many tokens at most.

        The server's tokenizer is not known. The embedded one takes a very long word, or one in a
        script that it does not know, for one token; there, three bytes count as one.
        """
        text = text[: 16 * max_tokens]
        if len(text.encode("utf-8", "replace")) <= max_tokens:
            return text
        n_tokens = 0
        for begin, end in self._tokens.spans(text):
            word = text[begin:end]
            plain = word.isascii() and len(word) <= LONGEST_WORD
            cost = 1 if plain else -(-len(word.encode("utf-8", "replace")) // 3)
            if n_tokens + cost > max_tokens:
                room = 0 if plain else 3 * (max_tokens - n_tokens)
                start = word.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
                return (text[:begin] + start).rstrip()
            n_tokens += cost
        return text


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}
