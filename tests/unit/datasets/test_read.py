from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.datasets import _read
from canopy_rag.datasets._read import (
    Record,
    found_files,
    json_lines,
    json_records,
    json_value,
    tsv_rows,
)


@pytest.fixture(params=[1, 7, 1 << 20], autouse=True)
def _chunk_chars(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in pieces that cut values anywhere."""
    monkeypatch.setattr(_read, "_CHUNK_CHARS", request.param)


def fails(path: Path, *parts: str) -> None:
    with pytest.raises(DataError) as error:
        list(json_records(path))
    for part in parts:
        assert part in str(error.value)


def test_an_array_is_read_record_by_record_however_it_is_cut(write) -> None:
    wanted = [
        {"text": 'quotes " and \\ and é', "number": -1.5e10, "list": [1, [2, {}]], "none": None},
        {},
        {"long": "x" * 100, "unicode": "дом 家 \U0001f600", "true": True},
    ]
    path = write("a.json", json.dumps(wanted, indent=1))
    assert [record.fields for record in json_records(path)] == wanted
    assert [record.where for record in json_records(path)] == ["record 1", "record 2", "record 3"]


def test_an_array_may_be_empty_gzipped_or_inside_an_object(write) -> None:
    assert list(json_records(write("a.json", " [ ] "))) == []
    assert [each.fields for each in json_records(write("a.json.gz", [{"a": 1}]))] == [{"a": 1}]
    inside = write("b.json", '{"data": [{"a": 1}]}')
    assert [each.fields for each in json_records(inside, inside="data")] == [{"a": 1}]
    with pytest.raises(DataError, match="first key is 'rows'"):
        list(json_records(inside, inside="rows"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"a": 1}, {"b":', "record 2, character 17"),
        ('[{"a": 1}, {"b": "no en', "record 2"),
        ('[{"a": 1}', "after record 1, character 10"),
        ('[{"a": 1},', "record 2, character 11"),
    ],
)
def test_a_truncated_array_names_file_record_and_position(write, text: str, place: str) -> None:
    fails(write("cut.json", text), "cut.json", place, "ends too early", "incomplete")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"a" 1}, {"b": 2}, {"c": 3}]', "record 1, character 7"),
        ('[{"a": 1} {"b": 2}, {"c": 3}]', "after record 1, character 11"),
    ],
)
def test_an_invalid_array_names_file_record_and_position(write, text: str, place: str) -> None:
    fails(write("bad.json", text), "bad.json", place, "not valid JSON")


def test_an_array_holds_objects_and_nothing_follows_it(write) -> None:
    fails(write("a.json", "[1]"), "record 1", "must be an object, got 1")
    fails(write("a.json", '{"a": 1}'), "must be a JSON array")
    fails(write("a.json", ""), "must be a JSON array")
    fails(write("a.json", "[{}] more"), "nothing may follow")


def test_json_lines_pass_over_blank_lines_and_name_the_broken_one(write) -> None:
    path = write("a.jsonl", '\ufeff{"a": 1}\n\n{"a": 2}\r\n')
    assert [(each.where, each.fields["a"]) for each in json_lines(path)] == [
        ("line 1", 1),
        ("line 3", 2),
    ]
    with pytest.raises(DataError, match=r"b\.jsonl \(line 2, character 6\): the JSON ends too"):
        list(json_lines(write("b.jsonl", '{"a": 1}\n{"a":')))
    with pytest.raises(DataError, match=r"b\.jsonl \(line 1\): must be an object"):
        list(json_lines(write("b.jsonl", "[]\n")))


def test_a_small_file_names_the_line_that_is_broken(write) -> None:
    assert json_value(write("a.json", {"a": [1]})) == {"a": [1]}
    with pytest.raises(DataError, match=r"a\.json \(line 2\): the JSON ends too early"):
        json_value(write("a.json", '{"a":\n'))


def test_rows_between_tabs_may_be_quoted_over_lines(write) -> None:
    path = write("a.tsv", 'id\ttext\ttitle\n1\t"He said ""so""\n twice"\t"A ""B"""\n2\tb\tc\n')
    assert list(tsv_rows(path, ("id", "text", "title"))) == [
        (3, ["1", 'He said "so"\n twice', 'A "B"']),
        (4, ["2", "b", "c"]),
    ]


def test_rows_of_the_wrong_length_or_header_are_named(write) -> None:
    with pytest.raises(DataError, match=r"a\.tsv \(line 2\): has 2 fields instead of 3"):
        list(tsv_rows(write("a.tsv", "id\ttext\ttitle\n1\ta\n"), ("id", "text", "title")))
    with pytest.raises(DataError, match=r"a\.tsv \(line 1\): must name the columns id text title"):
        list(tsv_rows(write("a.tsv", "1\ta\tb\n"), ("id", "text", "title")))


def test_what_is_no_utf8_or_no_whole_gzip_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(DataError, match=r"a\.jsonl: is not UTF-8"):
        list(json_lines(path))
    packed = gzip.compress(json.dumps([{"a": str(n)} for n in range(999)]).encode())
    for content in (packed[:-20], b"no gzip at all"):
        broken = tmp_path / "b.json.gz"
        broken.write_bytes(content)
        with pytest.raises(DataError, match=r"b\.json\.gz"):
            list(json_records(broken))


def test_fields_are_asked_for_by_kind_and_errors_name_them() -> None:
    record = Record(
        Path("x/f.json"),
        "record 3",
        {"s": "a", "n": 1, "yes": True, "l": ["a", 2], "o": {"in": 1}, "none": None, "p": [{}, 3]},
    )
    assert record.want("s", str) == "a"
    assert record.want("n", float) == 1.0
    assert record.optional("none", str, "x") == record.optional("gone", str, "x") == "x"
    assert record.part("o").fields == {"in": 1}
    for ask, message in (
        (lambda: record.want("gone", str), "f.json (record 3): the field 'gone' is missing"),
        (lambda: record.want("n", str), "the field 'n' must be text, got 1"),
        (lambda: record.want("yes", int), "the field 'yes' must be a whole number, got True"),
        (lambda: record.texts("l"), "the field 'l' must hold texts only, got 2"),
        (lambda: record.part("o").want("x", str), "f.json (record 3, o): the field 'x' is missing"),
        (lambda: record.parts("p"), "f.json (record 3, p 2): must be an object, got 3"),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            ask()


def test_files_are_found_plain_before_gzipped_and_by_pattern(write, tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz", "b.json.gz", "z.jsonl", "y.jsonl.gz"):
        write(name, [])
    found = [path.name for path in found_files(tmp_path, "b.json", "a.json", "c.json", "*.jsonl")]
    assert found == ["b.json.gz", "a.json", "y.jsonl.gz", "z.jsonl"]
    with pytest.raises(DataError, match="no such folder"):
        found_files(tmp_path / "nowhere", "a.json")
