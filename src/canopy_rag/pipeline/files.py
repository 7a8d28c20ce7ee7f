"""From settings to the parser of files; light, since each process that parses imports it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.config.sections import IngestConfig
from canopy_rag.core.render import node_body
from canopy_rag.core.types import Item
from canopy_rag.ingest.options import IngestOptions

LANGUAGE_SAMPLE_CHARS = 4_000
"""Read of each file to tell its language."""
NOT_ENGLISH = (
    "is not in English, and the encoder was trained for English; what is found and kept may be "
    "wrong"
)


def build_options(
    config: IngestConfig, note: Callable[[str, str], None] | None = None
) -> IngestOptions:
    """Return how files become items.

    Args:
        config: The settings.
        note: Called with a source's uri and what of it could not be used.
    """
    from canopy_rag.text import DefaultSplitter

    return IngestOptions(
        splitter=DefaultSplitter(),
        target_chars=config.target_chars,
        max_rows=config.max_rows,
        branching=config.branching,
        video_item_s=config.video_item_s,
        segment_s=config.segment_s,
        max_frames=config.max_frames,
        ocr=config.ocr,
        max_image_px=config.max_image_px,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class FileParser:
    """Reads one file; crosses to worker processes with its settings alone."""

    config: IngestConfig
    english_only: bool = False
    """Whether the encoder knows no other language; a text in one is noted."""

    def __call__(self, path: Path, uri: str, note: Callable[[str, str], None]) -> Iterator[Item]:
        """Yield the items of a file."""
        from canopy_rag.ingest import registry
        from canopy_rag.text import looks_non_english

        sample = ""
        for item in registry.parse(path, uri, build_options(self.config, note)):
            if self.english_only and len(sample) < LANGUAGE_SAMPLE_CHARS:
                sample += f"{node_body(item, item.nodes[0].start, item.nodes[0].stop)}\n"
            yield item
        if self.english_only and looks_non_english(sample[:LANGUAGE_SAMPLE_CHARS]):
            note(uri, NOT_ENGLISH)
