"""Checksums of an index's files: tables have none of their own, and a flipped bit may read well.

Kept for a local folder, in `checksums.json`; object storage checks what it keeps by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "checksums.json"
_FOLDER = "tables"
_DESCRIPTION = "index.json"
_WRITTEN_OVER = frozenset({"latest_version_hint.json"})
"""Files that are changed in place; without them the engine looks for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A part of an index that is not as it was written."""

    file: str
    """Path within the index, as far as it is known."""
    reason: str


def noted(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return size, time stamp and SHA-256 of the files that were noted; nothing if they were not.

    Args:
        folder: Of the index.
    """
    try:
        files = json.loads((folder / NAME).read_bytes())["files"]
        return {
            str(name): (int(size), int(at), str(sha)) for name, (size, at, sha) in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def current(folder: Path) -> dict[str, tuple[int, int, str]] | None:
    """Return what is to be noted now, or None if that is what was noted.

    Only new files are read: those of a table are never changed, but replaced by others.

    Raises:
        OSError: If a file cannot be read.
    """
    before = noted(folder)
    now: dict[str, tuple[int, int, str]] = {}
    for name, path in files_of(folder):
        status = path.stat()
        known = before.get(name)
        if known is None or known[:2] != (status.st_size, status.st_mtime_ns):
            known = (status.st_size, status.st_mtime_ns, _sha256(path))
        now[name] = known
    return None if now == before else now


def as_note(files: Mapping[str, tuple[int, int, str]]) -> dict[str, object]:
    """Return the content of `checksums.json`."""
    return {"files": {name: list(each) for name, each in sorted(files.items())}}


def damaged(folder: Path, *, whole: bool) -> list[Damage]:
    """Return the files that are not as they were noted.

    Args:
        folder: Of the index.
        whole: Whether all must be as noted; without it, a writer that did not get to note what it
            left may have compacted some away, and described it anew.

    Raises:
        OSError: If a file cannot be read.
    """
    found = []
    for name, (size, _, sha256) in sorted(noted(folder).items()):
        path = folder / name
        if not path.exists():
            if whole:
                found.append(Damage(file=name, reason="is gone"))
            continue
        if name == _DESCRIPTION and not whole:
            continue
        now = path.stat().st_size
        if now != size:
            found.append(Damage(file=name, reason=f"has {now:,} bytes, {size:,} were written"))
        elif _sha256(path) != sha256:
            found.append(Damage(file=name, reason="has other content than was written"))
    return found


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that are noted: their names within the index, and where they are."""
    if (folder / _DESCRIPTION).is_file():
        yield _DESCRIPTION, folder / _DESCRIPTION
    for place, _, names in os.walk(folder / _FOLDER):
        for name in set(names) - _WRITTEN_OVER:
            path = Path(place) / name
            yield path.relative_to(folder).as_posix(), path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
