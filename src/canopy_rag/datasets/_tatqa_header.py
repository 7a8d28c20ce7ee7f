"""Which rows of a TAT-QA table are its header: judged from the cells alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

Row = Sequence[str]

_CURRENCY = r"(?:[A-Z]{0,4}[$€£¥]|USD|EUR|GBP|RMB)"
_VALUE = re.compile(
    rf"[-–—−+(]*\s*{_CURRENCY}?\s*[-–—−+(]*\s*\d+(?:,\d{{3}})*(?:\.\d+)?"
    r"\s*[%x]?\s*\)?\s*%?(?:\s*\(\w\))?"
    r"|[$€£¥]?\s*[-–—−]+\s*%?|n/?[am]"
)
_YEAR = re.compile(r"(?:19|20)\d\d\b|FY\s?\d\d|\bF\d\d\b")
_BARE_YEAR = re.compile(r"(?:19|20)\d\d\s*(?:\(\w{1,2}\)|\*+)?")
_UNIT = re.compile(
    rf"\(?\s*{_CURRENCY}?\s*['’]?(?:000|m|mn|bn|million|thousand|billion)?s?\s*\)?|\(?%\)?",
    re.IGNORECASE,
)


def n_header_rows(rows: Sequence[Row]) -> int:
    """Return how many leading rows of a table are its header.

    The files do not tell. A leading row belongs to the header if no cell after the first holds a
    value (an amount, a dash; a year is none) and

    - its first cell is empty, unless all it holds is a label that ends with a colon; or
    - it names columns, and no row before it does; below such a row only one that names years or
      units does so, too; or
    - it is a title or a unit alone in the first cell above the names, or `(in thousands)` anywhere.

    Of a table without any other row none is header.

    >>> n_header_rows([["", "Years Ended", ""], ["", "2019", "2018"], ["Sales", "$1,496.5", "12"]])
    2
    """
    named = False
    for number, row in enumerate(rows):
        first = row[0].strip() if row else ""
        others = [cell.strip() for cell in row[1:] if cell.strip()]
        if any(map(_is_value, others)) or not _may_be_header(first, others, named=named):
            return number
        named = named or bool(others)
    return 0


def header_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the column names of header rows: the cells of each column, from above, joined.

    A cell that spans columns stands in one of them, and nothing tells how far it reaches.

    >>> header_of([["", "Years Ended", ""], ["", "2019", "2018"]])
    ('', 'Years Ended 2019', '2018')
    """
    width = max(map(len, rows), default=0)
    columns = [[row[at].strip() for row in rows if at < len(row)] for at in range(width)]
    return tuple(" ".join(filter(None, cells)) for cells in columns)


def _may_be_header(first: str, others: Sequence[str], *, named: bool) -> bool:
    """Whether a leading row without values is header, given whether columns were named above it."""
    if not first:
        return not (named and len(others) == 1 and others[0].endswith(":"))
    in_brackets = first.startswith("(") and first.endswith(")")
    if not named or in_brackets:
        return True
    return any(map(_BARE_YEAR.fullmatch, others)) or (
        bool(others) and all(_YEAR.search(cell) or _UNIT.fullmatch(cell) for cell in others)
    )


def _is_value(cell: str) -> bool:
    if _BARE_YEAR.fullmatch(cell) or _UNIT.fullmatch(cell):
        return False
    return _VALUE.fullmatch(cell) is not None
