"""Which module reads which file, by its suffix; modules are imported at their first file."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Literal

from canopy_rag.core.errors import CanopyError, IngestError, UnknownNameError
from canopy_rag.core.protocols import ItemSource
from canopy_rag.core.types import Item
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.sidecar import MAX_CAPTION_BYTES

Family = Literal["plain", "markdown", "html", "docx", "jsonl", "pdf", "sheets", "images", "video"]

_SUFFIXES: dict[Family, tuple[str, ...]] = {
    "plain": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm", ".xhtml"),
    "docx": (".docx",),
    "jsonl": (".jsonl",),
    "pdf": (".pdf",),
    "sheets": (".csv", ".tsv", ".xlsx", ".xlsm", ".ods", ".parquet"),
    "images": (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff"),
    "video": (".mp4", ".webm", ".mkv", ".mov", ".avi", ".m4v"),
}
_FAMILY_OF: dict[str, Family] = {
    suffix: family for family, names in _SUFFIXES.items() for suffix in names
}
_SUBTITLES = frozenset({".srt", ".vtt", ".ass", ".ssa"})
_LANGUAGE_TAG = re.compile(r"\.[A-Za-z]{2,3}(?:-[A-Za-z0-9]+)?(?:\.(?:sdh|cc))?$", re.I)
_MEDIA: tuple[Family, Family] = ("images", "video")


def suffixes() -> frozenset[str]:
    """Return the suffixes of the files that can be read, lower-case, with the dot.

    Log files are not among them: they are seldom what a question is about, and never few.
    """
    return frozenset(_FAMILY_OF)


def family_of(path: Path) -> Family | None:
    """Return the family of formats that a file's suffix belongs to, or None if it is not read.

    >>> family_of(Path("a/Report.PDF")), family_of(Path("a/notes.doc"))
    ('pdf', None)
    """
    return _FAMILY_OF.get(path.suffix.lower())


def is_supported(path: Path) -> bool:
    """Tell whether files with this suffix can be read."""
    return family_of(path) is not None


def sidecars(path: Path) -> list[Path]:
    """Return the files that are read together with `path`: captions and subtitles; they exist."""
    family = family_of(path)
    if family not in _MEDIA:
        return []
    found: list[Path] = _module(family).sidecars(path)
    return found


def is_sidecar(path: Path) -> bool:
    """Tell whether a file only says more about a picture or video beside it.

    Subtitles beside a video of the same stem, a language tag aside (`film.en.srt` of `film.mp4`),
    and a short `photo.txt` or `photo.jpg.txt` beside `photo.jpg`. They are read with their medium
    and are no sources.
    """
    suffix = path.suffix.lower()
    if suffix in _SUBTITLES:
        return any(
            _beside(path, stem, ("video",))
            for stem in {path.stem, _LANGUAGE_TAG.sub("", path.stem)}
        )
    if suffix != ".txt":
        return False
    named = path.with_name(path.stem)
    medium = family_of(named) in _MEDIA and named.is_file()
    return (medium or _beside(path, path.stem, _MEDIA)) and (
        path.stat().st_size <= MAX_CAPTION_BYTES
    )


def _beside(path: Path, stem: str, families: Sequence[Family]) -> bool:
    """Whether a file of the stem and one of the families lies beside `path`."""
    return any(
        path.with_name(stem + written).is_file()
        for family in families
        for suffix in _SUFFIXES[family]
        for written in (suffix, suffix.upper())
    )


def _module(family: Family) -> ModuleType:
    return importlib.import_module(f"canopy_rag.ingest.{family}")


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of one file, by the module for its suffix.

    Args:
        path: The file.
        uri: Its name in items, ids and errors: the path relative to the indexed root, with `/`.
        options: Sizes, splitter and more.

    Raises:
        UnknownNameError: If files with this suffix are not read.
        IngestError: If the file cannot be read; whatever else its parser raises is chained to it.
        MissingDependencyError: If the extra for this format is not installed.
    """
    family = family_of(path)
    if family is None:
        raise UnknownNameError("file type", path.suffix or path.name, suffixes())
    source: ItemSource = _module(family).parse
    # A broken file makes parser libraries fail in ways that nobody can list.
    try:
        n_items = 0
        for item in source(path, uri, options):
            yield item
            n_items += 1
        if not n_items:
            raise IngestError(uri, "holds nothing that could be indexed")
    except CanopyError:
        raise
    except OSError as error:
        raise IngestError(uri, f"cannot be read: {error.strerror or error}") from error
    except Exception as error:
        detail = f"{type(error).__name__}: {error}".rstrip(": ")
        reason = f"is damaged or not what its suffix says ({detail[:300]})"
        raise IngestError(uri, reason) from error
