"""What stands beside a media file: captions, decoded text files, readable names, notes."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from canopy_rag._optional import require
from canopy_rag.core.errors import MissingDependencyError
from canopy_rag.ingest.options import IngestOptions

MAX_CAPTION_BYTES = 8_000
"""A longer text beside a picture is a document of its own, not its caption."""

_log = logging.getLogger("canopy_rag.ingest")
_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def readable_name(path: Path) -> str:
    """Return a file's name as words.

    >>> readable_name(Path("pictures/hubble_deep-field.jpg"))
    'hubble deep field'
    """
    words = re.sub(r"[\s_.\-]+", " ", path.stem).strip()
    return words or path.name


def caption_files(path: Path) -> list[Path]:
    """Return the text files beside `path` that may hold its caption, the more specific first."""
    candidates = (path.with_name(f"{path.name}.txt"), path.with_suffix(".txt"))
    return [candidate for candidate in candidates if candidate.is_file()]


def sidecar_caption(path: Path, uri: str, options: IngestOptions) -> str:
    """Return the text of `photo.png.txt`, or else `photo.txt`, beside `photo.png`; else empty.

    A sidecar that cannot be used is noted.
    """
    for sidecar in caption_files(path):
        if sidecar.stat().st_size > MAX_CAPTION_BYTES:
            note(options, uri, f"{sidecar.name} is too long for a caption of it")
            continue
        try:
            caption = " ".join(read_text(sidecar).split())
        except (OSError, ValueError) as error:
            note(options, uri, f"its caption {sidecar.name} cannot be read: {error}")
            continue
        if caption:
            return caption
    return ""


def read_text(path: Path) -> str:
    """Return a small text file: UTF-8 or UTF-16 by its mark, else by detection.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If its encoding cannot be told.
    """
    data = path.read_bytes()
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(encoding)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _detected(data)


def _detected(data: bytes) -> str:
    try:
        detection = require("charset_normalizer", extra="index", feature="text not in UTF-8")
    except MissingDependencyError as error:
        raise ValueError(str(error)) from error
    best = detection.from_bytes(data).best()
    if best is None:
        raise ValueError("its encoding cannot be told; save it as UTF-8")
    return str(best)


def note(options: IngestOptions, uri: str, message: str) -> None:
    """Tell what of a source could not be used, while the rest of it is indexed."""
    if options.note is None:
        _log.warning("%s: %s", uri, message)
    else:
        options.note(uri, message)
