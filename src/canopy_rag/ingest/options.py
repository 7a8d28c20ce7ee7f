"""Settings of reading files into items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import SentenceSplitter


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How files become items; the defaults suit a 256-token encoder."""

    splitter: SentenceSplitter
    """Finds the sentences of a paragraph."""
    target_chars: int = 1200
    """Text items grow to about this size, then end at the next structural border."""
    max_rows: int = 200
    """Most rows of a table item; a longer table becomes several items with the same header."""
    branching: int = 2
    """Most children of a node (2: halving, D1)."""
    video_item_s: float = 600.0
    """Longest stretch of a video in one item, in seconds (D1)."""
    segment_s: float = 10.0
    """Length of a video segment where no scene is found (D1)."""
    max_frames: int = 8
    """Most frames of a segment (D1)."""
    ocr: Literal["auto", "on", "off"] = "auto"
    """Read text in images: `auto` when the `ocr` extra is installed."""
    max_image_px: int = 100_000_000
    """Larger images are described by their file alone and never decoded."""
    note: Callable[[str, str], None] | None = None
    """Called with a source's uri and what of it could not be used, while the rest is indexed; None:
    such notes go to the log."""

    def __post_init__(self) -> None:
        for name in ("target_chars", "max_rows", "video_item_s", "segment_s", "max_frames"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"ingest.{name} must be above 0, got {getattr(self, name)}")
        if self.branching < 2:
            raise ConfigError(f"ingest.branching must be at least 2, got {self.branching}")
