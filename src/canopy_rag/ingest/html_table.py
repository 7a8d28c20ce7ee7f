"""HTML tables: merged cells spread out, header rows found; tables for layout are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from canopy_rag.core.types import SourceSpan
from canopy_rag.ingest.assemble import Table
from canopy_rag.ingest.html_tree import is_unread, visible_text

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_MAX_SPAN = 100
_MAX_COLUMNS = 1000
_LAYOUT_PARTS = "h1, h2, h3, h4, article, section, form"
_MAX_CELL_CHARS = 1000
"""A longer cell without any header cell in the table is an article put into a grid."""


@dataclass(slots=True)
class _Row:
    """A row with its merged cells spread out."""

    cells: list[str]
    is_head: bool
    """Whether it stands in `thead`, or all its own cells are header cells."""
    reach: int
    """Number of columns that its only cell covers; 0 if it has several."""
    full_width: bool
    anchor: str | None


def read_table(table: LexborNode, anchor: str | None) -> Table | None:
    """Return a data table, or None for one that only arranges a page.

    A merged cell's text stands in each column and row that it covers; in a row that is one cell it
    stands once. Header rows are those in `thead` or, without, the first rows of header cells alone;
    several are joined column by column. A first row that is one header cell is the caption, where
    `caption` is missing; so an infobox is a table of two columns with its title as caption.

    Args:
        table: The `table` element.
        anchor: The nearest id at or before the table.
    """
    own = [(row, list(_cells(row))) for row in _row_nodes(table)]
    if _is_layout(table, [cell for _, cells in own for cell in cells]):
        return None
    rows = [row for row in _grid(own) if any(row.cells)]
    caption = next((visible_text(node) for node in _children(table) if node.tag == "caption"), "")
    while rows and rows[0].is_head and rows[0].full_width and len(rows[0].cells) > 1:
        caption = caption or rows[0].cells[0]
        del rows[0]
    n_head = 0
    while n_head < len(rows) - 1 and rows[n_head].is_head:
        n_head += 1
    body = rows[n_head:]
    if not body or (len(body[0].cells) < 2 and (not n_head or len(body) < 2)):
        return None
    spans = _anchored([row.anchor for row in body], anchor)
    header = _joined([row.cells for row in rows[:n_head]])
    return Table(header=header, rows=[row.cells for row in body], caption=caption, row_spans=spans)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        if not is_unread(child):
            yield child
        child = child.next


def _row_nodes(table: LexborNode) -> Iterator[LexborNode]:
    """Yield the table's own rows; a footer written before the body comes last."""
    footers: list[LexborNode] = []
    for section in _children(table):
        if section.tag == "tr":
            yield section
        elif section.tag in ("thead", "tbody", "tfoot"):
            rows = [row for row in _children(section) if row.tag == "tr"]
            if section.tag == "tfoot":
                footers += rows
            else:
                yield from rows
    yield from footers


def _cells(row: LexborNode) -> Iterator[LexborNode]:
    return (cell for cell in _children(row) if cell.tag in ("td", "th"))


def _is_layout(table: LexborNode, cells: Sequence[LexborNode]) -> bool:
    if len(cells) < 2 or table.attributes.get("role") in ("presentation", "none"):
        return True
    if any(cell.tag == "th" for cell in cells):
        return False
    return (
        len(table.css("table")) > 1
        or table.css_first(_LAYOUT_PARTS) is not None
        or any(len(cell.text()) > _MAX_CELL_CHARS for cell in cells)
    )


def _grid(own: Sequence[tuple[LexborNode, list[LexborNode]]]) -> list[_Row]:
    """Return rows of equal width, each merged cell's text wherever it reaches."""
    grid: list[dict[int, str]] = [{} for _ in own]
    rows: list[_Row] = []
    for number, (node, cells) in enumerate(own):
        column = 0
        for cell in cells:
            while column in grid[number]:
                column += 1
            text = visible_text(cell)
            width, height = _span(cell, "colspan"), _span(cell, "rowspan")
            for below in range(number, min(number + height, len(own))):
                for right in range(column, min(column + width, _MAX_COLUMNS)):
                    grid[below].setdefault(right, text)
        in_head = node.parent is not None and node.parent.tag == "thead"
        is_head = in_head or (bool(cells) and all(cell.tag == "th" for cell in cells))
        anchor = _anchor(node)
        reach = _span(cells[0], "colspan") if len(cells) == 1 else 0
        rows.append(_Row(cells=[], is_head=is_head, reach=reach, full_width=False, anchor=anchor))
    width = max((max(columns, default=-1) + 1 for columns in grid), default=0)
    for row, columns in zip(rows, grid, strict=True):
        row.full_width = row.reach >= width > 0
        row.cells = [columns.get(column, "") for column in range(width)]
        if row.full_width:
            row.cells[1:] = [""] * (width - 1)
    return rows


def _span(cell: LexborNode, name: str) -> int:
    """Return how many columns or rows a cell covers; 0 rows means all that follow."""
    written = (cell.attributes.get(name) or "").strip()
    number = int(written) if written.isdecimal() and len(written) < 6 else 1
    if name == "rowspan":
        return number or 65_534
    return min(max(number, 1), _MAX_SPAN)


def _anchor(row: LexborNode) -> str | None:
    own = row.attributes.get("id")
    if own:
        return own
    inner = row.css_first("[id]")
    return inner.attributes.get("id") if inner is not None else None


def _anchored(anchors: Sequence[str | None], before: str | None) -> list[SourceSpan]:
    """Return the spans of rows that share the nearest id at or before them."""
    nearest: list[str | None] = []
    for anchor in anchors:
        before = anchor or before
        nearest.append(before)
    spans: list[SourceSpan] = []
    start = 0
    for anchor, run in groupby(nearest):
        stop = start + len(list(run))
        if anchor is not None:
            spans.append(SourceSpan(start=start, stop=stop, anchor=anchor))
        start = stop
    return spans


def _joined(head: Sequence[Sequence[str]]) -> list[str]:
    """Return one header of several rows: what differs from top to bottom, in one line."""
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*head, strict=True)]
