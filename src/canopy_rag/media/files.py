"""From the `media` of a payload to the file that it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from canopy_rag.core.errors import IngestError

_PAGED = re.compile(r"(?P<path>.+)#page=(?P<page>[1-9]\d{0,5})", re.DOTALL)


class MediaFile(NamedTuple):
    """A file and the page in it."""

    path: Path
    page: int
    """1-based; above 1 only for a TIFF of several pages."""


def locate(media: str, root: Path | None) -> MediaFile:
    """Return the file that `media` names, which is inside `root`.

    `scan.tif#page=2` is the second page of `scan.tif`, unless a file has that very name.

    Args:
        media: A payload's `media`; not a `data:` URI.
        root: The folder that `media` is relative to and must stay in, links followed. None: `media`
            is an absolute path and may be anywhere.

    Raises:
        IngestError: If the path leads out of `root`, is relative without one, or is no file.
    """
    try:
        exact = _inside(media, root)
        if exact.is_file():
            return MediaFile(exact, 1)
        paged = _PAGED.fullmatch(media)
        path = _inside(paged["path"], root) if paged else exact
        found = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, IngestError):
            raise
        raise IngestError(media, f"is not a usable path: {error}") from error
    if not found:
        raise IngestError(media, "the file is gone or never was; index its folder again")
    return MediaFile(path, int(paged["page"]) if paged else 1)


def _inside(media: str, root: Path | None) -> Path:
    if root is None:
        path = Path(media)
        if not path.is_absolute():
            raise IngestError(media, "is a relative path; say which folder it is relative to")
        return path.resolve()
    base = root.resolve()
    path = (base / media).resolve()
    if not path.is_relative_to(base):
        raise IngestError(media, f"leads out of {root}; media files must be inside it")
    return path
