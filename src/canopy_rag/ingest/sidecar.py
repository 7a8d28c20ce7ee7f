"""What stands beside a media file: its caption, and its name as words."""

from __future__ import annotations

import re
from pathlib import Path

from canopy_rag.core.errors import IngestError
from canopy_rag.ingest.decode import read_text
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions

MAX_CAPTION_BYTES = 8_000
"""A longer text beside a picture is a document of its own, not its caption."""


def readable_name(path: Path) -> str:
    """Return a file's name as words.

    >>> readable_name(Path("pictures/hubble_deep-field.jpg"))
    'hubble deep field'
    """
    words = re.sub(r"[\s_.\-]+", " ", path.stem).strip()
    return words or path.name


def caption_files(path: Path) -> list[Path]:
    """Return the text files beside `path` that may hold its caption, the more specific first.

    A text longer than `MAX_CAPTION_BYTES` is a document of its own.
    """
    candidates = (path.with_name(f"{path.name}.txt"), path.with_suffix(".txt"))
    return [
        candidate
        for candidate in candidates
        if candidate.is_file() and candidate.stat().st_size <= MAX_CAPTION_BYTES
    ]


def sidecar_caption(path: Path, uri: str, options: IngestOptions) -> str:
    """Return the text of `photo.png.txt`, or else `photo.txt`, beside `photo.png`; else empty.

    A sidecar that cannot be used is noted.
    """
    for sidecar in caption_files(path):
        try:
            caption = " ".join(read_text(sidecar, sidecar.name, options).split())
        except IngestError as error:
            note(options, uri, f"its caption {error}")
            continue
        if caption:
            return caption
    return ""
