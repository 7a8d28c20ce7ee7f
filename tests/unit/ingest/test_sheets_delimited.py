from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, TablePayload
from canopy_rag.ingest import sheets
from canopy_rag.ingest.options import IngestOptions

Write = Callable[..., Path]


def read(path: Path, options: IngestOptions) -> list[Item]:
    return list(sheets.parse(path, f"data/{path.name}", options))


def table(path: Path, options: IngestOptions) -> TablePayload:
    (item,) = read(path, options)
    check_tree(item.nodes)
    assert isinstance(item.payload, TablePayload)
    return item.payload


def test_cells_stay_as_written(write: Write, options: IngestOptions) -> None:
    path = write("codes.csv", 'code,price,note\n007,1.10, padded \n008,1e3,"a, ""b"""\n')
    found = table(path, options)
    assert found.header == ("code", "price", "note")
    assert found.rows == (("007", "1.10", " padded "), ("008", "1e3", 'a, "b"'))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_from_the_rows(
    write: Write, options: IngestOptions, delimiter: str
) -> None:
    rows = [["city", "people", "share"], ["Rome", "2 800 000", "4,7"], ["Turin", "850 000", "1,4"]]
    text = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    found = table(write("a.csv", text), options)
    assert [found.header, *found.rows] == [tuple(row) for row in rows]


def test_a_tsv_whose_cells_hold_commas_is_split_at_tabs(
    write: Write, options: IngestOptions
) -> None:
    found = table(
        write("a.tsv", "name\tplace\nAda, L.\tLondon, UK\nAlan, T.\tLondon, UK\n"), options
    )
    assert found.rows[0] == ("Ada, L.", "London, UK")


def test_lines_of_text_with_stray_commas_are_one_column(
    write: Write, options: IngestOptions
) -> None:
    path = write("a.csv", "quote\nNo comma here\nOne, two, three, four\nAgain none\nA, b\nNone\n")
    found = table(path, options)
    assert found.header == ("quote",)
    assert found.rows[1] == ("One, two, three, four",)


def test_a_short_row_is_filled_up_and_a_long_one_keeps_its_cells(
    write: Write, options: IngestOptions
) -> None:
    found = table(write("a.csv", "a,b,c\n1,2,3\n4\n5,6,7,8,9\n"), options)
    assert found.rows == (("1", "2", "3"), ("4", "", ""), ("5", "6", "7", "8", "9"))


def test_a_cell_of_five_megabytes_is_read_whole(write: Write, options: IngestOptions) -> None:
    big = "word " * 1_000_000
    found = table(write("a.csv", f'id,text\n1,"{big}"\n2,short\n'), options)
    assert found.rows[0][1] == big
    assert found.rows[1] == ("2", "short")


def test_line_ends_inside_quotes_belong_to_the_cell(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", 'id,text\r\n1,"two\r\nlines"\r\n2,one\r\n'), options)
    assert found.rows == (("1", "two\r\nlines"), ("2", "one"))


def test_equal_header_names_stay_as_written(write: Write, options: IngestOptions) -> None:
    assert table(write("a.csv", "x,x,y\n1,2,3\n4,5,6\n"), options).header == ("x", "x", "y")


def test_rows_of_values_alone_have_no_header(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", "1,2.5,3\n4,5.5,6\n"), options)
    assert found.header == ()
    assert len(found.rows) == 2


def test_a_first_row_that_occurs_again_is_no_header(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", "red,small\nblue,large\nred,large\n"), options)
    assert found.header == ()
    assert len(found.rows) == 3


def test_years_in_order_may_be_names(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", "country,2019,2020,2021\nItaly,1.5,2.5,3.5\n"), options)
    assert found.header == ("country", "2019", "2020", "2021")


def test_a_header_alone_is_a_table_without_rows(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", "name,city\n"), options)
    assert (found.header, found.rows) == (("name", "city"), ())


def test_one_row_of_values_is_a_row(write: Write, options: IngestOptions) -> None:
    found = table(write("a.csv", "Ada,1815\n"), options)
    assert (found.header, found.rows) == ((), (("Ada", "1815"),))


def test_lines_above_the_table_are_its_caption(write: Write, options: IngestOptions) -> None:
    found = table(
        write("a.csv", "Rainfall in mm,,\n\nmonth,low,high\nMay,1,2\nJune,3,4\n"), options
    )
    assert found.caption == "Rainfall in mm"
    assert found.header == ("month", "low", "high")


def test_blank_lines_and_empty_rows_at_the_end_are_no_rows(
    write: Write, options: IngestOptions
) -> None:
    found = table(write("a.csv", "a,b\n1,2\n\n,\n3,4\n,\n,\n\n"), options)
    assert found.rows == (("1", "2"), ("", ""), ("3", "4"))


@pytest.mark.parametrize(
    "data",
    [
        "name,größe\nÄpfel,3\n".encode("utf-8-sig"),
        "name,größe\nÄpfel,3\n".encode("utf-16"),
        ("name,größe\nÄpfel,3\n" + "Müller,5\nKäse für später,7\n" * 20).encode("cp1252"),
    ],
    ids=["utf-8 with mark", "utf-16", "windows-1252"],
)
def test_other_encodings_are_decoded(write: Write, options: IngestOptions, data: bytes) -> None:
    found = table(write("a.csv", data), replace(options, note=lambda uri, message: None))
    assert found.header == ("name", "größe")
    assert found.rows[0] == ("Äpfel", "3")


def test_a_hundred_thousand_rows_become_items_of_the_row_limit(
    write: Write, options: IngestOptions
) -> None:
    text = "id,name\n" + "".join(f"{at},row {at}\n" for at in range(100_000))
    items = read(write("a.csv", text), options)
    assert len(items) == 100_000 / options.max_rows
    assert [item.source.first_row for item in items[:3]] == [0, 200, 400]
    last = items[-1]
    assert isinstance(last.payload, TablePayload)
    assert last.payload.header == ("id", "name")
    assert last.payload.rows[-1] == ("99999", "row 99999")
    assert len(leaves(last.nodes)) == options.max_rows


def test_rows_are_read_as_far_as_items_are_taken(write: Write, options: IngestOptions) -> None:
    text = "id,name\n" + "1,a\n" * 1000 + '2,"never closed'
    items = sheets.parse(write("a.csv", text), "a.csv", options)
    first = next(items)
    assert isinstance(first.payload, TablePayload)
    assert len(first.payload.rows) == options.max_rows


def test_title_and_uri_are_those_of_the_file(write: Write, options: IngestOptions) -> None:
    (item,) = read(write("rain_fall-2024.csv", "a,b\n1,2\n"), options)
    assert (item.title, item.source.uri) == ("rain fall 2024", "data/rain_fall-2024.csv")


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "empty"), (b"\n\n  \n".replace(b" ", b""), "no rows"), (b"a,b\0,c\n1,2,3\n", "NUL")],
    ids=["no bytes", "blank lines", "NUL bytes"],
)
def test_what_is_no_table_is_named(
    write: Write, options: IngestOptions, data: bytes, reason: str
) -> None:
    with pytest.raises(IngestError, match=reason) as caught:
        read(write("a.csv", data), options)
    assert caught.value.path == "data/a.csv"


def test_a_file_that_vanished_is_named(tmp_path: Path, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"gone\.csv"):
        read(tmp_path / "gone.csv", options)
