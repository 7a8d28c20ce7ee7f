from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.ingest.html import parse
from canopy_rag.ingest.options import IngestOptions

Write = Callable[..., Path]
Read = Callable[..., list[Item]]


@pytest.fixture
def read(write: Write, options: IngestOptions) -> Read:
    def read_page(page: str | bytes) -> list[Item]:
        items = list(parse(write("my-page.html", page), "web/my-page.html", options))
        for item in items:
            check_tree(item.nodes)
        return items

    return read_page


def text_of(items: Sequence[Item]) -> str:
    return "\n\n".join(item.payload.text for item in items if isinstance(item.payload, TextPayload))


def table_of(items: Sequence[Item]) -> TablePayload:
    (table,) = [item.payload for item in items if isinstance(item.payload, TablePayload)]
    return table


PAGE = """<!doctype html><html><head><title>Foxes | Site</title><style>p{}</style></head><body>
<header>Site name <nav><a>Home</a></nav></header>
<main id="top"><h1>Red foxes<span class="mw-editsection">[edit]</span></h1>
<p>The fox is <b>re</b>d.<sup class="reference">[1]</sup> It eats
   mice.<br>It sleeps.</p>
<script>var secret = 1</script><div hidden>secret</div><p style="display: none">secret</p>
<span aria-hidden="true">secret</span>
<form role=search><input value=secret><label>secret</label></form>
<h2 id="life">Life</h2>Loose text <i>inline</i><div>in a div</div>
<ul><li>One</li><li><p>Two</p><ul><li id="deep">Deep</li></ul></li></ul>
<figure><img src=a.png alt="A fox at night"><img alt="IMG 1.JPG">
<figcaption>At night</figcaption></figure>
<pre>def f():
    return 1</pre>
<aside>Note in the text.</aside>
</main><footer>Imprint</footer><aside>Advert</aside></body></html>"""


def test_the_main_text_is_read_in_document_order(read: Read) -> None:
    text = text_of(read(PAGE))
    assert text.split("\n\n") == [
        "Red foxes",
        "The fox is red. It eats mice.\nIt sleeps.",
        "Life",
        "Loose text inline",
        "in a div",
        "One",
        "Two",
        "Deep",
        "A fox at night",
        "At night",
        "def f():\n    return 1",
        "Note in the text.",
    ]


def test_headings_and_anchors_are_known(read: Read) -> None:
    items = read(PAGE)
    assert {item.title for item in items} == {"Red foxes"}
    (item,) = items
    assert isinstance(item.payload, TextPayload)
    assert [(heading.level, heading.text) for heading in item.payload.headings] == [
        (1, "Red foxes"),
        (2, "Life"),
    ]
    text = item.payload.text
    anchors = [
        (text[int(item.nodes[leaf].start) :][:4], locate(item, *span).anchor)
        for leaf in leaves(item.nodes)
        for span in [(item.nodes[leaf].start, item.nodes[leaf].stop)]
    ]
    expected = {"The ": "top", "Loos": "life", "One": "life", "Deep": "deep", "At n": "deep"}
    assert {start.strip("\n"): anchor for start, anchor in anchors}.items() >= expected.items()


@pytest.mark.parametrize(
    "page",
    [
        "<body><header>no</header><div><p>yes</p></div><footer>no</footer><nav>no</nav></body>",
        "<body><div id=content>short</div><p>yes</p></body>".replace("short", ""),
        "<body><form><p>yes</p><button>no</button></form></body>",
        "<p>yes",
        "yes",
    ],
)
def test_without_a_main_part_the_body_is_read_but_not_its_frame(page: str, read: Read) -> None:
    assert text_of(read(page)) == "yes"


def test_the_header_of_an_article_belongs_to_it(read: Read) -> None:
    page = "<body><article><header><h1>A</h1></header><p>a</p></article><article>b</article>"
    assert text_of(read(page)) == "A\n\na\n\nb"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>T</title><h1>A <i>b</i></h1>x", "A b"),
        ("<title> T\n t </title><h1>A</h1><h1>B</h1>x", "T t"),
        ("<h1>A</h1><h1>B</h1>x", "A"),
        ("<title></title>x", "my page"),
    ],
)
def test_the_title_is_the_only_h1_or_the_title_or_the_name(
    page: str, title: str, read: Read
) -> None:
    assert read(page)[0].title == title


@pytest.mark.parametrize(
    "page",
    [
        '<meta charset="windows-1251"><p>Привет всем людям'.encode("cp1251"),
        '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r"><p>Привет всем'.encode(
            "koi8-r"
        ),
        '<?xml version="1.0" encoding="windows-1251"?><html><p>Привет всем</p></html>'.encode(
            "cp1251"
        ),
        '<meta charset="iso-8859-1"><p>Привет всем'.encode(),
        "<p>Привет всем".encode("utf-16"),
    ],
    ids=["meta", "http-equiv", "xml", "wrong", "mark"],
)
def test_the_encoding_is_that_of_the_mark_the_bytes_or_the_head(page: bytes, read: Read) -> None:
    assert text_of(read(page)).startswith("Привет всем")


def test_entities_and_spaces_read_as_a_browser_shows_them(read: Read) -> None:
    assert text_of(read("<p>a&nbsp;&amp;\n\n  b<br><br>c &lt;d&gt;</p>")) == "a & b\n\nc <d>"


def test_merged_cells_are_spread_out_and_header_rows_joined(read: Read) -> None:
    table = table_of(
        read(
            """<table><caption>Sales <b>here</b></caption><thead>
            <tr><th rowspan=2>City</th><th colspan=2>2020</th></tr><tr><th>Q1</th><th>Q2</th></tr>
            </thead><tfoot><tr><td>Sum</td><td>4</td><td>6</td></tr></tfoot><tbody>
            <tr><td rowspan=2>Rome</td><td>1</td><td>2<br>est.</td></tr>
            <tr><td colspan=2>3</td></tr><tr><td colspan=3>all of it</td></tr><tr></tr>
            </tbody></table>"""
        )
    )
    assert table.caption == "Sales here"
    assert table.header == ("City", "2020 Q1", "2020 Q2")
    assert table.rows == (
        ("Rome", "1", "2\nest."),
        ("Rome", "3", "3"),
        ("all of it", "", ""),
        ("Sum", "4", "6"),
    )


def test_first_rows_of_header_cells_are_the_header_without_thead(read: Read) -> None:
    table = table_of(read("<table><tr><th>A<th>B<tr><th>x<td>1<tr><td>y<td>2</table>"))
    assert table.header == ("A", "B")
    assert table.rows == (("x", "1"), ("y", "2"))


def test_a_table_without_header_cells_is_judged_by_its_words(read: Read) -> None:
    rows = "<tr><td>Rome<td>3<tr><td>Oslo<td>4"
    assert table_of(read(f"<table><tr><td>City<td>Sales{rows}</table>")).header == ("City", "Sales")
    assert table_of(read(f"<table>{rows}</table>")).header == ()


def test_an_infobox_is_a_table_of_two_columns(read: Read) -> None:
    table = table_of(
        read(
            """<table class=infobox><tr><th colspan=2>Acme</th></tr>
            <tr><td colspan=2><img alt="Logo of Acme"></td></tr>
            <tr><th>Founded</th><td>1999 in <a>Rome</a></td></tr>
            <tr><th>Founders</th><td><ul><li>Ann</li><li>Bob</li></ul></td></tr></table>"""
        )
    )
    assert table.caption == "Acme"
    assert table.header == ()
    assert table.rows == (
        ("Logo of Acme", ""),
        ("Founded", "1999 in Rome"),
        ("Founders", "Ann\nBob"),
    )


@pytest.mark.parametrize(
    "table",
    [
        "<table role=presentation><tr><td>yes<td>yes<tr><td>yes<td>yes</table>",
        "<table><tr><td>yes</table>",
        "<table><tr><td>yes<tr><td>yes</table>",
        "<table><tr><td><h2>yes</h2><td>yes<tr><td>yes<td>yes</table>",
        "<table><tr><td>yes<td>" + "yes " * 400 + "</table>",
    ],
)
def test_tables_for_layout_are_text(table: str, read: Read) -> None:
    items = read(table)
    assert {item.modality for item in items} == {"text"}
    assert set(text_of(items).split()) == {"yes"}


def test_a_table_inside_a_layout_table_is_read(read: Read) -> None:
    page = """<table><tr><td>menu</td><td><p>text</p>
    <table><tr><th>A<th>B<tr><td>1<td>2</table></td></tr></table>"""
    items = read(page)
    assert table_of(items).rows == (("1", "2"),)
    assert text_of(items) == "menu\n\ntext"


def test_rows_know_the_nearest_id(read: Read) -> None:
    page = """<p id=start>x</p><table><tr><th>A<th>B</tr><tr><td>1<td>2</tr>
    <tr id=r2><td>3<td>4</tr><tr><td>5<td>6</tr></table><p>after</p>"""
    _, table, after = read(page)
    assert [locate(table, row, row + 1).anchor for row in range(3)] == ["start", "r2", "r2"]
    assert locate(after, 0, 1).anchor == "r2"


def test_huge_spans_are_bounded(read: Read) -> None:
    cell = "<td colspan=99999999 rowspan=99999>x"
    table = table_of(read(f"<table><tr><th>A<th>B{('<tr>' + cell * 50) * 3}</table>"))
    assert len(table.rows) == 3
    assert len(table.rows[0]) <= 1000


def test_thousands_of_nested_elements_are_read(read: Read) -> None:
    depth = 5000
    page = "<div id=x>" * depth + "<p>deep</p>" + "</div>" * depth + "<b>" * depth + "after"
    assert text_of(read(page)) == "deep\n\nafter"


def test_nested_tables_by_the_thousand_are_read(read: Read) -> None:
    assert "deep" in text_of(read("<table><tr><td>" * 300 + "deep"))


def test_a_page_without_text_says_what_to_do(read: Read) -> None:
    with pytest.raises(IngestError, match=r"web/my-page\.html: holds no text .*save it"):
        read("<body><nav>Home</nav><script>render()</script></body>")


def test_an_empty_file_is_refused(read: Read) -> None:
    with pytest.raises(IngestError, match="is empty"):
        read(b"")


@pytest.mark.skipif(
    "CANOPY_SAMPLES" not in os.environ, reason="CANOPY_SAMPLES names no folder of sample files"
)
def test_an_encyclopedia_page_is_read_whole_without_its_frame(options: IngestOptions) -> None:
    path = Path(os.environ["CANOPY_SAMPLES"]) / "documents" / "wikipedia_microsoft.html"
    items = list(parse(path, path.name, options))
    assert {item.title for item in items} == {"Microsoft"}
    tables = [item.payload for item in items if isinstance(item.payload, TablePayload)]
    assert ("Founded", "April 4, 1975 in Albuquerque, New Mexico, U.S.") in tables[0].rows
    assert any(table.header[:2] == ("Year", "Revenue\nin million US$") for table in tables)
    text = text_of(items)
    assert "Childhood friends Bill Gates and Paul Allen" in text
    assert "Jump to content" not in text
    assert "[edit]" not in text
