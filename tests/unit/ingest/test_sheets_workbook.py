from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from odf.opendocument import OpenDocumentSpreadsheet
from odf.table import Table, TableCell, TableRow
from odf.text import P

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, TablePayload
from canopy_rag.ingest import sheets
from canopy_rag.ingest.options import IngestOptions

Save = Callable[[Callable[[Any], None]], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Make a workbook by a function of its first sheet."""

    def make(fill: Callable[[Any], None]) -> Path:
        book = openpyxl.Workbook()
        fill(book.active)
        book.save(tmp_path / "book.xlsx")
        return tmp_path / "book.xlsx"

    return make


def read(path: Path, options: IngestOptions) -> list[Item]:
    return list(sheets.parse(path, path.name, options))


def payloads(path: Path, options: IngestOptions) -> list[TablePayload]:
    found = [item.payload for item in read(path, options)]
    assert all(isinstance(payload, TablePayload) for payload in found)
    return found  # type: ignore[return-value]


def test_values_are_shown_as_in_the_sheet(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        sheet.append(["kind", "value"])
        for kind, value in [
            ("whole", 89.0),
            ("broken", 0.1 + 0.2),
            ("text", "007"),
            ("day", dt.date(2024, 2, 29)),
            ("moment", dt.datetime(2024, 2, 29, 9, 5)),
            ("time", dt.time(9, 30)),
            ("truth", True),
            ("nothing", None),
        ]:
            sheet.append([kind, value])

    (found,) = payloads(save(fill), options)
    assert dict(found.rows) == {
        "whole": "89",
        "broken": "0.3",
        "text": "007",
        "day": "2024-02-29",
        "moment": "2024-02-29 09:05:00",
        "time": "09:30:00",
        "truth": "TRUE",
        "nothing": "",
    }


def test_percentages_are_shown_as_such(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        sheet.append(["name", "share", "ratio"])
        sheet.append(["a", 0.25, 0.25])
        sheet.append(["b", 0.256, 0.5])
        sheet["B2"].number_format = "0.0%"
        sheet["B3"].number_format = "0%"

    (found,) = payloads(save(fill), options)
    assert found.rows == (("a", "25.0%", "0.25"), ("b", "25.6%", "0.5"))


def test_tables_apart_on_a_sheet_are_items_of_their_own(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        for cell, value in {
            "B3": "col_a", "C3": "col_b", "B4": 1.5, "C4": "test",
            "E4": "col_c", "F4": "col_d", "E5": 3, "F5": True,
            "B8": "x", "C8": "y", "B9": 1, "C9": 2,
        }.items():  # fmt: skip
            sheet[cell] = value

    items = read(save(fill), options)
    assert [item.source.range for item in items] == ["B3:C4", "E4:F5", "B8:C9"]
    assert [item.payload.header for item in items] == [  # type: ignore[union-attr]
        ("col_a", "col_b"),
        ("col_c", "col_d"),
        ("x", "y"),
    ]
    assert [item.payload.rows for item in items][1] == (("3", "TRUE"),)  # type: ignore[union-attr]


def test_a_title_above_a_table_is_its_caption(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        sheet.title = "Sales"
        sheet["A1"] = "Annual report"
        sheet["A3"] = "All regions, in thousands"
        sheet.merge_cells("A3:C3")
        for row in [["region", "2023", "2024"], ["North", 1, 2], ["South", 3, 4]]:
            sheet.append(row)

    (item,) = read(save(fill), options)
    assert isinstance(item.payload, TablePayload)
    assert item.payload.caption == "Sales: Annual report: All regions, in thousands"
    assert item.payload.header == ("region", "2023", "2024")
    assert (item.source.sheet, item.source.range) == ("Sales", "A4:C6")


def test_a_merged_cell_gives_its_value_to_each_of_its_rows(
    save: Save, options: IngestOptions
) -> None:
    def fill(sheet: Any) -> None:
        for row in [["team", "name", "n"], ["red", "Ada", 1], [None, "Bob", 2], ["blue", "Cy", 3]]:
            sheet.append(row)
        sheet.merge_cells("A2:A3")

    (found,) = payloads(save(fill), options)
    assert [row[0] for row in found.rows] == ["red", "red", "blue"]


def test_names_of_column_groups_are_part_of_the_names(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        for row in [
            ["region", "plan", None, "actual", None],
            [None, "low", "high", "low", "high"],
            ["North", 1, 2, 3, 4],
            ["South", 5, 6, 7, 8],
        ]:
            sheet.append(row)
        for area in ("A1:A2", "B1:C1", "D1:E1"):
            sheet.merge_cells(area)

    (found,) = payloads(save(fill), options)
    assert found.header == ("region", "plan low", "plan high", "actual low", "actual high")
    assert len(found.rows) == 2


def test_rows_below_a_blank_row_keep_the_header_above(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        for row in [["name", "n"], ["a", 1], ["b", 2], [], ["c", 3], ["d", 4]]:
            sheet.append(row)

    items = read(save(fill), options)
    assert [item.payload.header for item in items] == [("name", "n")] * 2  # type: ignore[union-attr]
    assert [item.source.range for item in items] == ["A1:B3", "A5:B6"]


def test_a_long_table_is_cut_at_the_row_limit(save: Save, options: IngestOptions) -> None:
    def fill(sheet: Any) -> None:
        sheet.append(["id", "name"])
        for at in range(450):
            sheet.append([at, f"row {at}"])

    items = read(save(fill), options)
    assert [item.source.first_row for item in items] == [0, 200, 400]
    assert {item.source.range for item in items} == {"A1:B451"}


def test_hidden_sheets_and_empty_ones_are_left_out(tmp_path: Path, options: IngestOptions) -> None:
    book = openpyxl.Workbook()
    for name in ("Shown", "Hidden", "Empty"):
        book.create_sheet(name)
    for name in ("Shown", "Hidden"):
        book[name].append(["a", "b"])
        book[name].append([1, 2])
    book["Hidden"].sheet_state = "hidden"
    book.save(tmp_path / "book.xlsx")
    assert [item.source.sheet for item in read(tmp_path / "book.xlsx", options)] == ["Shown"]


def test_formulas_without_a_stored_value_are_empty_and_the_others_stay(
    save: Save, options: IngestOptions
) -> None:
    def fill(sheet: Any) -> None:
        for row in [["n", "double"], [1, "=A2*2"], [2, "4"]]:
            sheet.append(row)

    (found,) = payloads(save(fill), options)
    assert found.rows == (("1", ""), ("2", "4"))


def test_an_ods_file_is_read(tmp_path: Path, options: IngestOptions) -> None:
    document = OpenDocumentSpreadsheet()
    sheet = Table(name="Towns")
    for row in (("town", "people"), ("Rome", 2800000), ("Turin", 850000.5)):
        line = TableRow()
        for value in row:
            if isinstance(value, str):
                cell = TableCell(valuetype="string")
                cell.addElement(P(text=value))
            else:
                cell = TableCell(valuetype="float", value=value)
            line.addElement(cell)
        sheet.addElement(line)
    document.spreadsheet.addElement(sheet)
    document.save(str(tmp_path / "towns.ods"))
    (found,) = payloads(tmp_path / "towns.ods", options)
    assert found.header == ("town", "people")
    assert found.rows == (("Rome", "2800000"), ("Turin", "850000.5"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"not a zip archive", "damaged or no workbook"),
        (b"PK\x03\x04" + b"\0" * 200, "damaged or no workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "password"),
    ],
    ids=["no bytes", "text", "cut archive", "encrypted"],
)
def test_what_is_no_workbook_is_named(
    tmp_path: Path, options: IngestOptions, data: bytes, reason: str
) -> None:
    path = tmp_path / "bad.xlsx"
    path.write_bytes(data)
    with pytest.raises(IngestError, match=reason) as caught:
        read(path, options)
    assert caught.value.path == "bad.xlsx"


def test_a_workbook_without_a_filled_cell_is_named(save: Save, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match="no filled cell"):
        read(save(lambda sheet: None), options)
