"""The records that flow from files to evidence: frozen, slotted, keyword-only, free of vectors.

Vectors live beside items, never inside them (`core.vectors`). Evidence and answers are records of
their own (`core.evidence`, `core.answer`).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Literal

Modality = Literal["text", "table", "image", "video"]
MODALITIES: tuple[Modality, ...] = ("text", "table", "image", "video")

Unit = Literal["char", "row", "second", "image"]
UNIT_OF: dict[Modality, Unit] = {
    "text": "char",
    "table": "row",
    "image": "image",
    "video": "second",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A region of an item: the unit of refinement.

    A tree is a tuple of nodes in preorder: the root is node 0 and row `i` of a matrix of node
    vectors belongs to node `i`.
    """

    index: int
    """Position in the item's tuple of nodes."""
    parent: int | None
    """Index of the parent; None for the root."""
    children: tuple[int, ...]
    """Indices of the children, in order; empty for a leaf, otherwise at least two."""
    start: float
    """Begin of the half-open interval, in the item's unit: characters, rows or seconds."""
    stop: float
    """End of the half-open interval, in the item's unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading line inside an item's text: context of what follows it, never evidence alone."""

    start: int
    stop: int
    """Half-open character interval of the heading line in the item's text."""
    level: int
    """1 for the highest; a heading ends the scope of those of its level and below."""
    text: str
    """The heading without its markup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPayload:
    """A passage of text. Node intervals are characters of `text`."""

    text: str
    headings: tuple[Heading, ...] = ()
    """Heading lines inside `text`, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePayload:
    """A table with its header apart. Node intervals are rows, 0-based below the header."""

    header: tuple[str, ...]
    """Column names as written; empty when the table has none."""
    rows: tuple[tuple[str, ...], ...]
    """Cells as written in the source, one tuple per row."""
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePayload:
    """An image: one node, never split (P4). Its interval is 0 to 1."""

    media: str
    """Path relative to the indexed root, absolute path, or `data:` URI."""
    width: int
    """Pixels, after EXIF rotation."""
    height: int
    caption: str = ""
    """From alt text, a sidecar file or the file name."""
    ocr: str = ""
    """Text read from the pixels; empty when none was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a video: a leaf of its tree."""

    start: float
    stop: float
    """Half-open interval in seconds of the file."""
    frames: tuple[float, ...] = ()
    """Timestamps of the sampled frames, in seconds of the file, ascending, at most 8 (D1)."""
    subtitles: str = ""
    """The subtitle cues that overlap the segment, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoPayload:
    """A stretch of at most ten minutes of a video file (D1). Node intervals are its seconds."""

    media: str
    """Path relative to the indexed root, or absolute."""
    duration_s: float
    """Duration of the whole file."""
    segments: tuple[Segment, ...]
    """The leaves, in order."""
    width: int
    height: int
    caption: str = ""


Payload = TextPayload | TablePayload | ImagePayload | VideoPayload


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place on a page."""

    page: int
    """1-based."""
    box: tuple[float, float, float, float] | None = None
    """Left, top, right, bottom in points from the page's top left corner; None for all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpan:
    """Where one interval of an item came from in its source file (D10)."""

    start: float
    stop: float
    """Half-open interval in the item's unit."""
    char: tuple[int, int] | None = None
    """Half-open character interval in the decoded file, as long as the item's interval when the
    item is text; for a table the interval of the rows' lines."""
    places: tuple[Place, ...] = ()
    anchor: str | None = None
    """HTML id of the nearest element that has one, at or before the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which file an item came from, and where in it each part stands."""

    uri: str
    """Path relative to the indexed root with `/`, or the caller's own name of the document."""
    ordinal: int = 0
    """Position among the items of the same source, from 0."""
    spans: tuple[SourceSpan, ...] = ()
    """Ascending, disjoint intervals of the item; parts between them have no place in the file."""
    sheet: str | None = None
    range: str | None = None
    """Cell range of the whole table in the sheet, such as `B3:F20`, header included."""
    first_row: int = 0
    """0-based number of the item's row 0 in the source's table; a long table is several items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The unit of retrieval: a passage, table, image or video with its tree of nodes."""

    id: str
    modality: Modality
    title: str
    payload: Payload
    nodes: tuple[Node, ...]
    source: Source
    section: tuple[str, ...] = ()
    """Headings in force where the item begins, outermost first, without the title."""
    corpus: str = "main"
    """Name of the set of items that this one belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item found by a search."""

    item_id: str
    corpus: str
    similarity: float
    """Cosine of query and item, in [-1, 1]."""
    rank: int
    """From 1; equal similarities by item id."""


def item_id(uri: str, ordinal: int) -> str:
    """Return the id of the `ordinal`-th item of the source `uri`: URL-safe, 20 characters (D10).

    >>> item_id("docs/a.txt", 0) == item_id("docs/a.txt", 0) != item_id("docs/a.txt", 1)
    True
    """
    digest = hashlib.sha256(f"{uri}\0{ordinal}".encode("utf-8", "surrogateescape")).digest()
    return base64.urlsafe_b64encode(digest[:15]).decode("ascii")
