from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, TextPayload
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.plain import code_parts, paragraphs, parse

Write = Callable[..., Path]
Check = Callable[[Sequence[Item], str], None]


def text_of(item: Item) -> str:
    assert isinstance(item.payload, TextPayload)
    return item.payload.text


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_items_are_slices_of_the_file_whatever_ends_its_lines(
    newline: str, write: Write, options: IngestOptions, check_slices: Check, check_covered: Check
) -> None:
    parts = [f"Paragraph {n} has words. It has two sentences." for n in range(60)]
    text = f"  {newline}" + f"{newline} {newline}".join(parts) + newline
    items = list(parse(write("notes.txt", text), "sub/notes.txt", options))
    assert 2 < len(items) < 10
    check_slices(items, text)
    check_covered(items, text)
    assert all(text_of(item).startswith("Paragraph") for item in items)


def test_the_title_is_the_file_name_in_words(write: Write, options: IngestOptions) -> None:
    (item,) = parse(write("x", "Hello."), "sub/annual-report_2024.txt", options)
    assert item.title == "annual report 2024"
    assert item.source.uri == "sub/annual-report_2024.txt"


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom", "utf-32", "cp1252", "shift-jis", "cp1251"]
)
def test_common_encodings_are_read(
    encoding: str, write: Write, options: IngestOptions, check_slices: Check
) -> None:
    text = {
        "cp1252": "Garçon, où est le café ? Il est très bon — merci.\r\n" * 4,
        "shift-jis": "これは日本語の文章です。カタカナと漢字も入っています。\r\n" * 8,
        "cp1251": "Это предложение на русском языке. Оно довольно короткое.\n" * 8,
    }.get(encoding, "naïve café. 日本語。\r\nnext line")
    data = (
        b"\xff\xfe" + text.encode("utf-16-le")
        if encoding == "utf-16-le-bom"
        else text.encode(encoding)
    )
    notes: list[tuple[str, str]] = []
    options = replace(options, note=lambda uri, message: notes.append((uri, message)))
    items = list(parse(write("a.txt", data), "a.txt", options))
    check_slices(items, text)
    assert bool(notes) == (not encoding.startswith("utf"))
    assert "".join(map(text_of, items)).replace("\r\n", "").startswith(text[:9])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.txt: is empty: 0 bytes"),
        (b" \n\t\n", "a.txt: is empty: it holds only white space"),
        (b"MZ\x00\x01binary", "a.txt: holds NUL bytes"),
        (("é" * 500).encode() + b"\xff end", "a.txt (byte 1000): is not valid UTF-8"),
        (b"\xff\xfea\x00\x00\xd8", "a.txt (byte 2): is not valid UTF-16-LE"),
    ],
    ids=["empty", "blank", "binary", "broken utf-8", "broken utf-16"],
)
def test_what_is_no_text_is_refused_by_name(
    data: bytes, message: str, write: Write, options: IngestOptions
) -> None:
    with pytest.raises(IngestError) as caught:
        list(parse(write("a.txt", data), "a.txt", options))
    assert str(caught.value).startswith(message)


def test_a_missing_file_is_named(tmp_path: Path, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"gone\.txt: cannot be read: No such file"):
        list(parse(tmp_path / "gone.txt", "gone.txt", options))


def test_one_line_of_five_megabytes_becomes_bounded_items(
    write: Write, options: IngestOptions, check_slices: Check
) -> None:
    text = "x" * 5_000_000
    items = list(parse(write("a.txt", text), "a.txt", options))
    assert max(len(text_of(item)) for item in items) <= 2 * options.target_chars
    assert "".join(map(text_of, items)) == text
    check_slices(items[:3], text)


def test_right_to_left_and_mixed_scripts_keep_their_places(
    write: Write, options: IngestOptions, check_slices: Check, check_covered: Check
) -> None:
    text = "ذهب الولد إلى المدرسة. هل أكل؟\n\nHe said שלום לכולם. 他走了。\n\nกรุงเทพ ประเทศไทย 😀\n"
    items = list(parse(write("a.txt", text), "a.txt", options))
    check_slices(items, text)
    check_covered(items, text)


def test_each_line_of_a_file_with_a_paragraph_per_line_is_a_paragraph() -> None:
    text = "word " * 100 + "\nshort\n" + "word " * 90
    assert [text[slice(*one)].split(maxsplit=1)[0] for one in paragraphs(text)] == [
        "word",
        "short",
        "word",
    ]
    assert len(list(paragraphs(text))) == 3


@given(st.text(st.sampled_from("ab \n\r\t\u2028")))
def test_paragraphs_hold_all_but_white_space(text: str) -> None:
    position = 0
    for start, stop in paragraphs(text):
        assert not text[position:start].strip()
        assert text[start:stop] == text[start:stop].strip() != ""
        position = stop
    assert not text[position:].strip()


def test_a_code_block_has_leaves_of_whole_lines_that_end_at_blank_lines() -> None:
    function = "def f(x):\n" + "    x = x + 1\n" * 15 + "    return x\n"
    code = f"{function}\n{function}\nx = 1"
    parts = [code[slice(*part)] for part in code_parts(code)]
    assert [part.split("\n")[-1].strip() for part in parts] == ["return x", "return x", "x = 1"]


@given(st.text(st.sampled_from("ab \n"), max_size=3000))
def test_code_parts_hold_all_but_white_space(code: str) -> None:
    position = 0
    for start, stop in code_parts(code):
        assert not code[position:start].strip()
        assert position <= start < stop <= start + 1000
        position = stop
    assert not code[position:].strip()
