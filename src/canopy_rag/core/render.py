"""What evidence looks like to a reader: headings, header rows, elision marks, pictures (D2).

Everything shown of an item stands in the item; the only additions are the elision mark between
regions that are not neighbours, the times of video regions, and fragment numbers where the reader
is to cite. Nothing of an item is shown twice, so a rendering is never longer than that of the whole
item (D9).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from canopy_rag.core.prompts import neutral_numbers
from canopy_rag.core.protocols import MediaPart
from canopy_rag.core.trees import first_leaf, last_leaf
from canopy_rag.core.types import (
    Heading,
    ImagePayload,
    Item,
    Node,
    TablePayload,
    TextPayload,
    VideoPayload,
)

ELISION = "…"
CELL_SEPARATOR = " | "
PATH_SEPARATOR = " > "


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How evidence is written out."""

    numbered: bool = False
    """Put `[n]` before each fragment, for a reader that cites."""
    headings: bool = True
    """Show titles, heading paths, captions and header rows."""
    media: bool = False
    """Add pictures, for a reader that sees them."""

    def safe(self, text: str) -> str:
        """Return a document's text so that no part of it reads as a fragment number of ours."""
        return neutral_numbers(text) if self.numbered else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How much of a node's text is shown when not even its best leaf fits (D8)."""

    chars: int
    """Number of characters, at least 1."""
    mark: bool = True
    """Whether an ellipsis follows; left out when even that would be too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A kept node about to be written."""

    node: int
    n: int
    """Its fragment number."""
    cut: Cut | None = None


def node_body(item: Item, start: float, stop: float) -> str:
    """Return the text of an interval of an item, verbatim, without context.

    Text: the characters. Tables: a line per row, cells joined by ` | `, line breaks inside a cell
    as spaces. Images: caption and the text read from the pixels. Video: the subtitles of the
    segments that begin in the interval.
    """
    payload = item.payload
    if isinstance(payload, TextPayload):
        return payload.text[int(start) : int(stop)]
    if isinstance(payload, TablePayload):
        return "\n".join(row_line(row) for row in payload.rows[int(start) : int(stop)])
    if isinstance(payload, ImagePayload):
        return "\n".join(part for part in (payload.caption, payload.ocr) if part)
    return "\n".join(
        segment.subtitles
        for segment in payload.segments
        if start <= segment.start < stop and segment.subtitles
    )


def row_line(cells: Sequence[str]) -> str:
    """Return a row as one line."""
    return CELL_SEPARATOR.join(map(_on_one_line, cells))


def _on_one_line(cell: str) -> str:
    """Return a cell with a space for each stretch of white space that breaks a line."""
    if "\n" not in cell and "\r" not in cell:
        return cell
    # A pattern that also says where the break is would take quadratic time on long blanks.
    return re.sub(r"\s+", _space_for_break, cell)


def _space_for_break(blank: re.Match[str]) -> str:
    return " " if "\n" in blank[0] or "\r" in blank[0] else blank[0]


def head_lines(item: Item) -> list[str]:
    """Return the lines above an item's regions: title and headings, caption, header row."""
    path = [part for part in (item.title, *item.section) if part]
    lines = [PATH_SEPARATOR.join(path)] if path else []
    payload = item.payload
    if isinstance(payload, TablePayload):
        if payload.caption and payload.caption != item.title:
            lines.append(payload.caption)
        if payload.header:
            lines.append(row_line(payload.header))
    if isinstance(payload, VideoPayload) and payload.caption and payload.caption != item.title:
        lines.append(payload.caption)
    return lines


def clock(seconds: float) -> str:
    """Return a time as `m:ss` or `h:mm:ss`, tenths where there are any.

    >>> clock(75), clock(3675), clock(2.5)
    ('1:15', '1:01:15', '0:02.5')
    """
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    second = f"{rest // 10:02d}" + (f".{rest % 10}" if rest % 10 else "")
    return f"{hours}:{minutes:02d}:{second}" if hours else f"{minutes}:{second}"


def render_item(item: Item, regions: Sequence[Region], style: Style) -> tuple[str | MediaPart, ...]:
    """Write out the kept regions of one item.

    Args:
        item: The item.
        regions: Its kept nodes, in order, none an ancestor of another.
        style: Numbers, headings, pictures.

    Returns:
        One text, then the pictures of the regions in order if the style asks for them.
    """
    lines = [style.safe(line) for line in head_lines(item)] if style.headings else []
    body = _text_body(item, regions, style)
    parts: list[str | MediaPart] = ["\n".join([*lines, body] if body else lines)]
    if style.media:
        parts.extend(_pictures(item, regions))
    return tuple(parts)


def _text_body(item: Item, regions: Sequence[Region], style: Style) -> str:
    """Join the regions; neighbours as in the source, others with an elision mark between."""
    if isinstance(item.payload, TextPayload):
        return _prose(item, item.payload, regions, style)
    written: list[str] = []
    previous: int | None = None
    for region in regions:
        if previous is not None and _skips_something(item, previous, region.node):
            written.append(ELISION)
        text = _labelled(item, region, style)
        if text:
            written.append(text)
        previous = region.node
    return "\n".join(written)


def _labelled(item: Item, region: Region, style: Style) -> str:
    node = item.nodes[region.node]
    text = style.safe(_cut(_body(item, node, style), region.cut))
    label = f"[{region.n}] " if style.numbered else ""
    if isinstance(item.payload, VideoPayload) and style.headings:
        time = f"{clock(node.start)}-{clock(node.stop)}"
        label += f"{time}: " if text else time
    return (label + text).rstrip()


def _body(item: Item, node: Node, style: Style) -> str:
    payload = item.payload
    if isinstance(payload, ImagePayload) and style.headings and payload.caption == item.title:
        return payload.ocr  # the title line says the caption already
    return node_body(item, node.start, node.stop)


def _prose(item: Item, payload: TextPayload, regions: Sequence[Region], style: Style) -> str:
    text, written = payload.text, ""
    position = 0
    previous: int | None = None
    for region in regions:
        node = item.nodes[region.node]
        start, stop = int(node.start), int(node.stop)
        if previous is not None and not _skips_something(item, previous, region.node):
            gap = text[position:start]
            written += style.safe(gap if style.headings else _gap_without_headings(gap))
        else:
            written += "" if previous is None else f" {ELISION} "
            written += style.safe(_new_headings(payload.headings, position, start, text, style))
        label = f"[{region.n}] " if style.numbered else ""
        written += label + style.safe(_cut(text[start:stop], region.cut))
        position, previous = stop, region.node
    return written


def _gap_without_headings(gap: str) -> str:
    return gap if gap.isspace() or not gap else "\n\n"


def _new_headings(
    headings: Sequence[Heading], position: int, start: int, text: str, style: Style
) -> str:
    """Return the heading lines in force at `start` that stand after `position`, as written."""
    if not style.headings:
        return ""
    path: list[Heading] = []
    for heading in headings:
        if heading.start >= start:
            break
        path = [above for above in path if above.level < heading.level]
        path.append(heading)
    lines = [text[each.start : each.stop] for each in path if each.start >= position]
    return "".join(f"{line}\n" for line in lines)


def _skips_something(item: Item, left: int, right: int) -> bool:
    """Whether something to be read or seen lies between two regions; an empty row does not."""
    nodes = item.nodes
    after, before = last_leaf(nodes, left), first_leaf(nodes, right)
    between = [node for node in nodes[after + 1 : before] if not node.children]
    if isinstance(item.payload, VideoPayload):
        return bool(between)
    return any(node_body(item, node.start, node.stop).strip() for node in between)


def _cut(text: str, cut: Cut | None) -> str:
    if cut is None:
        return text
    return text[: cut.chars].rstrip() + (f" {ELISION}" if cut.mark else "")


def _pictures(item: Item, regions: Sequence[Region]) -> list[MediaPart]:
    payload = item.payload
    if isinstance(payload, ImagePayload):
        return [MediaPart(media=payload.media, width=payload.width, height=payload.height)]
    if not isinstance(payload, VideoPayload):
        return []
    pictures: list[MediaPart] = []
    for region in regions:
        node = item.nodes[region.node]
        for segment in payload.segments:
            if node.start <= segment.start < node.stop:
                pictures.extend(
                    MediaPart(
                        media=payload.media, time=time, width=payload.width, height=payload.height
                    )
                    for time in segment.frames
                )
    return pictures
