"""The seams: what the pipeline knows of the parts that adapters implement.

Batches in, lists out, in order. What computes is sync; what waits (LLMs) is async. Constructors are
cheap: weights and files load on first use.
"""

from __future__ import annotations

import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.types import Hit, Item, Modality
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors

TokenCounter = Callable[[str], int]
"""Number of tokens of a text, without special tokens."""

MediaPlace = Callable[[str], tuple[str, Path | None]]
"""From a payload's `media` to what opens it: a path or `data:` URI, and the folder in which a path
must lie; None: anywhere."""


@runtime_checkable
class SentenceSplitter(Protocol):
    """Finds sentences; core gets boundaries, never a splitter."""

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the sentences of one paragraph as half-open character intervals.

        They are ascending, disjoint, not empty, without surrounding white space, and together
        hold every character of `text` that is not white space.
        """
        ...


_IN_A_FOLDER = re.compile(r"(hf|qwen3-vl):(/|[A-Za-z]:[/\\]).*", re.DOTALL)


def placeless(model: str) -> str:
    """Return the name of an encoder without the folder that its files are in.

    >>> placeless("qwen3-vl:/models/tuned"), placeless("hf:owner/model")
    ('qwen3-vl:', 'hf:owner/model')
    """
    found = _IN_A_FOLDER.fullmatch(model)
    return model if found is None else f"{found[1]}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What vectors depend on; an index stores it and refuses queries encoded otherwise."""

    model: str
    """Name, such as `minilm`."""
    revision: str
    """Checksum or commit of the weights, adapter included."""
    mode: Literal["late", "node"]
    """Late pooling, or each node encoded on its own."""
    instruction: str
    """What is put before queries; empty when nothing is."""
    dim: int

    def agrees(self, other: Fingerprint) -> bool:
        """Return whether vectors of both may be compared: all is equal but for folders.

        A model in a folder is known by the checksum of its files; the folder may have moved.
        """
        return replace(self, model=placeless(self.model)) == replace(
            other, model=placeless(other.model)
        )


@runtime_checkable
class Encoder(Protocol):
    """Turns queries and items into vectors."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on. Does not load the weights."""
        ...

    @property
    def media(self) -> frozenset[Modality]:
        """Modalities embedded from their pixels; the others are embedded through their text."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """ISO 639-1 codes the model was trained for; None for a multilingual one."""
        ...

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order. An over-long query is cut at the model's window.

        Raises:
            EncodeError: If the model fails.
        """
        ...

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and all their nodes, in order; the result does not depend on the batch.

        Raises:
            EncodeError: Naming the item that failed; nothing is put in its place.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """One hit with everything that refinement needs, in one round trip."""

    hit: Hit
    item: Item
    nodes: NodeVectors


@runtime_checkable
class Store(Protocol):
    """Items, trees and node vectors, and search over them."""

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        modalities: Sequence[Modality] | None = None,
        text: str | None = None,
    ) -> list[Found]:
        """Return the `k` items nearest to a query, most similar first, ties by item id.

        Args:
            query: Unit vector, `(dim,)`.
            k: Most items to return.
            modalities: Only items of these; None for all.
            text: The query's text, for a store that ranks by words too; None: vectors alone.
        """
        ...

    def get(self, item_ids: Sequence[str]) -> list[Item]:
        """Return the items of these ids, in order.

        Raises:
            StoreError: Naming an id that is not there.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """An item as it is written to a store."""

    item: Item
    vectors: ItemVectors
    source_sha256: str
    """Checksum of the source file, sidecar files included."""

    @property
    def uri(self) -> str:
        """Of the source."""
        return self.item.source.uri

    @property
    def corpus(self) -> str:
        """Of the item."""
        return self.item.corpus

    @property
    def ids(self) -> tuple[str, ...]:
        """The item's id alone."""
        return (self.item.id,)

    @property
    def n_nodes(self) -> int:
        """Nodes of the item."""
        return len(self.item.nodes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packed:
    """Some entries of one source and corpus in a store's own form, cheap to send and to write."""

    uri: str
    corpus: str
    ids: tuple[str, ...]
    n_nodes: int
    """Of all its items together."""
    rows: Any
    """What the store made of them."""


Packer = Callable[[Sequence[Entry]], list[Packed]]
"""Brings entries into the form of one store, in order; crosses to other processes."""


@runtime_checkable
class StoreWriter(Protocol):
    """What the indexing job needs of a store. Opening one is cheap: no engine, no network."""

    @property
    def identity(self) -> str:
        """Names this very index; another one made in its place has another identity."""
        ...

    @property
    def needs_compaction(self) -> bool:
        """Whether content that was removed may still stand in files of the index."""
        ...

    def check(self, fingerprint: Fingerprint) -> None:
        """Check that vectors of this encoder belong into the index.

        Raises:
            StoreError: Naming both encoders and the remedy.
        """
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Hold the index for one writer; a call inside needs no lock of its own.

        Raises:
            StoreError: On entering, naming the process that writes already, or if the place
                cannot be written.
        """
        ...

    @property
    def packer(self) -> Packer:
        """Does the part of `replace` that takes time where entries are made, on any machine."""
        ...

    def replace(self, uris: Collection[str], entries: Iterable[Entry | Packed]) -> int:
        """Put `entries` in the place of all items of the sources `uris`, and return their number.

        A search sees the items of before or those of after, never both, never neither. When
        `entries` raises, nothing was written.

        Raises:
            StoreError: If an entry is of no source in `uris`, or the place cannot be written.
        """
        ...

    def remove(self, uris: Collection[str]) -> int:
        """Remove all items of these sources; return how many there were."""
        ...

    def sources(self) -> dict[str, int]:
        """Return the number of items of every source that has some."""
        ...

    def compact(self) -> None:
        """Merge small files, bring the indices up to date, and wipe what was removed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPart:
    """A picture in a message."""

    media: str
    """`data:` URI or path."""
    time: float | None = None
    """Seconds in the video, for a frame."""
    width: int = 0
    """Pixels of the original; 0 when unknown."""
    height: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message; `content` mixes texts and pictures in order."""

    role: Literal["system", "user", "assistant"]
    content: tuple[str | MediaPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One chat completion, temperature 0."""

    messages: tuple[Message, ...]
    max_tokens: int
    schema_name: str | None = None
    """`critic`, `aggregate` or `router` for a structured call; None for the reader's."""
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """JSON schema of the reply, together with `schema_name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A reply and what it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    cut: bool = False
    """Whether the reply ended at `max_tokens`."""
    tokens_are: Literal["exact", "estimated"] = "exact"
    """Estimated when the server did not tell the usage."""
    cost: float | None = None
    """In the currency of the configured prices; None without prices."""


@runtime_checkable
class LLM(Protocol):
    """A chat model."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Size of its context window; None when unknown."""
        ...

    @property
    def vision(self) -> bool:
        """Whether messages may hold pictures."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            LLMError: When no reply came after the retries.
        """
        ...

    def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the pieces of one reply as they come.

        Args:
            request: What to answer.
            ended: Called once with the whole reply and its cost, after the last piece of a stream
                that did not break and was not left early.

        Raises:
            LLMError: When the stream breaks.
        """
        ...

    async def count_tokens(self, text: str) -> int | None:
        """Return the exact number of tokens of `text`, or None if nobody can tell."""
        ...

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return the tokens of a picture of that many pixels, as it is sent, markers included.

        None if nobody can tell, or the model sees none.
        """
        ...

    async def aclose(self) -> None:
        """Give connections and processes back."""
        ...


class ItemSource(Protocol):
    """A function that reads one file into items, streaming."""

    def __call__(self, path: Any, uri: str, options: Any) -> Iterator[Item]:
        """Yield the items of one file.

        Raises:
            IngestError: Naming the file and the place in it.
        """
        ...
