"""Workbooks (XLSX, XLSM, ODS) through calamine: values as stored, formulas as last computed.

Numbers have up to 15 digits, as spreadsheets show them, and none after the point if whole; dates
are ISO 8601, truth values TRUE and FALSE. XLSX numbers formatted as percentages are shown as such
(`sheets_percent`; no other number format is applied). A merged cell's value stands in each
of its cells (not for ODS: calamine does not tell its merges). Sheets that their author hid, and
charts, are left out; error values are empty.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import Assembler
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.packed import check_unpacked
from canopy_rag.ingest.sheets_percent import Percents, percent, percents_of
from canopy_rag.ingest.sheets_regions import Area, cell_range, tables_of

_UNREADABLE = (
    ParseError,
    KeyError,
    ValueError,
    EOFError,
    RuntimeError,  # entries that are encrypted, or packed in a way that is not known
    zipfile.BadZipFile,
    zlib.error,
)
"""What a damaged workbook makes its parts' readers raise."""
_OLE_MARK = b"\xd0\xcf\x11\xe0"


def tables(path: Path, uri: str, options: IngestOptions, assembler: Assembler) -> Iterator[Item]:
    """Yield the items of the tables of a workbook, sheet by sheet.

    Raises:
        IngestError: If the workbook is damaged, protected by a password, or holds no cell.
    """
    calamine = require("python_calamine", extra="index", feature="reading workbooks")
    with path.open("rb") as file:
        if file.read(4) == _OLE_MARK:
            raise IngestError(
                uri,
                "is protected by a password, or an old .xls under a new name: save a copy as .xlsx "
                "without a password",
            )
    with contextlib.suppress(zipfile.BadZipFile):  # what it is instead, calamine tells
        check_unpacked(path, uri)
    try:
        workbook = calamine.CalamineWorkbook.from_path(path)
    except calamine.PasswordError as error:
        raise IngestError(uri, "is protected by a password: save a copy without one") from error
    except calamine.CalamineError as error:
        raise IngestError(uri, f"is damaged or no workbook ({error})") from error
    percents = _percents(path, uri, options)
    found = False
    with workbook:
        for sheet in workbook.sheets_metadata:
            is_shown = sheet.visible == calamine.SheetVisibleEnum.Visible
            if not is_shown or sheet.typ != calamine.SheetTypeEnum.WorkSheet:
                continue
            shares = percents.get(sheet.name, {})
            for item in _sheet(workbook, sheet.name, shares, uri, assembler):
                found = True
                yield item
    if not found:
        raise IngestError(uri, "holds no filled cell on any sheet that is shown")


def _percents(path: Path, uri: str, options: IngestOptions) -> dict[str, Percents]:
    try:
        return percents_of(path)
    except _UNREADABLE as error:
        note(options, uri, f"its number formats cannot be read, percentages are shares ({error})")
        return {}


def _sheet(
    workbook: Any, name: str, percents: Percents, uri: str, assembler: Assembler
) -> Iterator[Item]:
    calamine = require("python_calamine", extra="index", feature="reading workbooks")
    try:
        sheet = workbook.get_sheet_by_name(name)
    except calamine.CalamineError as error:
        raise IngestError(uri, f"is damaged ({error})", place=f"sheet {name!r}") from error
    if sheet.start is None:
        return
    top, left = sheet.start
    cells = [
        [_shown(value, percents.get((top + at, left + column))) for column, value in enumerate(row)]
        for at, row in enumerate(sheet.to_python())
    ]
    merges = [
        (first[0] - top, first[1] - left, last[0] - top, last[1] - left)
        for first, last in sheet.merged_cell_ranges or ()
    ]
    _expand(cells, merges)
    for table in tables_of(cells, merges):
        first, begin, last, end = table.area
        rows = (row[begin : end + 1] for row in cells[first + table.n_header : last + 1])
        yield from assembler.table_items(
            table.header,
            rows,
            caption=": ".join([name, *table.captions]),
            sheet=name,
            cells=cell_range((first + top, begin + left, last + top, end + left)),
        )


def _expand(cells: list[list[str]], merges: list[Area]) -> None:
    """Put a merged cell's value in each of its cells, as far as the sheet's data reach."""
    for top, left, bottom, right in merges:
        if not (0 <= top < len(cells) and 0 <= left < len(cells[top])):
            continue
        for row in cells[top : bottom + 1]:
            for column in range(left, min(right + 1, len(row))):
                row[column] = cells[top][left]


def _shown(value: Any, percent_digits: int | None = None) -> str:
    """Return a cell's value as the sheet shows it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float | int):
        if percent_digits is not None:
            return percent(value, percent_digits)
        is_whole = abs(value) < 1e15 and value == int(value)
        return str(int(value)) if is_whole else format(value, ".15g")
    if isinstance(value, dt.datetime):
        if value.time() == dt.time():
            return value.date().isoformat()
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)
