"""Parsed files to encoded ones, the same in the process of a run and in a worker of a cluster.

One thread encodes, batch by batch; meanwhile the caller parses on, and writes what came before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from canopy_rag.core.errors import EncodeError
from canopy_rag.core.protocols import Encoder, Entry, Packed
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors
from canopy_rag.indexing.parsing import Parsed, Work
from canopy_rag.indexing.sources import reason_of

GROUP_NODES = 4096
"""Nodes per commit, and encoded ahead: about 250 items, a few seconds of encoding on one core."""
BATCH_NODES = 1024
"""Nodes per encoder call: enough for batches of similar length, and soon there."""

T = TypeVar("T")
E = TypeVar("E", Entry, Packed)


class UnreadableError(Exception):
    """The rest of a file could not be read or encoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, kw_only=True)
class Encoded(Generic[E]):
    """The encoded items of one file, or why there are none."""

    entries: list[E] = field(default_factory=list)
    rest: Iterator[list[E]] | None = None
    """What follows `entries` in a file that has more than fit into memory, part by part; raises
    `UnreadableError`. None when `entries` is all."""
    reason: str | None = None
    """Why it cannot be indexed."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Uri and what could not be used; grows while `rest` is read."""


AnyEncoded = Encoded[Entry] | Encoded[Packed]


@dataclass(frozen=True, slots=True)
class _Batch(Generic[T]):
    """Files whose items are encoded together."""

    files: list[tuple[Work[T], Parsed]]
    n_nodes: int
    vectors: Future[list[ItemVectors]]


class Encoding(Generic[T]):
    """Encodes files in the order in which they come; a file that fails stops no other.

    Args:
        encoder: Makes the vectors.
        checksum: Of a file, from what its `Work` is about.
    """

    def __init__(self, encoder: Encoder, checksum: Callable[[T], str]) -> None:
        self._encoder = encoder
        self._checksum = checksum
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoding")
        self._files: list[tuple[Work[T], Parsed]] = []
        self._n_nodes = 0
        self._ahead: deque[_Batch[T]] = deque()

    def encoded(
        self, parsed: Iterable[tuple[Work[T], Parsed]]
    ) -> Iterator[tuple[Work[T], Encoded[Entry]]]:
        """Yield each file with its vectors, in order."""
        for work, file in parsed:
            if file.rest is not None:
                yield from self._all()
                yield work, self._large(work, file)
                continue
            self._files.append((work, file))
            self._n_nodes += sum(len(item.nodes) for item in file.items)
            if self._n_nodes >= BATCH_NODES:
                self._submit()
            while sum(batch.n_nodes for batch in self._ahead) >= GROUP_NODES + BATCH_NODES:
                yield from self._settled(self._ahead.popleft())
        yield from self._all()

    def close(self) -> None:
        """End the thread; what it has not begun is not done."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _all(self) -> Iterator[tuple[Work[T], Encoded[Entry]]]:
        self._submit()
        while self._ahead:
            yield from self._settled(self._ahead.popleft())

    def _submit(self) -> None:
        if self._files:
            vectors = self._encode(_items_of(self._files))
            self._ahead.append(_Batch(self._files, self._n_nodes, vectors))
            self._files, self._n_nodes = [], 0

    def _encode(self, items: Sequence[Item]) -> Future[list[ItemVectors]]:
        return self._thread.submit(lambda: self._encoder.encode_items(items) if items else [])

    def _settled(self, batch: _Batch[T]) -> Iterator[tuple[Work[T], Encoded[Entry]]]:
        files, future = batch.files, batch.vectors
        while True:
            try:
                vectors = iter(future.result())
            except EncodeError as error:
                _fail(files, error)
                future = self._encode(_items_of(files))
                continue
            break
        for work, file in files:
            own = [next(vectors) for _ in file.items]
            entries = self._entries(work, file.items, own)
            yield work, Encoded(entries=entries, reason=file.reason, notes=file.notes)

    def _large(self, work: Work[T], file: Parsed) -> Encoded[Entry]:
        return Encoded(rest=self._parts(work, file), notes=file.notes)

    def _parts(self, work: Work[T], file: Parsed) -> Iterator[list[Entry]]:
        rest = iter(file.rest or ())
        try:
            items, ahead = file.items, self._encode(file.items)
            while items:
                try:
                    following = _some(rest)
                except Exception as error:  # a parser may fail in any way; the run goes on
                    raise UnreadableError(reason_of(error)) from error
                try:
                    vectors = ahead.result()
                except EncodeError as error:
                    raise UnreadableError(reason_of(error)) from error
                ahead = self._encode(following)
                yield self._entries(work, items, vectors)
                items = following
        finally:
            if isinstance(rest, Generator):  # its parser must not wait for somebody to read on
                rest.close()

    def _entries(
        self, work: Work[T], items: Sequence[Item], vectors: Sequence[ItemVectors]
    ) -> list[Entry]:
        checksum = self._checksum(work.about)
        return [
            Entry(item=item, vectors=vector, source_sha256=checksum)
            for item, vector in zip(items, vectors, strict=True)
        ]


def _fail(files: Sequence[tuple[Work[T], Parsed]], error: EncodeError) -> None:
    """Note that the file of the item that failed cannot be encoded.

    Raises:
        EncodeError: If it names none of their items.
    """
    for _, file in files:
        if any(item.id == error.item_id for item in file.items):
            file.items, file.reason = [], reason_of(error)
            return
    raise error


def _items_of(files: Sequence[tuple[Work[T], Parsed]]) -> list[Item]:
    return [item for _, file in files for item in file.items]


def _some(items: Iterator[Item]) -> list[Item]:
    """Return the next items, about `BATCH_NODES` nodes of them."""
    batch: list[Item] = []
    n_nodes = 0
    for item in items:
        batch.append(item)
        n_nodes += len(item.nodes)
        if n_nodes >= BATCH_NODES:
            break
    return batch
