"""Files made to hurt whoever opens them, each through the process that parses, with its limits."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.indexing.fakes import Bench, PickyEncoder, write

from canopy_rag.config import IngestConfig
from canopy_rag.core.trees import check_tree
from canopy_rag.core.types import TablePayload
from canopy_rag.indexing import Limits
from canopy_rag.indexing.parsing import Parsed, PoolParser, Work
from canopy_rag.pipeline.files import FileParser
from canopy_rag.testing.memory_store import MemoryStore

LIMITS = Limits(seconds=300, memory_mb=1200)
LEVELS = 100_000
Parse = Callable[[str, bytes | str], Parsed]

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
posix = pytest.mark.skipif(sys.platform == "win32", reason="files as POSIX has them")


@pytest.fixture(scope="module")
def parser() -> Iterator[PoolParser[None]]:
    """One process for all of them, as in a run."""
    with closing(PoolParser(FileParser(IngestConfig(ocr="off")), 10**9, 1, limits=LIMITS)) as made:
        yield made


@pytest.fixture
def parse(parser: PoolParser[None], tmp_path: Path) -> Parse:
    def parsed(name: str, content: bytes | str) -> Parsed:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        ((_, found),) = parser.parsed([Work(path=path, uri=name, about=None)])
        for item in found.items:
            check_tree(item.nodes)
        return found

    return parsed


# --- Archives and entities ---------------------------------------------------------------------


def archive(members: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def changed(data: bytes, member: str, change: Callable[[str], str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    members[member] = change(members[member].decode()).encode()
    return archive(members)


def workbook(sheet: str = "") -> bytes:
    import openpyxl

    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active["A1"] = "a text"
    book.save(buffer)
    if not sheet:
        return buffer.getvalue()
    root = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    body = f'<worksheet xmlns="{root}"><sheetData>{sheet}</sheetData></worksheet>'
    return changed(buffer.getvalue(), "xl/worksheets/sheet1.xml", lambda _: body)


def document() -> bytes:
    import docx

    made, buffer = docx.Document(), io.BytesIO()
    made.add_paragraph("a text")
    made.save(buffer)
    return buffer.getvalue()


def laughing(text: str) -> str:
    """Put entities of entities, 10^12 characters of them, in place of a text."""
    entities = ['<!ENTITY l0 "lollollollol">']
    entities += [f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)]
    rest = text.partition("?>")[2] or text
    return f"<!DOCTYPE lolz [{''.join(entities)}]>{rest.replace('a text', '&l11;', 1)}"


def declaring(data: bytes, n_bytes: int) -> bytes:
    """Let an archive's first entry declare a size."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", n_bytes) + data[at + 28 :]


@pytest.mark.parametrize("name", ["bomb.docx", "bomb.xlsx"])
def test_an_archive_that_would_unpack_to_gigabytes_is_refused(parse: Parse, name: str) -> None:
    data = declaring(document() if name.endswith("docx") else workbook(), 4_000_000_000)
    assert "would unpack to 4000 MB" in str(parse(name, data).reason)


def test_entities_of_entities_are_not_expanded(parse: Parse) -> None:
    word = changed(document(), "word/document.xml", laughing)
    assert "is damaged or no Word document" in str(parse("laughing.docx", word).reason)
    cells = '<row r="1"><c r="A1" t="inlineStr"><is><t>a text</t></is></c></row>'
    book = changed(workbook(cells), "xl/worksheets/sheet1.xml", laughing)
    assert "is damaged" in str(parse("laughing.xlsx", book).reason)


def test_an_entity_reads_no_other_file(parse: Parse, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the combination is 7312")

    def stealing(text: str) -> str:
        entity = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
        return entity + text.partition("?>")[2].replace("a text", "before &x; after", 1)

    parsed = parse("stealing.docx", changed(document(), "word/document.xml", stealing))
    assert "7312" not in repr(parsed)


def test_elements_nested_without_end_are_a_damaged_document(parse: Parse) -> None:
    def deep(text: str) -> str:
        return text.replace("<w:body>", "<w:body>" + "<w:ins>" * LEVELS)

    parsed = parse("deep.docx", changed(document(), "word/document.xml", deep))
    assert "is damaged" in str(parsed.reason)


@linux
def test_a_sheet_with_a_cell_in_its_last_corner_fails_alone(parse: Parse) -> None:
    cells = '<row r="1"><c r="A1"><v>1</v></c></row>'
    cells += '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    assert "no memory left" in str(parse("corner.xlsx", workbook(cells)).reason)
    assert parse("after.txt", "Still here.").items


def test_rows_repeated_without_end_are_an_error(parse: Parse) -> None:
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    book, table, buffer = OpenDocumentSpreadsheet(), Table(name="a"), io.BytesIO()
    row = TableRow(numberrowsrepeated=1_048_576)
    cell = TableCell(numbercolumnsrepeated=16_384, valuetype="string")
    cell.addElement(P(text="x"))
    row.addElement(cell)
    table.addElement(row)
    book.spreadsheet.addElement(table)
    book.save(buffer)
    assert "is damaged or no workbook" in str(parse("repeated.ods", buffer.getvalue()).reason)


def test_a_part_that_stands_in_the_place_of_another_is_a_damaged_document(parse: Parse) -> None:
    for part in ("[Content_Types].xml", "_rels/.rels"):
        swapped = changed(document(), part, lambda _: "<a/>")
        assert "is damaged or no Word document" in str(parse("swapped.docx", swapped).reason)


def test_a_damaged_part_of_formats_loses_the_percentages_and_nothing_else(parse: Parse) -> None:
    import openpyxl

    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["share", "of"])
    book.active.append([0.5, "all"])
    book.active["A2"].number_format = "0%"
    book.save(buffer)
    broken = changed(buffer.getvalue(), "xl/_rels/workbook.xml.rels", lambda text: text + "<")
    parsed = parse("formats.xlsx", broken)
    assert parsed.reason is not None or "number formats cannot be read" in parsed.notes[0][1]


@pytest.mark.parametrize("suffix", ["csv", "txt", "html", "md", "jsonl"])
def test_a_packed_file_under_another_name_is_not_text(parse: Parse, suffix: str) -> None:
    data = gzip.compress(b"a,b\n" * 1000, mtime=0)
    assert "not" in str(parse(f"packed.{suffix}", data).reason)


# --- Pictures ----------------------------------------------------------------------------------


def png(width: int, height: int, *more: tuple[bytes, bytes]) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), *more, (b"IDAT", zlib.compress(b"\0" * 1_000_000)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def test_pictures_that_would_decode_to_gigabytes_are_not_decoded(parse: Parse) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "JPEG")
    jpeg = bytearray(buffer.getvalue())
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 65_500, 65_500)
    for name, data in (("bomb.png", png(50_000, 50_000)), ("bomb.jpg", bytes(jpeg))):
        parsed = parse(name, data)
        assert len(parsed.items) == 1
        assert "above the limit" in parsed.notes[0][1]


def test_a_text_chunk_that_unpacks_without_end_is_refused(parse: Parse) -> None:
    text = b"Description\0\0" + zlib.compress(b"a" * 100_000_000)
    assert "corrupt" in str(parse("text.png", png(8, 8, (b"zTXt", text))).reason)


# --- Depth and width ---------------------------------------------------------------------------


@pytest.mark.parametrize("tags", ["<div>", "<div><article><header>", "<form><div>", "<x-a>"])
def test_a_page_nested_past_what_a_parser_can_take_is_refused(parse: Parse, tags: str) -> None:
    assert "nested more than" in str(parse("deep.html", tags * LEVELS + "words").reason)


@pytest.mark.parametrize("tags", ["<b>", "<p>", "<li>", "<br>", "<table><tr><td>", "</div>"])
def test_tags_that_do_not_nest_may_be_many(parse: Parse, tags: str) -> None:
    assert parse("wide.html", tags * 9_000 + "words to be read").items


def test_values_nested_without_end_are_an_error(parse: Parse) -> None:
    for line in ("[" * LEVELS + "]" * LEVELS, '{"text":' + "[" * LEVELS + "]" * LEVELS + "}"):
        assert "nested too deeply" in str(parse("deep.jsonl", line).reason)


@pytest.mark.parametrize("line", ["[" * 20_000, "> " * 9, "*a " * 20_000, "[a](b " * 9_000])
def test_markdown_that_begins_without_end_is_read_in_time(parse: Parse, line: str) -> None:
    assert parse("open.md", line + "words").items


def test_a_table_of_a_million_columns_is_an_item(parse: Parse) -> None:
    (item,) = parse("wide.csv", ",".join(["x"] * 10**6) + "\n" + ",".join(["1"] * 10**6)).items
    assert isinstance(item.payload, TablePayload)
    assert {len(row) for row in item.payload.rows} == {10**6}


def test_rows_far_shorter_than_the_header_do_not_fill_the_memory(parse: Parse) -> None:
    head = ",".join(f"c{n}" for n in range(100_000))
    assert "rows of a few cells" in str(parse("head.csv", f"{head}\n" + "1,2\n" * 5_000).reason)


def test_a_cell_of_twenty_megabytes_is_kept(parse: Parse) -> None:
    (item,) = parse("cell.csv", f"a,b\n1,{'x' * 20_000_000}\n3,4\n").items
    assert isinstance(item.payload, TablePayload)
    assert len(item.payload.rows[0][1]) == 20_000_000


def test_a_million_empty_rows_are_no_rows(parse: Parse) -> None:
    (item,) = parse("rows.csv", "a,b\n1,2\n" + "\n" * 1_000_000 + "3,4\n").items
    assert isinstance(item.payload, TablePayload)
    assert item.payload.rows == (("1", "2"), ("3", "4"))
    assert "no rows" in str(parse("none.csv", ",\n" * 1_000_000).reason)


@pytest.mark.parametrize("suffix", ["txt", "csv", "md", "html"])
def test_nul_bytes_and_utf16_without_its_mark_are_not_text(parse: Parse, suffix: str) -> None:
    for data in (b"a,b\n1,\x002\n", "Über, Öl\n".encode("utf-16-le") * 20):
        assert "NUL bytes" in str(parse(f"file.{suffix}", data).reason)


def test_scripts_and_what_they_draw_are_not_read_and_nothing_is_fetched(parse: Parse) -> None:
    page = """<body><script>document.write('evil')</script><svg onload=evil()><script>evil</script>
    </svg><p onclick='evil()'>Words of the page.</p><iframe src='file:///etc/hostname'></iframe>
    <link rel=stylesheet href='http://127.0.0.1:9/evil'><img src='http://127.0.0.1:9/evil'>"""
    (item,) = parse("page.html", page).items
    assert item.payload.text == "Words of the page."


# --- PDFs that lead back to themselves ---------------------------------------------------------


def pdf(*objects: bytes) -> bytes:
    out, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return out + head + table + end % (len(objects) + 1, len(out))


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
PAGE = (
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Resources<</XObject<</F 5 0 R>>>>"
    b"/Contents 4 0 R>>"
)
DRAWS = b"<</Length 5>>stream\n/F Do\nendstream"


def form(inner: int, times: int = 1) -> bytes:
    content = b"/F Do " * times
    head = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</F %d 0 R>>>>"
    head += b"/Length %d>>"
    return head % (inner, len(content)) + b"stream\n" + content + b"\nendstream"


PDF_LOOPS = {
    "a page tree that is its own kid": pdf(CATALOG, b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"),
    "a cycle of page trees": pdf(
        CATALOG,
        b"<</Type/Pages/Kids[3 0 R]/Count 100000000>>",
        b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R]/Count 1>>",
    ),
    "a form that draws itself": pdf(CATALOG, PAGES, PAGE, DRAWS, form(5)),
    "a stream of its own": pdf(
        CATALOG, PAGES, PAGE, b"<</Length 4 0 R>>stream\n/F Do\nendstream", form(5)
    ),
}


@pytest.mark.parametrize("name", PDF_LOOPS)
def test_a_pdf_that_leads_back_to_itself_ends(parse: Parse, name: str) -> None:
    assert parse("loop.pdf", PDF_LOOPS[name]).reason is not None
    assert parse("after.txt", "Still here.").items


# --- Names and places --------------------------------------------------------------------------

NAMES = [
    "line\nbreak.txt",
    "quote'\".txt",
    "a...txt",
    "a..  ..txt",
    "right\u202eto left.txt",
    "caf\udce9.txt",
    "percent%2e%2e%2fname.txt",
    "-rf.txt",
    "~.txt",
    "$(name).txt",
]


@posix
def test_files_of_any_name_are_indexed_and_told_of(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    bench = Bench(tmp_path / "index", MemoryStore(PickyEncoder().fingerprint))
    for name in NAMES:
        write(tmp_path / "docs" / name, "A line.")
    write(tmp_path / "docs" / "bad\n.txt", "BROKEN")
    report = bench.run(tmp_path / "docs", limits=LIMITS)
    assert report.indexed == len(NAMES)
    assert set(bench.store.sources()) == set(NAMES)
    json.dumps(report.to_dict()).encode()
    assert bench.run(tmp_path / "docs", limits=LIMITS, prune=True).removed == 0


@posix
def test_pipes_devices_and_loops_of_links_do_not_hold_a_run_up(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    bench = Bench(tmp_path / "index", MemoryStore(PickyEncoder().fingerprint))
    docs = tmp_path / "docs"
    write(docs / "a.txt", "A line.")
    os.mkfifo(docs / "pipe.txt")
    (docs / "zero.txt").symlink_to("/dev/zero")
    (docs / "one.txt").symlink_to(docs / "other.txt")
    (docs / "other.txt").symlink_to(docs / "one.txt")
    (docs / "up").symlink_to(docs.parent)
    report = bench.run(docs, docs / "pipe.txt", limits=LIMITS)
    assert bench.store.sources() == {"a.txt": 1}
    assert {Path(each.path).name for each in report.failed} == {"one.txt", "other.txt", "pipe.txt"}


@posix
@pytest.mark.parametrize(
    "place", ["../secret.txt", "{outside}", "link.txt", "sub/../../secret.txt"]
)
def test_a_list_of_documents_cannot_name_a_file_outside_its_folder(
    parse: Parse, tmp_path: Path, place: str
) -> None:
    outside = tmp_path.parent / "secret.txt"
    outside.write_text("the combination is 7312")
    (tmp_path / "link.txt").symlink_to(outside)
    (tmp_path / "sub").mkdir()
    named = place.format(outside=outside)
    parsed = parse("list.jsonl", json.dumps({"path": named}))
    assert "not below its own folder" in str(parsed.reason)
    assert not parsed.items


@posix
def test_a_list_of_documents_cannot_name_a_pipe(parse: Parse, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert "is no file" in str(parse("list.jsonl", '{"path": "pipe.txt"}').reason)
