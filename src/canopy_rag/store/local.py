"""An index in a local folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from canopy_rag._optional import require
from canopy_rag.core.errors import StoreError
from canopy_rag.store import checksums
from canopy_rag.store.checksums import Damage
from canopy_rag.store.location import Location, Stamp, as_json

_META, _LOCK, _WRITER = "index.json", "write.lock", "writer.json"
_DISK_FULL = ("no space left", "os error 28", "disk full", "file too large", "os error 27")
_REFUSED = ("permission denied", "read-only", "os error 13", "os error 30")


class LocalFolder(Location):
    """A local folder that holds an index.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: Any = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def local(self) -> Path:
        """The folder itself."""
        return self.path

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

    def stamp(self) -> Stamp | None:
        """Return the state of `index.json`; None if it is not there, or hidden."""
        try:
            status = (self.path / _META).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def forget(self) -> None:
        """Do nothing: every stamp is that of now."""

    def n_bytes(self) -> int:
        """Return the size of all files of the index."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a compaction may take it away
                    total += (Path(folder) / name).stat().st_size
        return total

    def damaged(self) -> list[Damage]:
        """Return the files of the tables that are not as they were written.

        Raises:
            StoreError: If one cannot be read.
        """
        try:
            return checksums.damaged(self.path, whole=not (self.path / _WRITER).exists())
        except OSError as error:
            raise StoreError(self.failure("read", error)) from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[bool]:
        """Hold the folder for one writer; may be nested. Yields whether this is the outermost call.

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
                note = {"pid": os.getpid(), "host": socket.gethostname()}
                self._write(_WRITER, as_json(note))
                self._empty_staging()
            yield first
        finally:
            if first:
                self._note_checksums()
                with contextlib.suppress(OSError):  # says who wrote last; holds no lock
                    (self.path / _WRITER).unlink(missing_ok=True)
            self._lock.release()

    def confirm(self) -> None:
        """Do nothing: nobody takes a file lock over while its process lives."""

    def keep(self) -> None:
        """Do nothing: notes are where they belong."""

    def failure(self, what: Literal["read", "written"], error: BaseException) -> str:
        """Say why the index cannot be read or written, and what to do."""
        reason = str(error)
        lowered = reason.lower()
        if what == "read":
            remedy = f"`canopy verify --index {self}` tells what is damaged and how to make it anew"
        elif any(sign in lowered for sign in _DISK_FULL):
            remedy = "the disk is full; make room and run the same command again"
        elif any(sign in lowered for sign in _REFUSED):
            remedy = (
                "it is not writable; give write permission, or choose another folder with --index"
            )
        else:
            remedy = "what was written before is kept; run the same command again"
        return f"the index in {str(self)!r} cannot be {what}: {remedy} ({reason})"

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Turn an operating system's error into a `StoreError` that says what to do."""
        try:
            yield
        except OSError as error:
            raise StoreError(self.failure("written", error)) from error

    def _note_checksums(self) -> None:
        """Note the new files of the tables; without room for it none are noted."""
        try:
            files = checksums.current(self.path)
            if files is not None:
                self._write(checksums.NAME, as_json(checksums.as_note(files)))
        except (OSError, StoreError):
            with contextlib.suppress(OSError):
                self._delete(checksums.NAME)

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

    def _read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def _delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file through a temporary one, so that it is never seen in part."""
        temporary = self.path / f".{name}.{os.getpid()}"
        with self.guard():
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path / name)
            finally:
                temporary.unlink(missing_ok=True)
