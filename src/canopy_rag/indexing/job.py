"""One indexing run: scan, parse, encode, write; and the removal of sources.

Every commit of the store holds whole files, and the manifest learns of them afterwards. A run that
is killed in between does the files of two commits again at the next: nothing is lost or doubled.
A file that changed and cannot be read any more keeps its items of before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from canopy_rag.core.protocols import Encoder, StoreWriter
from canopy_rag.indexing.encoding import AnyEncoded
from canopy_rag.indexing.engine import LocalEngine, MakeEngine
from canopy_rag.indexing.interrupt import Interrupt
from canopy_rag.indexing.manifest import Manifest, Record
from canopy_rag.indexing.parsing import Work
from canopy_rag.indexing.processes import Limits
from canopy_rag.indexing.report import Failure, IndexReport, Progress
from canopy_rag.indexing.roots import Roots, resolved
from canopy_rag.indexing.scan import Scanner, SourceFile
from canopy_rag.indexing.sources import Parse, SourceReader, reason_of, state_of
from canopy_rag.indexing.writing import Task, Writer, record_of, take_stock

_AT_A_TIME = 500  # sources per removal


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """What of the named files and folders to take, and how."""

    include: tuple[str, ...] = ()
    """Patterns as in `.gitignore`, relative to a named folder: only files that fit one."""
    exclude: tuple[str, ...] = ()
    """Patterns of files and folders to leave out."""
    workers: int = 1
    """Processes that parse."""
    limits: Limits | None = None
    """What the parser of one file may take before its process is ended. None: with one worker,
    parse in the process that encodes, where a crash or hang is one of the run."""
    engine: MakeEngine | None = None
    """Makes what parses and encodes, once there are files to work on; None: this machine."""
    prune: bool = False
    """Remove the sources under the named paths that are gone, hidden or ignored by now. What only
    `include` and `exclude` leave out stays, and so does all of a named folder that is gone."""


def index_files(
    paths: Sequence[Path],
    *,
    folder: Path,
    store: StoreWriter,
    encoder: Encoder,
    reader: SourceReader,
    settings: str,
    options: IndexOptions | None = None,
    on_progress: Progress | None = None,
) -> IndexReport:
    """Bring an index up to date with files and folders.

    Files whose size, time stamp and settings have not changed cost a look; neither the encoder nor
    the store's engine is loaded for them.

    Args:
        paths: Files and folders, as the user named them.
        folder: The index's folder; manifest and roots lie in it.
        store: Opened on it.
        encoder: Makes the vectors.
        reader: Knows which files can be read, and reads them.
        settings: Key of what items depend on besides their file (`settings_key`).
        options: What to take, and how; None: the defaults.
        on_progress: Hears how far the run is.

    Raises:
        StoreError: If the index is being written by another process, is of another encoder, or
            cannot be written.
        ConfigError: If a pattern cannot be understood.
        KeyboardInterrupt: After Ctrl-C; what was committed is kept.
    """
    options = options or IndexOptions()
    store.check(encoder.fingerprint)
    with store.writing(), contextlib.closing(Manifest(folder, store.identity)) as manifest:
        if manifest.is_new:
            manifest.put(
                Record(uri=uri, path="", n_items=n_items)
                for uri, n_items in store.sources().items()
            )
        report, interrupt = IndexReport(), Interrupt()
        writer = Writer(
            store=store,
            manifest=manifest,
            reader=reader,
            report=report,
            settings=settings,
            stopping=lambda: interrupt.asked,
        )
        run = _Run(
            paths=paths,
            roots=Roots(folder),
            store=store,
            manifest=manifest,
            scanner=Scanner(reader, include=options.include, exclude=options.exclude, skip=folder),
            reader=reader,
            settings=settings,
            writer=writer,
            report=report,
            interrupt=interrupt,
            on_progress=on_progress,
        )
        run(options.engine or partial(_local_engine, reader.parse, encoder, options), options.prune)
        return report


def remove_files(uris: Collection[str], *, folder: Path, store: StoreWriter) -> int:
    """Remove all items of sources, and wipe what they held; return how many items there were.

    Raises:
        StoreError: If the index is being written by another process, or cannot be written.
    """
    with store.writing(), contextlib.closing(Manifest(folder, store.identity)) as manifest:
        n_items = _remove(sorted(uris), store, manifest)
        if store.needs_compaction:
            store.compact()
        return n_items


@dataclass(slots=True, kw_only=True)
class _Run:
    """The parts of one run, and how far it is."""

    paths: Sequence[Path]
    roots: Roots
    store: StoreWriter
    manifest: Manifest
    scanner: Scanner
    reader: SourceReader
    settings: str
    writer: Writer
    report: IndexReport
    interrupt: Interrupt
    on_progress: Progress | None
    seen: set[str] = field(default_factory=set)
    """Uris that the scan came across."""
    n_done: int = 0

    def __call__(self, make_engine: MakeEngine, prune: bool) -> None:
        self.roots.add([path for path in self.paths if path.is_dir() or self.reader.supports(path)])
        with self.interrupt:
            files = self._changed_by_time()
            self.report.ignored = self.scanner.ignored
            self.report.failed += self.scanner.failed
            if files:
                self._process(files, make_engine)
            self._tell("", len(files))
            if prune and not self.interrupt.asked:
                self._prune()
            if self.interrupt.asked:
                raise KeyboardInterrupt
            if self.report.items or self.store.needs_compaction:
                self.store.compact()

    def _changed_by_time(self) -> list[tuple[SourceFile, str, Record | None]]:
        """Return the files that are new or whose time stamp does not tell that they are old."""
        found = []
        for file in self.scanner.scan(self.paths):
            uri = self.roots.uri(file.path)
            known = self.manifest.get(uri)
            if uri in self.seen or _is_another(known, file):
                other = "another file of this run" if known is None else known.path
                reason = f"has the same name in the index, {uri!r}, as {other}; rename one of them"
                self.report.failed.append(Failure(path=file.display, reason=reason))
                continue
            self.seen.add(uri)
            if known is not None and self._is_unchanged(file, known):
                self.report.unchanged += 1
            else:
                found.append((file, uri, known))
        return found

    def _is_unchanged(self, file: SourceFile, known: Record) -> bool:
        if known.status != "indexed" or known.settings != self.settings:
            return False
        try:
            state = state_of(file.path, self.reader.companions(file.path))
        except OSError:
            return False  # why is said when it is read
        as_known = (known.size, known.mtime_ns, known.companions, known.path)
        return as_known == (
            state.size,
            state.mtime_ns,
            state.companions,
            str(file.path),
        ) and state.surely_before(known.checked_ns)

    def _process(
        self, files: Sequence[tuple[SourceFile, str, Record | None]], make_engine: MakeEngine
    ) -> None:
        with contextlib.closing(make_engine(len(files), lambda: self.interrupt.asked)) as engine:
            self.writer.commit_nodes = engine.commit_nodes
            self._write_all(engine.encoded(self._work(files)), len(files))
        self.writer.report([file for file, _, _ in files])

    def _write_all(self, encoded: Iterator[tuple[Work[Task], AnyEncoded]], total: int) -> None:
        for work, file in encoded:
            self._tell(work.about.file.display, total)
            self.writer.add(work.about, file, partial(self._tell, work.about.file.display, total))
            self.n_done += 1
            if self.interrupt.asked:
                break
        self.writer.flush()
        if self.n_done != total and not self.interrupt.asked:
            raise RuntimeError(f"the engine gave {self.n_done} of {total} files back")

    def _work(self, files: Sequence[tuple[SourceFile, str, Record | None]]) -> Iterator[Work[Task]]:
        """Yield the files whose content has changed."""
        for file, uri, known in files:
            if self.interrupt.asked:
                return
            try:
                task = take_stock(file, uri, known, self.reader)
            except OSError as error:
                self.writer.fail(file, uri, known, reason_of(error))
                self.n_done += 1
                continue
            if _is_same(task, self.settings):
                self.report.unchanged += 1
                self.n_done += 1
                self.manifest.put(
                    [record_of(task, 0 if known is None else known.n_items, self.settings)]
                )
                continue
            yield Work(path=file.path, uri=uri, about=task)

    def _prune(self) -> None:
        """Remove the sources under the named paths that the scan did not come across."""
        named = [resolved(path) for path in self.paths]
        gone = [
            record
            for record in self.manifest.all()
            if record.uri not in self.seen and self._is_gone(record, named)
        ]
        uris = [record.uri for record in gone]
        for begin in range(0, len(uris), _AT_A_TIME):
            _remove(uris[begin : begin + _AT_A_TIME], self.store, self.manifest)
        self.report.removed += len(uris)
        # A path that the user names because it is gone has not failed.
        settled = {
            str(path)
            for path, real in zip(self.paths, named, strict=True)
            if not real.exists() and any(self._lies_in(record, real) for record in gone)
        }
        self.report.failed = [each for each in self.report.failed if each.path not in settled]

    def _is_gone(self, record: Record, named: Sequence[Path]) -> bool:
        path = self._path_of(record)
        if path is None or not any(path.is_relative_to(folder) for folder in named):
            return False
        root = self.roots.root_of(path)
        if root is None or not root.exists():
            return False  # perhaps a disk that is not mounted
        if any(path.is_relative_to(folder) for folder in self.scanner.unread):
            return False
        return not (path.exists() and self.scanner.leaves_out(path))

    def _path_of(self, record: Record) -> Path | None:
        return Path(record.path) if record.path else self.roots.path(record.uri)

    def _lies_in(self, record: Record, folder: Path) -> bool:
        path = self._path_of(record)
        return path is not None and path.is_relative_to(folder)

    def _tell(self, current: str, total: int, more: int = 0) -> None:
        """Tell how far the run is, with `more` items of the file at work."""
        if self.on_progress is not None:
            self.on_progress(self.n_done, total, current, self.report.items + more)


def _local_engine(
    parse: Parse,
    encoder: Encoder,
    options: IndexOptions,
    n_files: int,
    stopping: Callable[[], bool],
) -> LocalEngine[Task]:
    return LocalEngine(
        parse,
        encoder,
        checksum=lambda task: task.sha256,
        workers=min(options.workers, n_files),
        limits=options.limits,
        stopping=stopping,
    )


def _remove(uris: Sequence[str], store: StoreWriter, manifest: Manifest) -> int:
    n_items = store.remove(uris)
    manifest.drop(uris)
    return n_items


def _is_same(task: Task, settings: str) -> bool:
    known = task.known
    return (
        known is not None
        and known.status == "indexed"
        and known.settings == settings
        and known.sha256 == task.sha256
    )


def _is_another(known: Record | None, file: SourceFile) -> bool:
    """Whether a uri belongs to another file that is still there."""
    if known is None or not known.path or known.path == str(file.path):
        return False
    other = Path(known.path)
    return other.exists() and not other.samefile(file.path)
