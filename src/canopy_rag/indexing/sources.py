"""What the job must know of source files: how to read them, and when they have changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.core.errors import CanopyError, IngestError
from canopy_rag.core.types import Item

Note = Callable[[str, str], None]
"""Takes a uri and what of that source could not be used while the rest was."""
Parse = Callable[[Path, str, Note], Iterator[Item]]
"""Reads one file, named by its path and its uri, into items."""

_HASH_BYTES = 1024 * 1024
_RACY_NS = 2_000_000_000  # the coarsest clock of a file system in use: FAT, two seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReader:
    """How files are read; the job is given one. With several workers it must be picklable."""

    parse: Parse
    """Yields the items of one file; raises `IngestError`."""
    supports: Callable[[Path], bool]
    """Whether a file of this name can be read."""
    companions: Callable[[Path], Sequence[Path]]
    """The sidecar files (captions, subtitles) that are read with a file; they exist."""
    is_companion: Callable[[Path], bool]
    """Whether a file is the sidecar of another one, and so no source itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the file system says of a file and its companions, without reading them."""

    size: int
    mtime_ns: int
    companions: str
    """Name, size and time of each companion, as JSON; empty without any."""
    newest_ns: int
    """The latest modification of them all."""

    def surely_before(self, checked_ns: int) -> bool:
        """Whether a change after `checked_ns` would have moved a modification time."""
        return self.newest_ns < checked_ns - _RACY_NS


def state_of(path: Path, companions: Sequence[Path]) -> State:
    """Ask the file system about a file and its companions.

    Raises:
        OSError: If one of them is gone.
    """
    status = path.stat()
    beside = [(each.name, each.stat()) for each in companions]
    listed = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in beside]
    return State(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        companions=json.dumps(listed) if listed else "",
        newest_ns=max([status.st_mtime_ns, *(stat.st_mtime_ns for _, stat in beside)]),
    )


def checksum_of(path: Path, companions: Sequence[Path]) -> str:
    """Return the SHA-256 of a file; with companions, of all of them and their names.

    Raises:
        OSError: If one of them cannot be read.
    """
    main = _sha256(path)
    if not companions:
        return main
    lines = [main, *(f"{each.name}\0{_sha256(each)}" for each in companions)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def settings_key(*records: object) -> str:
    """Return a short key of what items depend on besides their file: options, fingerprint.

    Dataclasses count by their fields; another object, such as a splitter, by its type's name and
    its `version`, if it has one. Functions do not count.
    """
    return hashlib.sha256(json.dumps([_plain(each) for each in records]).encode()).hexdigest()[:16]


def reason_of(error: Exception) -> str:
    """Say why a file could not be indexed, and what to do."""
    if isinstance(error, IngestError):
        return error.reason
    if isinstance(error, CanopyError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "vanished while it was being indexed; index again if it comes back"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied; give read permission and index again"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "does not fit into memory; split it, or index it on a larger machine"
    # The name of the error tells what happened in a parser's library; the run must go on.
    return f"the parser failed with {type(error).__name__}: {error}; please report this file's kind"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or callable(value):
        return None
    if isinstance(value, (str, int, float, bool)):
        return value
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__} {getattr(value, 'version', '')}"
