"""Merged cells spread out over a grid, and header rows joined, for formats that mark both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_COLUMNS = 1000
MAX_SPAN = 100
"""Most columns that one cell is spread over."""
MAX_CELL_CHARS = 1000
"""A longer cell in a table without any header is an article put into a grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell as written, once for all the columns and rows that it covers."""

    text: str
    columns: int = 1
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A row of the spread-out table."""

    cells: tuple[str, ...]
    is_full_width: bool
    """Whether it is one cell over several columns; its text then stands in the first alone."""


def spread(rows: Iterable[Sequence[Cell]]) -> list[GridRow]:
    """Return rows of equal width, each merged cell's text in every column and row it covers.

    >>> wide, tall = Cell(text="a", columns=2), Cell(text="b", rows=2)
    >>> [row.cells for row in spread([[wide, tall], [Cell(text="c"), Cell(text="d")]])]
    [('a', 'a', 'b'), ('c', 'd', 'b')]
    """
    grid: list[dict[int, str]] = []
    single: list[int] = []
    hanging: dict[int, tuple[str, int]] = {}
    for cells in rows:
        columns = {column: text for column, (text, _) in hanging.items()}
        single.append(cells[0].columns if len(cells) == 1 and not columns else 0)
        hanging = {at: (text, left - 1) for at, (text, left) in hanging.items() if left > 1}
        column = 0
        for cell in cells:
            while column in columns:
                column += 1
            for at in range(column, min(column + min(cell.columns, MAX_SPAN), MAX_COLUMNS)):
                if at not in columns:
                    columns[at] = cell.text
                    if cell.rows > 1:
                        hanging[at] = (cell.text, cell.rows - 1)
        grid.append(columns)
    width = max((max(columns, default=-1) + 1 for columns in grid), default=0)
    return [_grid_row(columns, width, reach) for columns, reach in zip(grid, single, strict=True)]


def _grid_row(columns: dict[int, str], width: int, reach: int) -> GridRow:
    texts = tuple(columns.get(column, "") for column in range(width))
    if reach >= width > 1:
        return GridRow(cells=(texts[0], *[""] * (width - 1)), is_full_width=True)
    return GridRow(cells=texts, is_full_width=False)


def joined_header(rows: Sequence[GridRow]) -> list[str]:
    """Return one header of several rows: what differs from top to bottom of each column."""
    columns = zip(*(row.cells for row in rows), strict=True)
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]
