"""Where the tables of a sheet are: stretches of filled cells between blank rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from canopy_rag.ingest.header import SAMPLE_ROWS, has_header, is_typed

Cells = Sequence[Sequence[str]]
Area = tuple[int, int, int, int]
"""First row, first column, last row and last column, 0-based, inclusive."""


@dataclass(slots=True)
class SheetTable:
    """A table on a sheet."""

    area: Area
    """Of header and rows; a caption above them is not in it."""
    n_header: int
    """Rows of `area` that are its header; 0 without one."""
    header: tuple[str, ...]
    captions: list[str] = field(default_factory=list)


def tables_of(cells: Cells, merges: Sequence[Area] = ()) -> list[SheetTable]:
    """Return the tables of a sheet, from the top, then from the left.

    A lone cell above a table is its caption, and so are its first rows if they hold one text. A
    table right below another over the same columns, without a header of its own, has that one's.

    Args:
        cells: Rows of equal length; blank cells hold nothing but white space. Merged cells hold
            their value in each of them.
        merges: Areas of merged cells.
    """
    found: list[SheetTable] = []
    captions: list[tuple[Area, str]] = []
    areas = sorted(_areas(cells, (0, 0, len(cells) - 1, max(map(len, cells), default=0) - 1)))
    for area in areas:
        texts = _texts(cells, area)
        if len(texts) == 1 and any(_is_above(area, other) for other in areas):
            captions.append((area, texts[0]))
            continue
        table = _table(cells, area, merges)
        own = [one for one in captions if _is_above(one[0], area)]
        table.captions[:0] = [text for _, text in own]
        captions = [one for one in captions if one not in own]
        above = next((one for one in reversed(found) if _same_columns(one.area, area)), None)
        if above is not None and not table.n_header and not table.captions:
            table.header = above.header
        found.append(table)
    # A caption whose table turned out to belong to another one is a table of one cell.
    found += [SheetTable(area, 0, ()) for area, _ in captions]
    return sorted(found, key=lambda table: table.area)


def _texts(cells: Cells, area: Area) -> list[str]:
    """Return the different texts in an area, in order."""
    top, left, bottom, right = area
    return list(
        dict.fromkeys(
            cell for row in cells[top : bottom + 1] for cell in row[left : right + 1] if cell
        )
    )


def _areas(cells: Cells, area: Area) -> Iterator[Area]:
    """Yield the areas that no blank row or column crosses."""
    top, left, bottom, right = area
    rows = _runs([any(map(str.strip, row[left : right + 1])) for row in cells[top : bottom + 1]])
    for first, last in rows:
        band = cells[top + first : top + last + 1]
        columns = _runs([any(row[at].strip() for row in band) for at in range(left, right + 1)])
        parts = [(top + first, left + begin, top + last, left + end) for begin, end in columns]
        if len(rows) == len(parts) == 1:
            yield parts[0]
        else:
            for part in parts:
                yield from _areas(cells, part)


def _runs(filled: Sequence[bool]) -> list[tuple[int, int]]:
    """Return first and last position of each run of true values."""
    runs: list[tuple[int, int]] = []
    for value, group in groupby(range(len(filled)), key=lambda at: filled[at]):
        positions = list(group)
        if value:
            runs.append((positions[0], positions[-1]))
    return runs


def _is_above(area: Area, other: Area) -> bool:
    """Whether a lone cell stands above an area, within its columns."""
    return area[2] < other[0] and area[1] <= other[3] and other[1] <= area[3]


def _same_columns(above: Area, area: Area) -> bool:
    return above[2] < area[0] and (above[1], above[3]) == (area[1], area[3])


def _table(cells: Cells, area: Area, merges: Sequence[Area]) -> SheetTable:
    top, left, bottom, right = area
    captions: list[str] = []
    while right > left and top < bottom:
        texts = _texts(cells, (top, left, top, right))
        n_filled = sum(bool(cell.strip()) for cell in cells[top][left : right + 1])
        merged = any(m[0] <= top <= m[2] and m[1] <= left and m[3] >= right for m in merges)
        if len(texts) != 1 or not (n_filled == 1 or merged):
            break
        captions.append(texts[0])
        top = min(top + 1, bottom)
    rows = [list(row[left : right + 1]) for row in cells[top : top + SAMPLE_ROWS + 2]]
    rows = rows[: bottom - top + 1]
    area = (top, left, bottom, right)
    if _has_groups(rows, area, merges):
        names = tuple(
            " ".join(dict.fromkeys(filter(None, pair))) for pair in zip(*rows[:2], strict=True)
        )
        return SheetTable(area, 2, names, captions)
    if has_header(rows):
        return SheetTable(area, 1, tuple(rows[0]), captions)
    return SheetTable(area, 0, (), captions)


def _has_groups(rows: Sequence[Sequence[str]], area: Area, merges: Sequence[Area]) -> bool:
    """Whether the first row names groups of the columns that the second one names."""
    top, left, _, right = area
    grouped = any(
        m[0] == top and m[3] > m[1] and left <= m[1] and m[3] <= right and m[2] == top
        for m in merges
    )
    names = [cell for row in rows[:2] for cell in row if cell.strip()]
    return grouped and len(rows) > 2 and not any(map(is_typed, names))


def cell_range(area: Area) -> str:
    """Return the range of an area as spreadsheets write it.

    >>> cell_range((2, 1, 19, 5)), cell_range((0, 26, 0, 26))
    ('B3:F20', 'AA1:AA1')
    """
    top, left, bottom, right = area
    return f"{_letters(left)}{top + 1}:{_letters(right)}{bottom + 1}"


def _letters(column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
