"""What must hold of whatever a parser makes of a damaged file: checked where it is parsed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag.config import IngestConfig
from canopy_rag.core import codec
from canopy_rag.core.errors import CanopyError
from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.indexing.sources import Note
from canopy_rag.ingest.decode import read_text
from canopy_rag.pipeline.files import FileParser, build_options

_SLICED = (".txt", ".md")
_ITEMS_READ, _PLACES_READ = 2, 3
"""Items of a PDF, and nodes of each, that are read again from their places."""


class InvariantError(Exception):
    """An item says what is not so."""


@dataclass(frozen=True, slots=True)
class CheckedParser:
    """Parses as an index does, and checks each item against the file."""

    config: IngestConfig

    def __call__(self, path: Path, uri: str, note: Note) -> Iterator[Item]:
        """Yield the items of a file.

        Raises:
            InvariantError: If an item breaks a promise.
        """
        text = _text(path, uri) if path.suffix in _SLICED else None
        ids: set[str] = set()
        for item in FileParser(self.config, english_only=True)(path, uri, note):
            try:
                check(item, path, text)
                expect(item.id not in ids, f"the id {item.id!r} came before")
            except CanopyError as error:
                raise InvariantError(f"{type(error).__name__}: {error}") from error
            ids.add(item.id)
            yield item


def expect(holds: bool, what: str) -> None:
    """Raise an error unless something holds."""
    if not holds:
        raise InvariantError(what)


def check(item: Item, path: Path, text: str | None) -> None:
    """Check one item.

    Args:
        item: As the parser gave it.
        path: Its file.
        text: The decoded file, where items are slices of it.

    Raises:
        InvariantError: If it breaks a promise.
        CanopyError: If its tree does, or its places cannot be read again.
    """
    check_tree(item.nodes)
    expect(codec.loads(Item, codec.dumps(item)) == item, "does not survive being written")
    _check_words(codec.encode(item))
    payload, root = item.payload, item.nodes[0]
    if isinstance(payload, TextPayload):
        expect((root.start, root.stop) == (0, len(payload.text)), "its root is not all of its text")
        expect(bool(payload.text.strip()), "is empty")
    elif isinstance(payload, TablePayload):
        expect((root.start, root.stop) == (0, len(payload.rows)), "its root is not all of its rows")
        shortest = min(map(len, payload.rows), default=len(payload.header))
        expect(shortest >= len(payload.header), "a row is shorter than the header")
    elif isinstance(payload, ImagePayload):
        expect(payload.width > 0 < payload.height, "has no size")
    elif isinstance(payload, VideoPayload):
        _check_video(item, payload)
    if item.source.uri == path.name and path.suffix != ".jsonl":
        expect(item.id == item_id(path.name, item.source.ordinal), "its id is not its place's")
    if text is not None and isinstance(payload, TextPayload):
        for node in item.nodes:
            place = locate(item, node.start, node.stop).char
            shown = payload.text[int(node.start) : int(node.stop)]
            expect(place is not None and text[slice(*place)] == shown, "is no slice of its file")
    if (
        path.suffix == ".pdf"
        and isinstance(payload, TextPayload)
        and item.source.ordinal < _ITEMS_READ
    ):
        _check_places(item, payload, path)


def _check_video(item: Item, payload: VideoPayload) -> None:
    end = 0.0
    for segment in payload.segments:
        expect(segment.start >= end, "segments overlap")
        expect(segment.start < segment.stop <= payload.duration_s + 0.01, "a segment after its end")
        expect(
            all(segment.start <= time <= segment.stop for time in segment.frames),
            "a frame outside of its segment",
        )
        end = segment.stop
    expect(item.nodes[0].stop <= payload.duration_s + 0.01, "a node after its end")
    expect(payload.width > 0 < payload.height, "has no size")


def _check_places(item: Item, payload: TextPayload, path: Path) -> None:
    from canopy_rag.ingest import pdf

    leaves = [node for node in item.nodes if not node.children]
    for node in leaves[:_PLACES_READ]:
        places = locate(item, node.start, node.stop).places
        if any(place.box is None for place in places) or not places:
            continue
        shown = Counter("".join(payload.text[int(node.start) : int(node.stop)].split()))
        again = Counter("".join(pdf.read_place(path, places).split()))
        # Damage lays lines over one another; a box then holds more than the line that it is of.
        expect(shown <= again, f"its places lack {dict(shown - again)}")


def _check_words(data: Any) -> None:
    """Check that no text holds half a character and no number is none."""
    if isinstance(data, str):
        expect(data.isascii() or _encodable(data), f"cannot be encoded: {data[:40]!r}")
    elif isinstance(data, float):
        expect(math.isfinite(data), f"a number that is none: {data}")
    elif isinstance(data, dict):
        for key, value in data.items():
            _check_words(key)
            _check_words(value)
    elif isinstance(data, list | tuple):
        for value in data:
            _check_words(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(path: Path, uri: str) -> str | None:
    try:
        return read_text(path, uri, build_options(IngestConfig()))
    except CanopyError:
        return None  # the parser will say why
