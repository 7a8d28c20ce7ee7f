"""Ruled tables of a PDF page: pdfplumber's cells over pdfium's rules and characters.

pdfplumber finds the cells between rules; its own text layer (pdfminer, some 100 ms a page) is not
used, so that text in a table and text around it come from the same parser. Tables without rules
are left to the layout, which reads them row by row.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from canopy_rag._optional import require
from canopy_rag.ingest.header import SAMPLE_ROWS, has_header, is_typed
from canopy_rag.ingest.pdf_layout import joint, lines_of
from canopy_rag.ingest.pdf_page import Run
from canopy_rag.ingest.pdf_rules import Box, Edge, union

SNAP = 3.0
"""Rules closer than this, in points, are the same one."""
MAX_CROSSINGS = 200_000
"""Upright times level rules, as many as no table has: a page with more is a drawing."""
MAX_CELL_LINES = 12
"""A cell of more lines is a frame around text or a drawing, and its grid no table."""
_LEADERS = re.compile(r"\s*\.{3,}$")


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a ruled table."""

    columns: tuple[float, ...]
    """Borders of columns from left to right, one more than columns."""
    rows: tuple[float, ...]
    cells: dict[tuple[int, int], tuple[int, int, int, int]]
    """For each row and column: first row, first column, last row and last column of its cell."""

    @property
    def box(self) -> Box:
        """The outer border."""
        return self.columns[0], self.rows[0], self.columns[-1], self.rows[-1]


@dataclass(slots=True)
class PageTable:
    """A table as found on one page."""

    columns: tuple[float, ...]
    box: Box
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    row_boxes: list[Box]
    captions: list[str] = field(default_factory=list)
    header_box: Box = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _RowLine:
    """One line of text across the columns of a table."""

    texts: dict[int, str]
    boxes: dict[int, Box]


def find_tables(edges: Sequence[Edge], runs: Sequence[Run]) -> list[tuple[PageTable, list[Run]]]:
    """Return the ruled tables of a page, from the top, each with the runs that stand in it.

    Args:
        edges: Rules of the page.
        runs: Its upright runs.
    """
    found: list[tuple[PageTable, list[Run]]] = []
    taken: set[int] = set()
    for grid in map(_without_notes, _grids(edges)):
        inside = [run for run in runs if id(run) not in taken and _within(run.box, grid.box)]
        table = _table(grid, inside)
        if table is not None:
            taken.update(map(id, inside))
            found.append((table, inside))
    return found


def _within(inner: Box, outer: Box) -> bool:
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] - 1 <= x <= outer[2] + 1 and outer[1] - 1 <= y <= outer[3] + 1


def _without_notes(grid: Grid) -> Grid:
    """Return a grid without the rows of one wide cell below it: they frame notes."""
    last = len(grid.rows) - 1
    widest = len(grid.columns) - 2
    while last > 1 and grid.cells.get((last - 1, 0)) == (last - 1, 0, last - 1, widest):
        last -= 1
    return Grid(grid.columns, grid.rows[: last + 1], grid.cells)


def _grids(edges: Sequence[Edge]) -> Iterator[Grid]:
    upright = [edge for edge in edges if not edge.horizontal]
    if len(upright) < 2 or len(edges) - len(upright) < 2:
        return
    plumber = require("pdfplumber.table", extra="index", feature="finding tables in PDF")
    merged = plumber.merge_edges([_plumbed(edge) for edge in edges], SNAP, SNAP, SNAP, SNAP)
    merged = [edge for edge in merged if max(edge["x1"] - edge["x0"], edge["height"]) > SNAP]
    n_level = sum(edge["orientation"] == "h" for edge in merged)
    if n_level * (len(merged) - n_level) > MAX_CROSSINGS:
        return
    framed = merged + [edge for group in _connected(merged) for edge in _missing_frame(group)]
    framed = plumber.merge_edges(framed, SNAP, SNAP, SNAP, SNAP)
    crossings = plumber.edges_to_intersections(framed, SNAP, SNAP)
    cells = plumber.intersections_to_cells(crossings)
    for boxes in plumber.cells_to_tables(cells):
        yield _grid(boxes)


def _plumbed(edge: Edge) -> dict[str, Any]:
    """Return an edge as pdfplumber holds it."""
    return {
        "x0": edge.left,
        "x1": edge.right,
        "top": edge.top,
        "bottom": edge.bottom,
        "width": edge.right - edge.left,
        "height": edge.bottom - edge.top,
        "orientation": "h" if edge.horizontal else "v",
        "object_type": "line",
    }


def _connected(edges: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group edges that touch."""
    group_of = list(range(len(edges)))

    def root(at: int) -> int:
        while group_of[at] != at:
            group_of[at] = group_of[group_of[at]]
            at = group_of[at]
        return at

    flat = [at for at, edge in enumerate(edges) if edge["orientation"] == "h"]
    for at, edge in enumerate(edges):
        if edge["orientation"] == "v":
            for other in flat:
                if _touch(edge, edges[other]):
                    group_of[root(at)] = root(other)
    groups: dict[int, list[dict[str, Any]]] = {}
    for at, edge in enumerate(edges):
        groups.setdefault(root(at), []).append(edge)
    return [group for group in groups.values() if len(group) > 2]


def _touch(upright: dict[str, Any], flat: dict[str, Any]) -> bool:
    return bool(
        upright["top"] - SNAP <= flat["top"] <= upright["bottom"] + SNAP
        and flat["x0"] - SNAP <= upright["x0"] <= flat["x1"] + SNAP
    )


def _missing_frame(edges: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the sides of a table that it leaves open, where half of its rules end in line."""
    flat = [edge for edge in edges if edge["orientation"] == "h"]
    upright = [edge for edge in edges if edge["orientation"] == "v"]
    if len(flat) < 2 or len(upright) < 2:
        return
    left, right = min(edge["x0"] for edge in flat), max(edge["x1"] for edge in flat)
    top, bottom = min(edge["top"] for edge in upright), max(edge["bottom"] for edge in upright)
    for side, name in ((left, "x0"), (right, "x1")):
        ends = [edge for edge in flat if abs(edge[name] - side) <= SNAP]
        closed = any(abs(edge["x0"] - side) <= SNAP for edge in upright)
        if len(ends) >= max(2, len(flat) / 2) and not closed:
            yield _plumbed(Edge(side, min(e["top"] for e in ends), side, bottom))
    for side, name in ((top, "top"), (bottom, "bottom")):
        ends = [edge for edge in upright if abs(edge[name] - side) <= SNAP]
        closed = any(abs(edge["top"] - side) <= SNAP for edge in flat)
        if len(ends) >= max(2, len(upright) / 2) and not closed:
            yield _plumbed(Edge(left, side, right, side))


def _grid(boxes: Sequence[Box]) -> Grid:
    columns = sorted({side for box in boxes for side in (box[0], box[2])})
    rows = sorted({side for box in boxes for side in (box[1], box[3])})
    cells: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    for left, top, right, bottom in boxes:
        area = rows.index(top), columns.index(left), rows.index(bottom), columns.index(right)
        for row in range(area[0], area[2]):
            for column in range(area[1], area[3]):
                cells[row, column] = (area[0], area[1], area[2] - 1, area[3] - 1)
    return Grid(tuple(columns), tuple(rows), cells)


def _table(grid: Grid, runs: Sequence[Run]) -> PageTable | None:
    """Fill a grid with text; None if what comes out is no table."""
    if len(grid.columns) < 3 or not runs:
        return None
    pieces = [piece for run in runs for piece in _cut(run, grid)]
    by_row: dict[int, list[tuple[int, int, Run]]] = {}
    for row, column, run in pieces:
        area = grid.cells.get((row, column), (row, column, row, column))
        by_row.setdefault(area[0], []).append((area[1], area[3], run))
    if _is_frame(by_row):
        return None
    rows: list[tuple[str, ...]] = []
    boxes: list[Box] = []
    captions: list[str] = []
    n_columns = len(grid.columns) - 1
    grouped = False
    for ruled in sorted(by_row):
        parts = by_row[ruled]
        is_top = not rows
        if is_top and all(first == 0 and last == n_columns - 1 for first, last, _ in parts):
            captions += [line.text for line in lines_of([run for _, _, run in parts])]
            continue
        spread = [piece for part in parts for piece in _spread(part, parts, grid, is_top)]
        grouped = grouped or (is_top and any(first < last for first, last, _ in parts))
        for texts, box in _logical_rows(spread, grid.columns, is_top):
            rows.append(tuple(texts.get(column, "") for column in range(n_columns)))
            boxes.append(box)
    if not _is_table(rows):
        return None
    if grouped or has_header(rows[: SAMPLE_ROWS + 1]):
        named = PageTable(grid.columns, grid.box, rows[0], rows[1:], boxes[1:], captions)
        named.header_box = boxes[0]
        return named
    return PageTable(grid.columns, grid.box, (), rows, boxes, captions)


def _cut(run: Run, grid: Grid) -> Iterator[tuple[int, int, Run]]:
    """Yield the parts of a run by cell, each with row and column."""
    begin, at = 0, None
    for position, (char, box) in enumerate(zip(run.text, run.boxes, strict=True)):
        if char.isspace():
            continue
        row = _position(grid.rows, (box[1] + box[3]) / 2)
        column = _position(grid.columns, (box[0] + box[2]) / 2)
        area = grid.cells.get((row, column), (row, column, row, column))
        if at is not None and area != at[2]:
            yield at[0], at[1], _part(run, begin, position)
            begin = position
        if at is None or area != at[2]:
            at = (row, column, area)
    if at is not None:
        yield at[0], at[1], _part(run, begin, len(run.text))


def _position(borders: Sequence[float], at: float) -> int:
    return min(max(bisect_right(borders, at) - 1, 0), len(borders) - 2)


def _part(run: Run, begin: int, end: int) -> Run:
    text = run.text[begin:end].rstrip()
    boxes = run.boxes[begin : begin + len(text)]
    visible = [box for box, char in zip(boxes, text, strict=True) if not char.isspace()]
    return Run(text, boxes, union(visible), run.size, run.bold)


def _is_frame(by_row: dict[int, list[tuple[int, int, Run]]]) -> bool:
    """Whether the grid only frames text: cells with many lines, or with columns of their own."""
    n_cells = n_columned = 0
    for parts in by_row.values():
        cells: dict[tuple[int, int], list[Run]] = {}
        for first, last, run in parts:
            cells.setdefault((first, last), []).append(run)
        for (first, last), runs in cells.items():
            if first == last:
                n_cells += 1
                n_columned += any(line.is_row for line in lines_of(runs))
        # Many lines are rows without rules only where a neighbour has as many.
        counts = sorted((len(lines_of(runs)) for runs in cells.values()), reverse=True)
        if counts[0] > MAX_CELL_LINES and (len(counts) < 2 or counts[1] < counts[0] / 2):
            return True
    return n_cells == 0 or n_columned > 0.2 * n_cells


def _spread(
    part: tuple[int, int, Run], parts: Sequence[tuple[int, int, Run]], grid: Grid, is_top: bool
) -> Iterator[tuple[int, Run]]:
    """Yield the columns that a run of a cell belongs to.

    In a cell over several columns, runs side by side belong to the columns that they stand in. A
    run alone on its line names all columns of a header's cell; in the body it stays in the first.
    """
    first, last, run = part
    if first == last:
        yield first, run
        return
    beside = [
        other
        for low, high, other in parts
        if other is not run and (low, high) == (first, last) and len(lines_of([run, other])) == 1
    ]
    column = _position(grid.columns, (run.box[0] + run.box[2]) / 2)
    if beside and first <= column <= last:
        yield column, run
    elif is_top:
        yield from ((at, run) for at in range(first, last + 1))
    else:
        yield first, run


def _logical_rows(
    spread: Sequence[tuple[int, Run]], columns: Sequence[float], is_top: bool
) -> Iterator[tuple[dict[int, str], Box]]:
    """Yield the rows between two rules: one, or several that no rule separates."""
    lines = list(_row_lines(spread))
    used = len({column for column, _ in spread})
    group: list[_RowLine] = []
    for line in lines:
        if group and not is_top and _opens_row(group, line, columns, used):
            yield _joined(group)
            group = []
        group.append(line)
    if group:
        yield _joined(group)


def _row_lines(spread: Sequence[tuple[int, Run]]) -> Iterator[_RowLine]:
    by_run: dict[int, list[int]] = {}
    for column, run in spread:
        by_run.setdefault(id(run), []).append(column)
    runs = list({id(run): run for _, run in spread}.values())
    for line in lines_of(runs):
        texts: dict[int, str] = {}
        boxes: dict[int, Box] = {}
        for run in line.runs:
            for column in by_run[id(run)]:
                before = texts.get(column, "")
                texts[column] = before + joint(before, run.text) + run.text
                boxes[column] = union([boxes.get(column, run.box), run.box])
        yield _RowLine(texts, boxes)


def _opens_row(
    group: Sequence[_RowLine], line: _RowLine, columns: Sequence[float], used: int
) -> bool:
    """Whether a line begins a row of its own and does not go on in the one above.

    It must fill at least half of the columns, and most of its entries must not be what is left
    over of the entry above: because that one is a value or ends in leaders, or because the next
    word would have fitted behind it.
    """
    if len(line.texts) < max(2, used / 2):
        return False
    votes = 0
    for column, text in line.texts.items():
        above = next((other for other in reversed(group) if column in other.texts), None)
        if above is None:
            continue
        before, box, right = above.texts[column], above.boxes[column], columns[column + 1]
        word = text.split()[0]
        width = (line.boxes[column][2] - line.boxes[column][0]) * len(word) / len(text)
        closed = _LEADERS.search(before) or (is_typed(before) and is_typed(text))
        votes += 1 if closed or box[2] + width + SNAP < right - SNAP else -1
    return votes > 0


def _joined(lines: Sequence[_RowLine]) -> tuple[dict[int, str], Box]:
    texts: dict[int, str] = {}
    for line in lines:
        for column, text in line.texts.items():
            before = texts.get(column, "")
            texts[column] = before + joint(before, text) + text
    return texts, union(box for line in lines for box in line.boxes.values())


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows make a table: two columns and two rows with text, and most cells filled."""
    filled = [[bool(cell) for cell in row] for row in rows]
    columns = [sum(column) for column in zip(*filled, strict=True)]
    many = sum(count >= 2 for count in columns)
    return len(rows) >= 2 and many >= 2 and sum(columns) >= 0.3 * len(rows) * len(columns)


def same_columns(one: Iterable[float], other: Iterable[float]) -> bool:
    """Whether two tables have the same columns, so that one may go on in the other."""
    first, second = list(one), list(other)
    return len(first) == len(second) and all(
        abs(left - right) <= SNAP for left, right in zip(first, second, strict=True)
    )
