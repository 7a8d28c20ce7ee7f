"""Where an index lies, what `index.json` says about it, and who may write to it.

Everything that touches paths is here, so that a place other than a local folder is one more class.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Fingerprint

FORMAT_VERSION = 2
_META, _LOCK, _WRITER, _REMOVED = "index.json", "write.lock", "writer.json", "removed.json"


Stamp = tuple[int, int, int]
"""Tells one state of a file from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMeta:
    """What `index.json` holds."""

    identity: str
    """Drawn when the index was made; another index in the same place has another one."""
    created: str
    """ISO 8601, UTC."""
    encoder: Fingerprint
    corpora: dict[str, str]
    """Table of each corpus."""
    hybrid: bool = False
    """Whether a full-text index is kept beside the vectors."""
    trained: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of items that each table's vector index was trained on."""
    media: list[str] = dataclasses.field(default_factory=list)
    """Modalities that were embedded from their pixels; the others through their text."""
    adapter: str = ""
    """Folder of the encoder's adapter, absolute; empty: it had none."""
    format_version: int = FORMAT_VERSION


class LocalFolder:
    """A local folder that holds an index.

    Args:
        path: The folder; it need not exist.

    Raises:
        StoreError: If the path names an object store, which is not supported yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in str(path):
            raise StoreError(f"an index lies in a local folder; {str(path)!r} is not one")
        self.path = Path(path)
        self._lock: Any = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def tables(self) -> str:
        """What LanceDB connects to."""
        return str(self.path / "tables")

    def versions_of(self, table: str) -> Path:
        """The folder into which every commit of a table writes a file."""
        return self.path / "tables" / f"{table}.lance" / "_versions"

    @property
    def staging(self) -> Path:
        """A folder for what is not written yet; emptied when a writer starts."""
        return self.path / "staging"

    @property
    def has_index(self) -> bool:
        """Whether there is an `index.json`."""
        return (self.path / _META).is_file()

    def read_meta(self) -> IndexMeta:
        """Read `index.json`.

        Raises:
            StoreError: If it is missing, damaged, or of another format version.
        """
        try:
            data = json.loads((self.path / _META).read_bytes())
        except FileNotFoundError as error:
            raise StoreError(
                f"no index in {str(self)!r}; make one with `canopy index PATH --index {self}`"
            ) from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{str(self.path / _META)!r} cannot be read ({error}); restore it from a backup, "
                "or index again into a new folder"
            ) from error
        version = data.get("format_version") if isinstance(data, dict) else None
        if version != FORMAT_VERSION:
            raise StoreError(
                f"the index in {str(self)!r} has format version {version}, this program reads "
                f"{FORMAT_VERSION}; index again into a new folder, or use the canopy-rag version "
                "that made it"
            )
        try:
            known = {
                one.name: data[one.name]
                for one in dataclasses.fields(IndexMeta)
                if one.name in data
            }  # a later version of the same format may note more
            return IndexMeta(**{**known, "encoder": Fingerprint(**data["encoder"])})
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"{str(self.path / _META)!r} does not describe an index ({error}); restore it from "
                "a backup, or index again into a new folder"
            ) from error

    def current_meta(self, meta: IndexMeta, stamp: Stamp | None) -> tuple[IndexMeta, Stamp]:
        """Return what `index.json` says now, and its stamp; reads it only if that changed.

        Raises:
            StoreError: If it is missing, damaged, or of another format version.
        """
        try:
            status = (self.path / _META).stat()
        except OSError:
            return self.read_meta(), (0, 0, 0)
        now = (status.st_mtime_ns, status.st_ino, status.st_size)
        return (meta if now == stamp else self.read_meta()), now

    def write_meta(self, meta: IndexMeta) -> None:
        """Write `index.json`, all of it or nothing.

        Raises:
            StoreError: If the folder cannot be written.
        """
        self._write(_META, dataclasses.asdict(meta))

    @property
    def removal_pending(self) -> bool:
        """Whether removed content may still stand in some file."""
        return (self.path / _REMOVED).exists()

    def mark_removal(self) -> None:
        """Note, before content is removed, that files must be rewritten afterwards."""
        if not self.removal_pending:
            self._write(_REMOVED, {"pending": True})

    def clear_removal(self) -> None:
        """Note that nothing of the removed content is left."""
        with self.guard():
            (self.path / _REMOVED).unlink(missing_ok=True)

    def n_bytes(self) -> int:
        """Return the size of all files of the index."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a compaction may take it away
                    total += (Path(folder) / name).stat().st_size
        return total

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for one writer; may be nested.

        Raises:
            StoreError: If another process writes, or the folder cannot be written.
        """
        filelock = require("filelock", extra="index", feature="Writing an index")
        if self._lock is None:
            with self.guard():
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock = filelock.FileLock(str(self.path / _LOCK), timeout=0)
        first = not self._lock.is_locked
        with self.guard():
            try:
                self._lock.acquire()
            except filelock.Timeout as error:
                raise StoreError(
                    f"the index in {str(self)!r} is being written by {self._writer()}; wait until "
                    "it is done, or end it"
                ) from error
        try:
            if first:
                self._write(_WRITER, {"pid": os.getpid(), "host": socket.gethostname()})
                self._empty_staging()
            yield
        finally:
            if first:
                with contextlib.suppress(OSError):  # says who wrote last; holds no lock
                    (self.path / _WRITER).unlink(missing_ok=True)
            self._lock.release()

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Turn an operating system's error into a `StoreError` that says what to do."""
        try:
            yield
        except OSError as error:
            raise StoreError(write_failure(str(self), error)) from error

    @contextlib.contextmanager
    def engine(self) -> Iterator[None]:
        """Turn an error of the engine at opening a table into a `StoreError`."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreError(
                f"the tables of the index in {str(self)!r} cannot be opened; restore them from a "
                f"backup, or index again into a new folder ({error})"
            ) from error

    def _writer(self) -> str:
        try:
            writer = json.loads((self.path / _WRITER).read_bytes())
            return f"process {writer['pid']} on {writer['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def _empty_staging(self) -> None:
        if self.staging.is_dir():
            for left_over in self.staging.iterdir():
                left_over.unlink(missing_ok=True)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        """Write a file through a temporary one, so that it is never seen in part."""
        temporary = self.path / f".{name}.{os.getpid()}"
        with self.guard():
            try:
                with temporary.open("w", encoding="utf-8") as file:
                    json.dump(data, file, indent=2, ensure_ascii=True)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path / name)
            finally:
                temporary.unlink(missing_ok=True)


def write_failure(place: str, error: BaseException) -> str:
    """Say why an index could not be written, and what to do."""
    reason = str(error)
    lowered = reason.lower()
    if "no space left" in lowered or "os error 28" in lowered or "disk full" in lowered:
        remedy = "the disk is full; make room and run the same command again"
    elif any(word in lowered for word in ("permission denied", "read-only", "os error 13")):
        remedy = "it is not writable; give write permission, or choose another folder with --index"
    else:
        remedy = "what was written before is kept; run the same command again"
    return f"the index in {place!r} cannot be written: {remedy} ({reason})"
