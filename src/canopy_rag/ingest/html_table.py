"""HTML tables: merged cells spread out, header rows found; tables for layout are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from canopy_rag.core.types import SourceSpan
from canopy_rag.ingest.assemble import Table
from canopy_rag.ingest.grid import MAX_CELL_CHARS, Cell, GridRow, joined_header, spread
from canopy_rag.ingest.header import SAMPLE_ROWS, has_header
from canopy_rag.ingest.html_tree import is_unread, visible_text

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_LAYOUT_PARTS = "h1, h2, h3, h4, article, section, form"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row with its merged cells spread out."""

    grid: GridRow
    is_head: bool
    """Whether it stands in `thead`, or all its own cells are header cells."""
    anchor: str | None


def read_table(table: LexborNode, anchor: str | None) -> Table | None:
    """Return a data table, or None for one that only arranges a page.

    A merged cell's text stands in each column and row that it covers; in a row that is one cell it
    stands once. Header rows are those in `thead` or, without, the first rows of header cells alone,
    joined column by column; in a table without header cells the words tell (`has_header`). A first
    row that is one header cell is the caption, where `caption` is missing; so an infobox is a table
    of two columns with its title as caption.

    Args:
        table: The `table` element.
        anchor: The nearest id at or before the table.
    """
    own = [(row, list(_cells(row))) for row in _row_nodes(table)]
    if _is_layout(table, [cell for _, cells in own for cell in cells]):
        return None
    rows = _rows(own)
    caption = next((visible_text(node) for node in _children(table) if node.tag == "caption"), "")
    while rows and rows[0].is_head and rows[0].grid.is_full_width:
        caption = caption or rows[0].grid.cells[0]
        del rows[0]
    n_head = 0
    while n_head < len(rows) - 1 and rows[n_head].is_head:
        n_head += 1
    if not any(cell.tag == "th" for _, cells in own for cell in cells) and len(rows) > 2:
        n_head = n_head or int(has_header([row.grid.cells for row in rows[: SAMPLE_ROWS + 1]]))
    body = rows[n_head:]
    if not body or (len(body[0].grid.cells) < 2 and (not n_head or len(body) < 2)):
        return None
    return Table(
        header=joined_header([row.grid for row in rows[:n_head]]),
        rows=[row.grid.cells for row in body],
        caption=caption,
        row_spans=_anchored([row.anchor for row in body], anchor),
    )


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
        or any(len(cell.text()) > MAX_CELL_CHARS for cell in cells)
    )


def _rows(own: Sequence[tuple[LexborNode, list[LexborNode]]]) -> list[_Row]:
    """Return the rows that hold anything, spread out."""
    grid = spread(
        [
            Cell(
                text=visible_text(cell),
                columns=_span(cell, "colspan"),
                rows=_span(cell, "rowspan"),
            )
            for cell in cells
        ]
        for _, cells in own
    )
    return [
        _Row(grid=row, is_head=_is_head(node, cells), anchor=_anchor(node))
        for row, (node, cells) in zip(grid, own, strict=True)
        if cells and any(row.cells)
    ]


def _is_head(row: LexborNode, cells: Sequence[LexborNode]) -> bool:
    in_head = row.parent is not None and row.parent.tag == "thead"
    return in_head or all(cell.tag == "th" for cell in cells)


def _span(cell: LexborNode, name: str) -> int:
    """Return how many columns or rows a cell covers; 0 rows means all that follow."""
    written = (cell.attributes.get(name) or "").strip()
    number = int(written) if written.isdecimal() and len(written) < 6 else 1
    return number or (65_534 if name == "rowspan" else 1)


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
