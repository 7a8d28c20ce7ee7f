"""Which rows of a table are its header: judged from the cells alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

Row = Sequence[str]

SAMPLE_ROWS = 100
"""Rows below a header that are looked at."""
_LONGEST_NAME = 120
_NUMBER = re.compile(
    r"[-+(]?\s*[$€£¥]?\s*[-+]?(\d{1,3}([., '\u00a0\u202f]\d{3})+|\d+)?([.,]\d+)?([eE][-+]?\d+)?"
    r"\s*[%)$€£¥]?\)?"
)
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?"
    r"|\d{1,2}:\d{2}(:\d{2})?"
)
_YEAR = re.compile(r"(1[5-9]|20)\d{2}")
_VALUES = frozenset({"true", "false", "yes", "no", "nan", "null", "none", "n/a", "-", "—"})


def is_typed(cell: str) -> bool:
    """Whether a cell is a value and no name: a number, a date or time, a truth value, `n/a`.

    >>> is_typed("1,234.50"), is_typed("-12 %"), is_typed("2024-02-29"), is_typed("Q1 2024")
    (True, True, True, False)
    """
    cell = cell.strip()
    if not cell:
        return False
    if cell.lower() in _VALUES:
        return True
    if not any(char.isdigit() for char in cell):
        return False
    return bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell))


def has_header(rows: Sequence[Row]) -> bool:
    """Whether the first row holds the columns' names.

    It does when at least half of its cells, and two of them if there are several columns, are
    filled with names, none with a value, unless those are years in order. A column of values under
    a name settles it. Without one, it does not if a name occurs again below it in its column, or
    if two names are equal.

    Args:
        rows: The first rows of a table, up to `SAMPLE_ROWS` below the first.
    """
    if not rows:
        return False
    names = [cell.strip() for cell in rows[0]]
    filled = [name for name in names if name]
    if len(filled) < min(2, len(names)) or 2 * len(filled) < len(names):
        return False
    if any(len(name) > _LONGEST_NAME for name in filled):
        return False
    if any(map(is_typed, filled)):
        return _are_years(names, rows[1:])
    below = rows[1 : SAMPLE_ROWS + 1]
    columns = [[row[at].strip() for row in below if at < len(row)] for at in range(len(names))]
    named = list(zip(names, columns, strict=True))
    if any(name and _mostly_typed(column) for name, column in named):
        return True
    return len(set(filled)) == len(filled) and not any(
        name and name in column for name, column in named
    )


def _mostly_typed(column: Sequence[str]) -> bool:
    filled = [cell for cell in column if cell]
    return bool(filled) and 5 * sum(map(is_typed, filled)) >= 4 * len(filled)


def _are_years(names: Sequence[str], below: Sequence[Row]) -> bool:
    """Whether the values among the names are years in order, and those below them are not."""
    typed = [at for at, name in enumerate(names) if is_typed(name)]
    if 0 in typed or len(typed) < 2 or not all(_YEAR.fullmatch(names[at]) for at in typed):
        return False
    years = [int(names[at]) for at in typed]
    in_order = years in (sorted(set(years)), sorted(set(years), reverse=True))
    return in_order and not any(
        _YEAR.fullmatch(row[at].strip()) for row in below[:3] for at in typed if at < len(row)
    )
