"""From an interval of an item to the place in its source file (D10)."""

from __future__ import annotations

from dataclasses import dataclass

from canopy_rag.core.types import Item, Place, SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a fragment stands in its source. What the format cannot tell is None or empty."""

    uri: str
    """Path relative to the indexed root, or the caller's name of the document."""
    places: tuple[Place, ...] = ()
    """Pages and boxes, in order."""
    char: tuple[int, int] | None = None
    """Half-open character interval in the decoded file (plain text and Markdown)."""
    sheet: str | None = None
    range: str | None = None
    """Cell range of the whole table in its sheet, header included."""
    rows: tuple[int, ...] | None = None
    """Data rows of the source's table, 0-based below the header."""
    time: tuple[float, float] | None = None
    """Seconds of the file."""
    anchor: str | None = None
    """HTML id at or before the fragment."""


def locate(item: Item, start: float, stop: float) -> Location:
    """Return the place of the half-open interval `[start, stop)` of an item.

    Args:
        item: The item; its `source.spans` say where its parts came from.
        start: Begin, in the item's unit.
        stop: End, in the item's unit.
    """
    source = item.source
    spans = [span for span in source.spans if span.start < stop and start < span.stop]
    if start == stop:
        spans = []
    places: dict[Place, None] = {place: None for span in spans for place in span.places}
    rows = None
    if item.modality == "table":
        rows = tuple(range(source.first_row + int(start), source.first_row + int(stop)))
    return Location(
        uri=source.uri,
        places=tuple(places),
        char=_chars(item, spans, start, stop),
        sheet=source.sheet,
        range=source.range,
        rows=rows,
        time=(start, stop) if item.modality == "video" else None,
        anchor=next((span.anchor for span in spans if span.anchor), None),
    )


def _chars(
    item: Item, spans: list[SourceSpan], start: float, stop: float
) -> tuple[int, int] | None:
    """Return the characters of the file that the spans cover between `start` and `stop`."""
    found: list[tuple[int, int]] = []
    for span in spans:
        if span.char is None:
            continue
        begin, end = span.char
        if item.modality == "text":  # characters map one to one
            begin += max(0, int(start - span.start))
            end -= max(0, int(span.stop - stop))
        found.append((begin, end))
    return (found[0][0], found[-1][1]) if found else None
