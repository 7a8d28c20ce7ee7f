from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml

from canopy_rag.core.errors import IngestError
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.ingest.docx import parse
from canopy_rag.ingest.options import IngestOptions

NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
Write = Callable[..., Path]
Read = Callable[[Any], list[Item]]


@pytest.fixture
def read(write: Write, options: IngestOptions) -> Read:
    def read_document(document: Any) -> list[Item]:
        data = document if isinstance(document, bytes) else packed(document)
        items = list(parse(write("my_file.docx", data), "a/my_file.docx", options))
        for item in items:
            check_tree(item.nodes)
        return items

    return read_document


def packed(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def with_xml(document: Any, xml: str) -> None:
    """Put raw WordprocessingML at the end of the body."""
    for element in parse_xml(f"<w:body {NAMESPACES}>{xml}</w:body>"):
        document.element.body.insert(len(document.element.body) - 1, element)


def run(text: str) -> str:
    return f"<w:r><w:t xml:space='preserve'>{text}</w:t></w:r>"


def texts(items: Sequence[Item]) -> list[str]:
    return [item.payload.text for item in items if isinstance(item.payload, TextPayload)]


def tables(items: Sequence[Item]) -> list[TablePayload]:
    return [item.payload for item in items if isinstance(item.payload, TablePayload)]


def test_headings_paragraphs_lists_and_tables_come_in_order(read: Read) -> None:
    document = docx.Document()
    document.add_heading("The report", 0)
    document.add_heading("First part", 1)
    document.add_paragraph("One sentence. Another one.")
    document.add_paragraph("an entry", style="List Bullet")
    document.add_heading("Numbers", 2)
    table = document.add_table(rows=3, cols=2)
    for row, cells in zip(
        table.rows, [("City", "Size"), ("Rome", "3"), ("Oslo", "1")], strict=True
    ):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("After the table.")
    first, numbers, last = read(document)
    assert first.title == "The report"
    assert isinstance(first.payload, TextPayload)
    assert [(heading.level, heading.text) for heading in first.payload.headings] == [
        (1, "The report"),
        (1, "First part"),
    ]
    assert len(leaves(first.nodes)) >= 3
    assert numbers.section == last.section == ("First part", "Numbers")
    assert isinstance(numbers.payload, TablePayload)
    assert numbers.payload.header == ("City", "Size")
    assert numbers.payload.rows == (("Rome", "3"), ("Oslo", "1"))
    assert texts([last]) == ["After the table."]
    assert first.source.spans == ()


@pytest.mark.parametrize(
    ("written", "title"),
    [("Annual report", "Annual report"), ("", "Heading"), ("Word Document", "Heading")],
)
def test_the_title_is_the_property_or_the_first_heading(
    written: str, title: str, read: Read
) -> None:
    document = docx.Document()
    document.core_properties.title = written
    document.add_heading("Heading", 1)
    document.add_paragraph("Text.")
    assert read(document)[0].title == title


def test_a_document_without_heading_is_called_by_its_name(read: Read) -> None:
    document = docx.Document()
    document.add_paragraph("Text.")
    assert read(document)[0].title == "my file"


def test_merged_cells_stand_in_each_row_and_column_they_cover(read: Read) -> None:
    document = docx.Document()
    table = document.add_table(rows=4, cols=3)
    for at, text in enumerate("ABCdefghijkl"):
        table.cell(at // 3, at % 3).text = text
    table.cell(1, 0).merge(table.cell(2, 0)).text = "tall"
    table.cell(2, 1).merge(table.cell(2, 2)).text = "wide"
    table.cell(3, 0).merge(table.cell(3, 2)).text = "all"
    (payload,) = tables(read(document))
    assert payload.header == ("A", "B", "C")
    assert payload.rows == (("tall", "e", "f"), ("tall", "wide", "wide"), ("all", "", ""))


def test_rows_marked_as_header_are_joined(read: Read) -> None:
    document = docx.Document()
    table = document.add_table(rows=3, cols=2)
    for at, text in enumerate(["2020", "2020", "Q1", "Q2", "1", "2"]):
        table.cell(at // 2, at % 2).text = text
    for row in table.rows[:2]:
        row._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {NAMESPACES}/>"))
    (payload,) = tables(read(document))
    assert payload.header == ("2020 Q1", "2020 Q2")
    assert payload.rows == (("1", "2"),)


def test_a_caption_above_a_table_goes_with_it(read: Read) -> None:
    document = docx.Document()
    document.add_paragraph("Table 1: sizes", style="Caption")
    table = document.add_table(rows=2, cols=2)
    for at, text in enumerate("ABcd"):
        table.cell(at // 2, at % 2).text = text
    document.add_paragraph("Figure 1: no table", style="Caption")
    document.add_paragraph("Text.")
    items = read(document)
    assert tables(items)[0].caption == "Table 1: sizes"
    assert texts(items) == ["Figure 1: no table\n\nText."]


def test_tables_for_layout_are_text(read: Read) -> None:
    document = docx.Document()
    outer = document.add_table(rows=1, cols=2)
    outer.cell(0, 0).text = "left"
    inner = outer.cell(0, 1).add_table(rows=2, cols=2)
    for at, text in enumerate(["City", "Size", "Rome", "3"]):
        inner.cell(at // 2, at % 2).text = text
    items = read(document)
    assert texts(items) == ["left"]
    assert tables(items)[0].rows == (("Rome", "3"),)


def test_text_in_links_content_controls_and_tracked_changes_is_kept(read: Read) -> None:
    document = docx.Document()
    with_xml(
        document,
        f"<w:sdt><w:sdtPr><w:alias w:val='no'/></w:sdtPr><w:sdtContent><w:p>{run('In a control.')}"
        "</w:p></w:sdtContent></w:sdt>"
        f"<w:p>{run('A ')}<w:ins w:id='1'>{run('new')}</w:ins>"
        "<w:del w:id='2'><w:r><w:delText>old</w:delText></w:r></w:del>"
        f"<w:hyperlink>{run(' link')}</w:hyperlink><w:r><w:tab/><w:t>end</w:t><w:br/></w:r>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>",
    )
    assert texts(read(document)) == ["In a control.\n\nA new link end"]


def test_text_boxes_follow_their_paragraph_once(read: Read) -> None:
    box = f"<w:pict><w:txbxContent><w:p>{run('boxed')}</w:p></w:txbxContent></w:pict>"
    document = docx.Document()
    with_xml(
        document,
        f"<w:p>{run('host')}<w:r><mc:AlternateContent><mc:Choice Requires='x'>{box}</mc:Choice>"
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>",
    )
    assert texts(read(document)) == ["host\n\nboxed"]


def test_a_heading_is_known_by_its_outline_level_and_by_the_style_it_derives_from(
    read: Read,
) -> None:
    document = docx.Document()
    style = document.styles.add_style("Mine", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Derived", style="Mine")
    outlined = document.add_paragraph("Outlined")
    outlined._p.get_or_add_pPr().append(parse_xml(f"<w:outlineLvl {NAMESPACES} w:val='0'/>"))
    document.add_paragraph("Text.")
    (item,) = read(document)
    assert isinstance(item.payload, TextPayload)
    assert [(heading.text, heading.level) for heading in item.payload.headings] == [
        ("Derived", 2),
        ("Outlined", 1),
    ]


def test_a_footnote_follows_the_paragraph_that_refers_to_it(read: Read) -> None:
    document = docx.Document()
    with_xml(document, f"<w:p>{run('Claim.')}<w:r><w:footnoteReference w:id='2'/></w:r></w:p>")
    document.add_paragraph("Next.")
    notes = (
        f"<w:footnotes {NAMESPACES}><w:footnote w:id='0' w:type='separator'><w:p/></w:footnote>"
        f"<w:footnote w:id='2'><w:p>{run('The proof.')}</w:p></w:footnote></w:footnotes>"
    )
    relation = (
        '<Relationship Id="rId99" Target="footnotes.xml" Type="http://schemas.openxmlformats.org/'
        'officeDocument/2006/relationships/footnotes"/></Relationships>'
    )
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(packed(document))) as old,
        zipfile.ZipFile(buffer, "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "word/_rels/document.xml.rels":
                content = content.replace(b"</Relationships>", relation.encode())
            new.writestr(name, content)
        new.writestr("word/footnotes.xml", notes)
    assert texts(read(buffer.getvalue())) == ["Claim.\n\nThe proof.\n\nNext."]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], "is damaged or no Word document"),
        (lambda data: b"PK\x03\x04 nonsense", "is damaged or no Word document"),
        (lambda data: b"just text", "is damaged or no Word document"),
        (lambda data: b"", "is empty"),
        (lambda data: bytes.fromhex("d0cf11e0a1b11ae1") + data, "is encrypted, or an old .doc"),
        (lambda data: zipped({"a.txt": b"x"}), "is damaged or no Word document"),
    ],
    ids=["truncated", "zip head", "text", "empty", "encrypted", "other zip"],
)
def test_what_is_no_readable_document_is_refused_by_name(
    damage: Callable[[bytes], bytes], message: str, read: Read
) -> None:
    document = docx.Document()
    document.add_paragraph("Text.")
    with pytest.raises(IngestError) as caught:
        read(damage(packed(document)))
    assert str(caught.value).startswith(f"a/my_file.docx: {message}")


def test_a_file_that_would_fill_the_memory_is_refused(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.ingest.packed.MAX_UNPACKED", 3_000_000)
    with pytest.raises(IngestError, match="would unpack to 4 MB"):
        read(zipped({"word/document.xml": b" " * 4_000_000}))


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
