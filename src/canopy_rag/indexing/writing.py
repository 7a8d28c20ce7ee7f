"""Encoded files to the store, a group of files per commit; manifest and report follow.

A group is held in memory; a file that is larger than a group streams through on its own and still
becomes visible in one commit, since the store takes it in before it commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from canopy_rag.core.protocols import Entry, Packed, StoreWriter
from canopy_rag.indexing.encoding import GROUP_NODES, AnyEncoded, UnreadableError
from canopy_rag.indexing.manifest import Manifest, Record
from canopy_rag.indexing.report import Failure, IndexReport
from canopy_rag.indexing.scan import SourceFile
from canopy_rag.indexing.sources import SourceReader, State, checksum_of, state_of


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


class Writer:
    """Writes files, and keeps manifest and report in step.

    Args:
        store: Where items go.
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
        manifest: Manifest,
        reader: SourceReader,
        report: IndexReport,
        settings: str,
        stopping: Callable[[], bool],
    ) -> None:
        self.commit_nodes = GROUP_NODES
        """Nodes of a group."""
        self._store = store
        self._manifest = manifest
        self._reader = reader
        self._report = report
        self._settings = settings
        self._stopping = stopping
        self._group: list[tuple[Task, list[Entry] | list[Packed]]] = []
        self._n_nodes = 0
        self._failed: list[Failure] = []
        self._notes: list[tuple[str, str]] = []
        """Files as the user named them, and what is to be said of them."""

    def add(self, task: Task, encoded: AnyEncoded, tell: Callable[[int], None]) -> None:
        """Take in one file; write when a group is full.

        Args:
            task: The file.
            encoded: Its items.
            tell: Hears now and then how many items of a large file are written.

        Raises:
            StoreError: If the store cannot be written.
        """
        if encoded.reason is not None:
            self.fail(task.file, task.uri, task.known, encoded.reason)
        elif encoded.rest is not None:
            self.flush()
            self._write_large(task, encoded.rest, tell)
        else:
            self._group.append((task, encoded.entries))
            self._n_nodes += sum(entry.n_nodes for entry in encoded.entries)
            if self._n_nodes >= self.commit_nodes:
                self.flush()
        self._notes += [(task.file.display, f"{uri}: {note}") for uri, note in encoded.notes]

    def flush(self) -> None:
        """Write what is held.

        Raises:
            StoreError: If the store cannot be written.
        """
        group, self._group, self._n_nodes = self._group, [], 0
        if group:
            entries = [entry for _, own in group for entry in own]
            self._store.replace({task.uri for task, _ in group}, entries)
            self._settle([(task, sum(len(one.ids) for one in own)) for task, own in group])

    def report(self, files: Sequence[SourceFile]) -> None:
        """Report failures and notes in the order of the files, whichever came back first."""
        order = {file.display: place for place, file in enumerate(files)}
        self._report.failed += sorted(self._failed, key=lambda failure: order[failure.path])
        self._report.notes += [
            note for _, note in sorted(self._notes, key=lambda noted: order[noted[0]])
        ]
        self._failed, self._notes = [], []

    def fail(self, file: SourceFile, uri: str, known: Record | None, reason: str) -> None:
        """Note a file that was not indexed; its items of before stay."""
        if known is not None and known.n_items:
            reason += f"; the {known.n_items} items of its earlier version stay in the index"
        self._failed.append(Failure(path=file.display, reason=reason))
        record = known or Record(uri=uri, path=str(file.path))
        self._manifest.put([replace(record, status="failed", reason=reason)])

    def _write_large(
        self,
        task: Task,
        parts: Iterator[list[Entry]] | Iterator[list[Packed]],
        tell: Callable[[int], None],
    ) -> None:
        """Write a file whose items are not all in memory at any time."""
        try:
            n_items = self._store.replace({task.uri}, self._streamed(parts, tell))
        except StoppedError:
            return
        except UnreadableError as error:
            self.fail(task.file, task.uri, task.known, error.reason)
            return
        self._settle([(task, n_items)])

    def _streamed(
        self,
        parts: Iterator[list[Entry]] | Iterator[list[Packed]],
        tell: Callable[[int], None],
    ) -> Iterator[Entry | Packed]:
        n_items = 0
        for entries in parts:
            if self._stopping():
                raise StoppedError
            yield from entries
            n_items += sum(len(entry.ids) for entry in entries)
            tell(n_items)

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
            name = task.file.display
            told = "changed while it was being indexed; run the same command again to have its"
            self._notes.append((name, f"{name}: {told} newest version"))
            return replace(record, sha256="", size=-1)
        return record


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
