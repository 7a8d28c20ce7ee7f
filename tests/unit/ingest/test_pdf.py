from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pypdfium2
import pytest
from fpdf import FPDF
from PIL import Image

from canopy_rag.core.errors import IngestError
from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, Place, TablePayload, TextPayload
from canopy_rag.ingest import ocr, pdf
from canopy_rag.ingest.options import IngestOptions

SAMPLES = os.environ.get("CANOPY_SAMPLES")
LOREM = (
    "The first sentence is here to fill the column with words. A second one follows it closely. "
    "Then comes a third, which is about as long as the others are."
)
Draw = Callable[[FPDF], None]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def options(options: IngestOptions, notes: list[str]) -> IngestOptions:
    return replace(options, ocr="off", note=lambda uri, message: notes.append(message))


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Draw], Path]:
    """Write a PDF by a function that draws on it."""

    def make(draw: Draw) -> Path:
        document = FPDF(unit="pt", format="A4")
        document.set_auto_page_break(auto=False)
        document.set_margin(0)
        document.set_font("Helvetica", size=10)
        document.add_page()
        draw(document)
        path = tmp_path / "made.pdf"
        document.output(str(path))
        return path

    return make


def read(path: Path, options: IngestOptions) -> list[Item]:
    items = list(pdf.parse(path, f"docs/{path.name}", options))
    for item in items:
        check_tree(item.nodes)
    return items


def text_of(items: Sequence[Item]) -> str:
    return "\n\n".join(item.payload.text for item in items if isinstance(item.payload, TextPayload))


def lines(document: FPDF, left: float, top: float, texts: Sequence[str], step: float = 12) -> None:
    for at, text in enumerate(texts):
        document.text(left, top + at * step, text)


def grid(
    document: FPDF, left: float, top: float, widths: Sequence[float], rows: Sequence[Sequence[str]]
) -> None:
    """Draw a ruled table."""
    for at, row in enumerate(rows):
        x = left
        for width, cell in zip(widths, row, strict=True):
            document.rect(x, top + 20 * at, width, 20)
            document.text(x + 4, top + 20 * at + 14, cell)
            x += width


def check_places(path: Path, items: Sequence[Item]) -> int:
    """Read the place of each leaf again; return the number of leaves."""
    n_leaves = 0
    for item in items:
        for leaf in leaves(item.nodes):
            node = item.nodes[leaf]
            if node.start == node.stop:
                continue
            again = pdf.read_place(path, locate(item, node.start, node.stop).places)
            if isinstance(item.payload, TextPayload):
                shown = item.payload.text[int(node.start) : int(node.stop)]
                assert " ".join(shown.split()) == again
            elif isinstance(item.payload, TablePayload):
                # A row's box is read line by line, its cells are not: the characters are the same.
                cells = "".join(item.payload.rows[int(node.start)])
                assert sorted(cells.replace(" ", "")) == sorted(again.replace(" ", ""))
            n_leaves += 1
    return n_leaves


def two_columns(document: FPDF) -> None:
    for column, name in ((60, "left"), (320, "right")):
        words = [f"{name} column line {at} holds enough words to be prose" for at in range(12)]
        lines(document, column, 100, words)


def test_columns_are_read_one_after_the_other(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    text = text_of(read(save(two_columns), options))
    assert text.index("left column line 11") < text.index("right column line 0")


def test_a_line_across_columns_ends_those_above_it(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for top, name in ((100, "upper"), (300, "lower")):
            for column, side in ((60, "left"), (320, "right")):
                words = [f"{name} {side} line {at} holds enough words for prose" for at in range(8)]
                lines(document, column, top, words)
        document.text(60, 240, "A line as wide as both columns together " + "stands between " * 4)

    text = text_of(read(save(draw), options))
    order = ["upper left line 7", "upper right line 0", "A line as wide", "lower left line 0"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_a_paragraph_goes_on_in_the_next_column(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        left = [f"line {at} of a paragraph that is long enough to be" for at in range(12)]
        right = [f"part {at} of the same, going on in the next column" for at in range(12)]
        lines(document, 60, 100, left)
        lines(document, 320, 100, [*right, "and then it ends."])

    (item,) = read(save(draw), options)
    assert isinstance(item.payload, TextPayload)
    assert "\n" not in item.payload.text
    assert "long enough to be part 0 of the same" in item.payload.text


def test_a_table_without_rules_is_read_row_by_row(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for at, (name, first, second) in enumerate(
            [("Iowa", "1.35", "1.38"), ("Ohio", "2.20", "2.40"), ("Utah", "3.10", "3.30")] * 3
        ):
            lines(document, 60, 100 + 12 * at, [name])
            lines(document, 200, 100 + 12 * at, [first])
            lines(document, 300, 100 + 12 * at, [second])

    text = text_of(read(save(draw), options))
    assert text.split("\n\n")[:2] == ["Iowa 1.35 1.38", "Ohio 2.20 2.40"]


def test_a_hyphen_at_a_line_end_stays_and_takes_no_space(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    text = text_of(
        read(save(lambda document: lines(document, 60, 100, ["a well-", "known thing"])), options)
    )
    assert text == "a well-known thing"


def test_larger_and_bold_lines_are_headings_of_what_follows(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        document.set_font("Helvetica", size=20)
        document.text(60, 80, "The Great Title")
        document.set_font("Helvetica", style="B", size=10)
        document.text(60, 120, "A bold heading")
        document.set_font("Helvetica", size=10)
        lines(document, 60, 140, [LOREM[:57], LOREM[58:91], LOREM[92:]])

    (item,) = read(save(draw), options)
    assert isinstance(item.payload, TextPayload)
    assert [(heading.text, heading.level) for heading in item.payload.headings] == [
        ("The Great Title", 1),
        ("A bold heading", 2),
    ]


def test_paragraphs_part_at_gaps_and_at_indents(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        lines(document, 60, 100, ["One paragraph begins here and fills its line", "until it ends."])
        lines(
            document, 60, 150, ["Another one after a gap fills its line as well", "and ends now."]
        )
        document.text(75, 174, "An indented one begins right below it and it")
        document.text(60, 186, "comes back to the left.")

    text = text_of(read(save(draw), options))
    assert [part.split()[0] for part in text.split("\n\n")] == ["One", "Another", "An"]


def test_lines_that_hang_below_a_bullet_belong_to_it(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for at, name in enumerate(("first", "second")):
            document.text(60, 100 + 24 * at, f"- the {name} point of a list, which goes on")
            document.text(75, 112 + 24 * at, f"below and is still the {name}")

    text = text_of(read(save(draw), options))
    assert text.split("\n\n") == [
        f"- the {name} point of a list, which goes on below and is still the {name}"
        for name in ("first", "second")
    ]


def test_running_lines_and_page_numbers_are_left_out(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for page in range(1, 8):
            if page > 1:
                document.add_page()
            document.text(60, 40, "Annual report 2024")
            document.text(500, 820, f"Page {page} of 7")
            document.text(60, 200, f"This is what page {page} says about the year 2024.")

    text = text_of(read(save(draw), options))
    assert "Annual report" not in text
    assert "of 7" not in text
    assert all(f"what page {page} says" in text for page in range(1, 8))


def test_numbers_at_the_edge_that_do_not_count_pages_stay(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for page, total in enumerate((17, 5, 230, 4, 99)):
            if page:
                document.add_page()
            document.text(60, 200, f"A text on page {page} that says nothing.")
            document.text(60, 820, f"Total {total}")

    text = text_of(read(save(draw), options))
    assert all(f"Total {total}" in text for total in (17, 5, 230, 4, 99))


def test_a_ruled_table_is_an_item_with_a_place_for_each_row(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        document.text(60, 80, "A sentence before the table.")
        rows = [["town", "people"], ["Rome", "2,800,000"], ["Turin", "850,000"]]
        grid(document, 60, 100, [120, 120], rows)
        document.text(60, 240, "A sentence after the table.")

    path = save(draw)
    before, table, after = read(path, options)
    assert isinstance(table.payload, TablePayload)
    assert table.payload.header == ("town", "people")
    assert table.payload.rows == (("Rome", "2,800,000"), ("Turin", "850,000"))
    (place,) = locate(table, 1, 2).places
    assert place.page == 1
    assert place.box is not None
    left, top, right, bottom = place.box
    assert 60 < left < right < 300
    assert 140 < top < bottom < 160
    assert "Rome" not in text_of([before, after])
    check_places(path, [before, table, after])


def test_open_sides_and_rows_without_rules_still_make_a_table(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        for y in (100, 120, 190):
            document.line(60, y, 420, y)
        for x in (180, 300):
            document.line(x, 100, x, 190)
        for x, name in ((64, "item"), (184, "count"), (304, "price")):
            document.text(x, 114, name)
        for at, row in enumerate(
            [("apple", "3", "1.20"), ("pear", "5", "2.40"), ("fig", "9", "4.10")]
        ):
            for x, cell in zip((64, 184, 304), row, strict=True):
                document.text(x, 140 + 18 * at, cell)

    (item,) = read(save(draw), options)
    assert isinstance(item.payload, TablePayload)
    assert item.payload.header == ("item", "count", "price")
    assert item.payload.rows == (
        ("apple", "3", "1.20"),
        ("pear", "5", "2.40"),
        ("fig", "9", "4.10"),
    )


def test_text_that_wraps_in_a_cell_stays_one_row(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        grid(document, 60, 100, [85, 85], [["what", "why"], ["", ""], ["x", "y"]])
        document.set_font("Helvetica", size=8)
        lines(document, 63, 128, ["several words that fill", "this cell in two lines"], 9)
        lines(document, 148, 128, ["a reason which is too", "long for a single line"], 9)

    (item,) = read(save(draw), options)
    assert isinstance(item.payload, TablePayload)
    assert item.payload.rows[0] == (
        "several words that fill this cell in two lines",
        "a reason which is too long for a single line",
    )


def test_a_frame_around_text_is_no_table(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        document.rect(50, 80, 400, 200)
        document.line(50, 180, 450, 180)
        lines(document, 60, 100, [LOREM[:57], LOREM[58:91], LOREM[92:]])

    assert {item.modality for item in read(save(draw), options)} == {"text"}


def test_a_table_that_goes_on_keeps_its_header(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        grid(document, 60, 700, [100, 100], [["name", "n"], ["a", "1"], ["b", "2"]])
        document.add_page()
        grid(document, 60, 60, [100, 100], [["c", "3"], ["d", "4"]])

    _, second = read(save(draw), options)
    assert isinstance(second.payload, TablePayload)
    assert second.payload.header == ("name", "n")
    assert second.payload.rows == (("c", "3"), ("d", "4"))
    assert [place.page for place in locate(second, 0, 1).places] == [2]


def test_a_line_above_a_table_that_names_it_is_its_caption(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        document.text(60, 92, "Table 1: Towns")
        grid(document, 60, 100, [120, 120], [["town", "people"], ["Rome", "28"], ["Bari", "3"]])

    (item,) = read(save(draw), options)
    assert isinstance(item.payload, TablePayload)
    assert item.payload.caption == "Table 1: Towns"


def test_each_sentence_has_its_own_boxes(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        lines(document, 60, 100, ["One ends here. Two begins on the first line", "and ends below."])

    path = save(draw)
    (item,) = read(path, options)
    assert isinstance(item.payload, TextPayload)
    second = item.payload.text.index("Two")
    places = locate(item, second, len(item.payload.text)).places
    assert [pdf.read_place(path, [place]) for place in places] == [
        "Two begins on the first line",
        "and ends below.",
    ]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_places_are_those_of_the_page_as_displayed(
    save: Callable[[Draw], Path], tmp_path: Path, options: IngestOptions, rotation: int
) -> None:
    document = pypdfium2.PdfDocument(save(lambda made: made.text(60, 100, "A line of text.")))
    document[0].set_rotation(rotation)
    document[0].set_cropbox(20, 0, 595, 842)
    document.save(tmp_path / "turned.pdf")
    document.close()
    items = read(tmp_path / "turned.pdf", options)
    check_places(tmp_path / "turned.pdf", items)
    (place,) = items[0].source.spans[0].places
    assert place.box is not None
    left, top, right, bottom = place.box
    # Upright, the line begins 60 - 20 points from the left and ends above 100 from the top.
    near = {0: (left, bottom), 90: (842 - bottom, 0), 180: (575 - right, 842 - top), 270: (0, 0)}
    if rotation in {0, 180}:
        assert near[rotation] == pytest.approx((40, 100), abs=4)
    elif rotation == 90:
        assert (top, 842 - left) == pytest.approx((40, 100), abs=4)
    else:
        assert (575 - bottom, right) == pytest.approx((40, 100), abs=4)


def test_the_text_of_every_leaf_is_what_its_place_says(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        two_columns(document)
        grid(document, 60, 400, [120, 120], [["town", "people"], ["Rome", "28"], ["Bari", "3"]])
        document.add_page()
        document.set_font("Helvetica", style="B", size=16)
        document.text(60, 80, "Chapter two")
        document.set_font("Helvetica", size=10)
        lines(document, 60, 110, [LOREM[:70] + "-", *LOREM[70:].split(". ")])

    path = save(draw)
    assert check_places(path, read(path, options)) >= 6


@pytest.mark.skipif(SAMPLES is None, reason="CANOPY_SAMPLES names no folder of sample files")
@pytest.mark.parametrize(
    ("name", "n_leaves"),
    [
        ("ag-energy-round-up-2017-02-24", 40),
        ("federal-register-2020-17221", 300),
        ("nics-background-checks-2015-11", 56),
        ("sample_pdf_1", 12),
    ],
)
def test_the_text_of_every_leaf_of_a_sample_is_what_its_place_says(
    options: IngestOptions, name: str, n_leaves: int
) -> None:
    path = Path(SAMPLES or "") / "documents" / f"{name}.pdf"
    assert check_places(path, read(path, options)) >= n_leaves


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("A Study of Trees", "A Study of Trees"),
        ("", "made"),
        ("untitled", "made"),
        ("Microsoft Word - draft3.docx", "made"),
        ("draft3.docx", "made"),
    ],
)
def test_the_title_is_the_metadata_if_it_says_something(
    save: Callable[[Draw], Path], options: IngestOptions, title: str, expected: str
) -> None:
    def draw(document: FPDF) -> None:
        document.set_title(title)
        document.text(60, 100, "Some text.")

    (item,) = read(save(draw), options)
    assert item.title == expected


def test_pages_are_read_as_items_are_taken(
    save: Callable[[Draw], Path], options: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(document: FPDF) -> None:
        for page in range(200):
            if page:
                document.add_page()
            lines(document, 60, 100, [f"{LOREM} {page}"] * 40)

    path = save(draw)
    pages: list[int] = []
    original = pdf.Flow._page  # type: ignore[attr-defined]

    def counted(self: object, index: int) -> object:
        pages.append(index)
        return original(self, index)

    monkeypatch.setattr("canopy_rag.ingest.pdf_flow.Flow._page", counted)
    next(pdf.parse(path, "long.pdf", options))
    assert len(pages) < 40


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"hello, this is text", "is no PDF"),
        (b"%PDF-1.7\n" + b"junk " * 400, "cut off"),
        (b"%PDF-1.7\n" + b"junk " * 400 + b"\n%%EOF\n", "damaged"),
    ],
    ids=["no bytes", "text", "cut", "junk"],
)
def test_what_is_no_pdf_is_named(
    tmp_path: Path, options: IngestOptions, data: bytes, reason: str
) -> None:
    path = tmp_path / "bad.pdf"
    path.write_bytes(data)
    with pytest.raises(IngestError, match=reason) as caught:
        read(path, options)
    assert caught.value.path == "docs/bad.pdf"


def test_a_file_that_vanished_is_named(tmp_path: Path, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"gone\.pdf"):
        read(tmp_path / "gone.pdf", options)


def test_a_password_is_asked_to_be_taken_off(
    save: Callable[[Draw], Path], options: IngestOptions
) -> None:
    def draw(document: FPDF) -> None:
        document.set_encryption(owner_password="owner", user_password="user")
        document.text(60, 100, "Secret.")

    with pytest.raises(IngestError, match="protected by a password"):
        read(save(draw), options)


def test_a_cut_file_is_an_error_or_a_note(
    save: Callable[[Draw], Path], options: IngestOptions, notes: list[str]
) -> None:
    path = save(lambda document: document.text(60, 100, "Some text."))
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.95):
        path.write_bytes(data[: int(share * len(data))])
        notes.clear()
        try:
            read(path, options)
        except IngestError:
            continue
        assert any("cut" in note for note in notes)


def scan(document: FPDF) -> None:
    document.image(Image.new("RGB", (60, 40), "white"), 0, 0, 500, 700)


def test_pictures_of_text_need_ocr(save: Callable[[Draw], Path], options: IngestOptions) -> None:
    with pytest.raises(IngestError, match="holds pictures of pages and no text"):
        read(save(scan), options)


def test_a_blank_document_is_named(save: Callable[[Draw], Path], options: IngestOptions) -> None:
    with pytest.raises(IngestError, match="holds no text"):
        read(save(lambda document: None), options)


def test_a_page_that_is_a_picture_is_noted_while_the_others_are_read(
    save: Callable[[Draw], Path], options: IngestOptions, notes: list[str]
) -> None:
    def draw(document: FPDF) -> None:
        document.text(60, 100, "Some text.")
        document.add_page()
        scan(document)

    assert "Some text." in text_of(read(save(draw), options))
    assert len(notes) == 1
    assert "page 2" in notes[0]


def test_ocr_reads_pages_that_are_pictures(
    save: Callable[[Draw], Path], options: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []

    def read_text(image: Image.Image) -> str:
        sizes.append(image.size)
        return "Words seen in\nthe picture."

    monkeypatch.setattr(ocr, "read_text", read_text)
    (item,) = read(save(scan), replace(options, ocr="on"))
    assert isinstance(item.payload, TextPayload)
    assert item.payload.text == "Words seen in the picture."
    assert locate(item, 0, 5).places == (Place(page=1),)
    assert max(sizes[0]) == pytest.approx(842 * 150 / 72, abs=2)


def test_a_damaged_page_is_noted_while_the_others_are_read(
    save: Callable[[Draw], Path],
    options: IngestOptions,
    notes: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def draw(document: FPDF) -> None:
        for page in range(3):
            if page:
                document.add_page()
            document.text(60, 100, f"Text of page {page}.")

    path = save(draw)
    get_page = pypdfium2.PdfDocument.__getitem__

    def failing(self: pypdfium2.PdfDocument, index: int) -> object:
        if index == 1:
            raise pypdfium2.PdfiumError("Failed to load page.")
        return get_page(self, index)

    monkeypatch.setattr(pypdfium2.PdfDocument, "__getitem__", failing)
    text = text_of(read(path, options))
    assert "Text of page 0." in text
    assert "Text of page 2." in text
    assert notes == ["damaged and left out: page 2"]
