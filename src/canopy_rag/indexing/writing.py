"""Parsed files to vectors to the store, a group of files per commit.

One thread encodes, batch by batch; meanwhile the caller parses on, and writes the group before.
Two groups are held in memory; a file that is larger than a group streams through on its own and
still becomes visible in one commit, since the store takes it in before it commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from canopy_rag.core.errors import EncodeError
from canopy_rag.core.protocols import Encoder, Entry, StoreWriter
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors
from canopy_rag.indexing.manifest import Manifest, Record
from canopy_rag.indexing.parsing import Parsed
from canopy_rag.indexing.report import Failure, IndexReport
from canopy_rag.indexing.scan import SourceFile
from canopy_rag.indexing.sources import SourceReader, State, checksum_of, reason_of, state_of

GROUP_NODES = 4096
"""Nodes per commit: about 250 items, a few seconds of encoding on one core."""
BATCH_NODES = 1024
"""Nodes per encoder call: enough for batches of similar length, and soon there."""


class StoppedError(Exception):
    """The user asked a run to end while a large file was streaming through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A file that is new or may have changed."""

    file: SourceFile
    uri: str
    known: Record | None
    state: State
    sha256: str
    checked_ns: int


_File = tuple[Task, list[Item]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Files whose items are encoded together."""

    files: list[_File]
    vectors: Future[list[ItemVectors]]


class Writer:
    """Encodes and writes files, and keeps manifest and report in step.

    Args:
        store: Where items go.
        encoder: Makes their vectors.
        manifest: Learns of a file when the store has it.
        reader: Names the companions of a file.
        report: Is counted up.
        settings: Key of what items depend on besides their file.
        stopping: Whether the run is to end.
    """

    def __init__(
        self,
        *,
        store: StoreWriter,
        encoder: Encoder,
        manifest: Manifest,
        reader: SourceReader,
        report: IndexReport,
        settings: str,
        stopping: Callable[[], bool],
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._manifest = manifest
        self._reader = reader
        self._report = report
        self._settings = settings
        self._stopping = stopping
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoding")
        self._files: list[_File] = []
        self._n_file_nodes = 0
        self._group: list[_Batch] = []
        self._n_nodes = 0
        self._full: list[_Batch] = []
        """A full group that waits for its vectors."""

    def add(self, task: Task, parsed: Parsed) -> None:
        """Take in one file; when a group is full, write the one before.

        Raises:
            StoreError: If the store cannot be written.
        """
        if parsed.reason is not None:
            self.fail(task.file, task.uri, task.known, parsed.reason)
        elif parsed.rest is not None:
            self.flush()
            self._write_large(task, parsed)
        else:
            self._take(task, parsed.items)
        self._report.notes += [f"{uri}: {message}" for uri, message in parsed.notes]

    def _take(self, task: Task, items: list[Item]) -> None:
        self._files.append((task, items))
        n_nodes = sum(len(item.nodes) for item in items)
        self._n_file_nodes += n_nodes
        self._n_nodes += n_nodes
        if self._n_nodes >= GROUP_NODES:
            self._close_batch()
            before, self._full = self._full, self._group
            self._group, self._n_nodes = [], 0
            self._write(before)
        elif self._n_file_nodes >= BATCH_NODES:
            self._close_batch()

    def flush(self) -> None:
        """Encode and write what is held.

        Raises:
            StoreError: If the store cannot be written.
        """
        self._close_batch()
        self.finish()
        group, self._group, self._n_nodes = self._group, [], 0
        self._write(group)

    def finish(self) -> None:
        """Write the group that is full, if there is one.

        Raises:
            StoreError: If the store cannot be written.
        """
        full, self._full = self._full, []
        self._write(full)

    def close(self) -> None:
        """End the thread; what was not written is not."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _close_batch(self) -> None:
        if self._files:
            self._group.append(_Batch(self._files, self._encode(_items_of(self._files))))
            self._files, self._n_file_nodes = [], 0

    def _encode(self, items: Sequence[Item]) -> Future[list[ItemVectors]]:
        return self._thread.submit(lambda: self._encoder.encode_items(items) if items else [])

    def _write(self, group: Sequence[_Batch]) -> None:
        entries: list[Entry] = []
        written: list[_File] = []
        for batch in group:
            files, vectors = self._encoded(batch)
            sums = [task.sha256 for task, part in files for _ in part]
            entries += [
                Entry(item=item, vectors=vector, source_sha256=sha256)
                for item, vector, sha256 in zip(_items_of(files), vectors, sums, strict=True)
            ]
            written += files
        if written:
            self._store.replace({task.uri for task, _ in written}, entries)
            self._settle([(task, len(part)) for task, part in written])

    def _encoded(self, batch: _Batch) -> tuple[list[_File], list[ItemVectors]]:
        """Return the files that could be encoded, and their items' vectors."""
        files, vectors = batch.files, batch.vectors
        while True:
            try:
                return files, vectors.result()
            except EncodeError as error:
                files = self._without(files, error)
                vectors = self._encode(_items_of(files))

    def fail(self, file: SourceFile, uri: str, known: Record | None, reason: str) -> None:
        """Note a file that was not indexed; its items of before stay."""
        if known is not None and known.n_items:
            reason += f"; the {known.n_items} items of its earlier version stay in the index"
        self._report.failed.append(Failure(path=file.display, reason=reason))
        record = known or Record(uri=uri, path=str(file.path))
        self._manifest.put([replace(record, status="failed", reason=reason)])

    def _write_large(self, task: Task, parsed: Parsed) -> None:
        """Write a file whose items are not all in memory at any time."""
        try:
            n_items = self._store.replace({task.uri}, self._streamed(task, parsed))
        except StoppedError:
            return
        except _UnreadableError as error:
            self.fail(task.file, task.uri, task.known, error.reason)
            return
        self._settle([(task, n_items)])

    def _streamed(self, task: Task, parsed: Parsed) -> Iterator[Entry]:
        rest = iter(parsed.rest or ())
        batch, ahead = parsed.items, self._encode(parsed.items)
        while batch:
            if self._stopping():
                raise StoppedError
            try:
                following = _some(rest)
            except Exception as error:  # a parser may fail in any way; the run goes on
                raise _UnreadableError(reason_of(error)) from error
            try:
                vectors = ahead.result()
            except EncodeError as error:
                raise _UnreadableError(reason_of(error)) from error
            ahead = self._encode(following)
            for item, vector in zip(batch, vectors, strict=True):
                yield Entry(item=item, vectors=vector, source_sha256=task.sha256)
            batch = following

    def _without(self, files: list[_File], error: EncodeError) -> list[_File]:
        """Return the files without that of the item that failed.

        Raises:
            EncodeError: If it names none of their items.
        """
        for place, (task, items) in enumerate(files):
            if any(item.id == error.item_id for item in items):
                self.fail(task.file, task.uri, task.known, reason_of(error))
                return files[:place] + files[place + 1 :]
        raise error

    def _settle(self, written: list[tuple[Task, int]]) -> None:
        """Note files that the store has now."""
        records = []
        for task, n_items in written:
            if task.known is None or not (task.known.sha256 or task.known.n_items):
                self._report.indexed += 1
            else:
                self._report.replaced += 1
            self._report.items += n_items
            records.append(self._record(task, n_items))
        self._manifest.put(records)

    def _record(self, task: Task, n_items: int) -> Record:
        record = record_of(task, n_items, self._settings)
        try:
            companions = self._reader.companions(task.file.path)
            now = state_of(task.file.path, companions)
            steady = now == task.state or checksum_of(task.file.path, companions) == task.sha256
        except OSError:
            steady = False
        if not steady:
            self._report.notes.append(
                f"{task.file.display}: changed while it was being indexed; run the same command "
                "again to have its newest version"
            )
            return replace(record, sha256="", size=-1)
        return record


def _items_of(files: Sequence[_File]) -> list[Item]:
    return [item for _, items in files for item in items]


class _UnreadableError(Exception):
    """The rest of a file could not be read or encoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def record_of(task: Task, n_items: int, settings: str) -> Record:
    """Return the record of a file whose items are in the store."""
    return Record(
        uri=task.uri,
        path=str(task.file.path),
        size=task.state.size,
        mtime_ns=task.state.mtime_ns,
        companions=task.state.companions,
        sha256=task.sha256,
        settings=settings,
        checked_ns=task.checked_ns,
        n_items=n_items,
    )


def take_stock(file: SourceFile, uri: str, known: Record | None, reader: SourceReader) -> Task:
    """Read what tells whether a file has changed.

    Raises:
        OSError: If it cannot be read.
    """
    companions = reader.companions(file.path)
    checked_ns = time.time_ns()
    state = state_of(file.path, companions)
    return Task(
        file=file,
        uri=uri,
        known=known,
        state=state,
        sha256=checksum_of(file.path, companions),
        checked_ns=checked_ns,
    )


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
