from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, TablePayload, TextPayload, item_id
from canopy_rag.ingest.documents import document_item, document_items
from canopy_rag.ingest.jsonl import parse
from canopy_rag.ingest.options import IngestOptions

Write = Callable[..., Path]
Read = Callable[..., list[Item]]


@pytest.fixture
def read(write: Write, options: IngestOptions) -> Read:
    def read_lines(*lines: Any) -> list[Item]:
        content = b"\n".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
        )
        items = list(parse(write("sub/docs.jsonl", content), "sub/docs.jsonl", options))
        for item in items:
            check_tree(item.nodes)
        return items

    return read_lines


def test_each_line_is_an_item_that_is_never_cut(read: Read) -> None:
    long = "Some words make a sentence. " * 500
    items = read("Just a text.", {"text": long, "title": " A\n title ", "section": ["One", "Two"]})
    assert [item.modality for item in items] == ["text", "text"]
    assert isinstance(items[1].payload, TextPayload)
    assert items[1].payload.text == long
    assert items[1].title == "A title"
    assert items[1].section == ("One", "Two")
    assert items[0].title == ""
    assert [item.id for item in items] == [item_id("sub/docs.jsonl", n) for n in range(2)]
    assert [item.source.ordinal for item in items] == [0, 1]


def test_given_ids_are_kept(read: Read) -> None:
    items = read({"id": "mine", "text": "One."}, {"id": 7, "text": "Two."})
    assert [item.id for item in items] == ["mine", "7"]


def test_numbers_in_cells_stay_as_written(read: Read) -> None:
    (item,) = read(
        b'{"table": {"header": ["a", "b"], "rows": [[1.10, 1e5], [true, null, "x"], [{"k": 0}]]}}'
    )
    assert isinstance(item.payload, TablePayload)
    assert item.payload.header == ("a", "b", "")
    assert item.payload.rows == (
        ("1.10", "1e5", ""),
        ("true", "", "x"),
        ('{"k": "0"}', "", ""),
    )
    assert len(leaves(item.nodes)) == 3


def test_a_table_keeps_its_caption_and_may_lack_a_header(read: Read) -> None:
    (item,) = read({"modality": "table", "table": {"rows": [["x"]], "caption": "Cap"}})
    assert isinstance(item.payload, TablePayload)
    assert item.payload == TablePayload(header=(), rows=(("x",),), caption="Cap")


def test_blank_lines_and_a_byte_order_mark_are_passed_over(read: Read) -> None:
    items = read(b'\xef\xbb\xbf{"text": "One."}\r', b"  ", {"text": "Two."}, b"")
    assert len(items) == 2


def test_the_items_of_a_path_belong_to_the_list(write: Write, read: Read) -> None:
    path = write("sub/more/notes.md", "# Head\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nText.\n")
    items = read("First.", {"path": "more/notes.md", "id": "n", "title": "Mine"}, "Last.")
    assert [item.modality for item in items] == ["text", "table", "text", "text"]
    assert [item.id for item in items[1:3]] == ["n", "n#1"]
    assert {item.title for item in items[1:3]} == {"Mine"}
    assert {item.source.uri for item in items} == {"sub/docs.jsonl"}
    assert [item.source.ordinal for item in items] == [0, 1, 2, 3]
    place = locate(items[1], 0, 1)
    assert place.char is not None
    assert path.read_text()[slice(*place.char)] == "| 1 | 2 |"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', r"is not JSON: .* at character 12"),
        (b"\xff", "is not UTF-8 at byte 0"),
        (b"[" * 100_000, "is nested too deeply|is not JSON"),
        (b"3", "must be a text or an object, got a number"),
        (b'["a"]', "must be a text or an object, got list"),
        ({"title": "x"}, "needs exactly one of `text`, `table`, `path`; it has none of them"),
        ({"text": "x", "table": {}}, "it has `text` and `table`"),
        ({"text": " "}, "is empty; leave it out"),
        ({"text": ["x"]}, "`text` must be a string, got list"),
        ({"text": "x", "modality": "audio"}, "`modality` must be one of text, table, image, video"),
        ({"text": "x", "modality": "image"}, "has a text, but its modality is 'image'"),
        ({"text": "x", "id": ""}, "`id` must be a string that is not empty"),
        ({"text": "x", "title": ["y"]}, "`title` must be a string, got list"),
        ({"text": "x", "section": [["y"]]}, "`section` must be a list of headings"),
        (b'{"text": "\\ud800"}', "holds half of a surrogate pair"),
        ({"table": {"header": ["a"]}}, "`table` must be"),
        ({"table": {"header": ["a"], "rows": ["ab"]}}, "row 0 of the table must be a list"),
        ({"table": {"header": "a", "rows": []}}, "header must be a list, got str"),
        ({"table": {"rows": []}}, "is an empty table"),
        ({"path": "gone.txt"}, r"gone\.txt: cannot be read"),
        ({"path": "x.jsonl"}, "a list of documents cannot be one of them"),
        ({"path": ["x"]}, "`path` must be a string, got list"),
        ({"id": "first", "text": "y"}, "the id 'first' came before"),
    ],
)
def test_a_bad_line_is_named(line: Any, message: str, read: Read) -> None:
    with pytest.raises(IngestError, match=message) as caught:
        read({"id": "first", "text": "x"}, b"", line)
    assert str(caught.value).startswith("sub/docs.jsonl (line 3): ")


def test_items_before_a_bad_line_have_been_given(write: Write, options: IngestOptions) -> None:
    items = parse(write("a.jsonl", b'"One."\n{'), "a.jsonl", options)
    assert next(items).modality == "text"
    with pytest.raises(IngestError, match="line 2"):
        next(items)


def test_a_missing_file_is_named(tmp_path: Path, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"gone\.jsonl: cannot be read"):
        list(parse(tmp_path / "gone.jsonl", "gone.jsonl", options))


def test_places_in_a_given_text_are_its_characters(options: IngestOptions) -> None:
    text = "  # No heading.\r\n\r\nOne sentence. Another one.\n"
    item = document_item(text, "document-1", options)
    assert isinstance(item.payload, TextPayload)
    assert item.payload.text == text
    assert not item.payload.headings
    for node in item.nodes:
        place = locate(item, node.start, node.stop)
        assert place.char is not None
        assert text[slice(*place.char)] == text[int(node.start) : int(node.stop)]
    shown = [text[int(item.nodes[n].start) : int(item.nodes[n].stop)] for n in leaves(item.nodes)]
    assert shown == ["# No heading.", "One sentence.", "Another one."]


def test_a_path_is_refused_without_a_folder_to_start_from(options: IngestOptions) -> None:
    with pytest.raises(IngestError, match="path, which is not allowed here"):
        document_items({"path": "/etc/hostname"}, "document-1", options)


def test_a_file_is_read_by_its_path(write: Write, options: IngestOptions) -> None:
    path = write("notes.txt", "Hello there.")
    (by_path,) = document_items(path, "document-1", options, base=Path())
    (by_name,) = document_items({"path": "notes.txt"}, "document-1", options, base=path.parent)
    assert by_path.payload == by_name.payload
    assert by_name.source.uri == "notes.txt"
    assert by_name.title == "notes"


def test_a_picture_is_named_by_its_absolute_path(tmp_path: Path, options: IngestOptions) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 3)).save(tmp_path / "red fox.png")
    (item,) = document_items(
        {"path": "red fox.png", "modality": "image", "title": "Fox"}, "d", options, base=tmp_path
    )
    assert item.modality == "image"
    assert item.title == "Fox"
    assert item.payload.media == (tmp_path / "red fox.png").resolve().as_posix()
    with pytest.raises(IngestError, match="holds no table"):
        document_items({"path": "red fox.png", "modality": "table"}, "d", options, base=tmp_path)
