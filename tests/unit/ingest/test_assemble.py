from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, Place, SourceSpan, TablePayload, TextPayload, item_id
from canopy_rag.ingest.assemble import Assembler, Block, Border, Table
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.text import DefaultSplitter

OPTIONS = IngestOptions(splitter=DefaultSplitter(), target_chars=100, max_rows=3)


def assembler(full_text: str | None = None) -> Assembler:
    return Assembler("a/b.txt", "The title", OPTIONS, full_text)


def heading(text: str, level: int = 2) -> Block:
    return Block(text=text, level=level)


def paragraph(n_chars: int, letter: str = "x") -> Block:
    return Block(text=(letter * 9 + ".") * (n_chars // 10))


def text_of(item: Item) -> str:
    assert isinstance(item.payload, TextPayload)
    return item.payload.text


def shape(items: list[Item]) -> list[list[str]]:
    """The first letter of each block of each item; headings whole."""
    return [
        [part if part.startswith("H") else part[0] for part in text_of(item).split("\n\n")]
        for item in items
    ]


def test_paragraphs_fill_an_item_up_to_the_target() -> None:
    blocks = [paragraph(40, "a"), paragraph(40, "b"), paragraph(40, "c"), paragraph(90, "d")]
    assert shape(list(assembler().items(blocks))) == [["a", "b"], ["c"], ["d"]]


def test_items_are_numbered_and_named() -> None:
    items = list(assembler().items([paragraph(90), paragraph(90)]))
    assert [item.source.ordinal for item in items] == [0, 1]
    assert [item.id for item in items] == [item_id("a/b.txt", 0), item_id("a/b.txt", 1)]
    assert {item.title for item in items} == {"The title"}


def test_a_heading_ends_an_item_once_it_is_a_third_full() -> None:
    blocks = [paragraph(20, "a"), heading("H1"), paragraph(20, "b"), heading("H2")]
    items = list(assembler().items([*blocks, paragraph(20, "c")]))
    assert shape(items) == [["a", "H1", "b"], ["H2", "c"]]


def test_a_heading_of_level_one_always_ends_an_item() -> None:
    blocks = [paragraph(10, "a"), heading("H1", 1), paragraph(10, "b")]
    assert shape(list(assembler().items(blocks))) == [["a"], ["H1", "b"]]


def test_a_heading_moves_to_the_next_item_with_the_paragraph_that_follows_it() -> None:
    blocks = [paragraph(20, "a"), heading("H1"), heading("H2", 3), paragraph(90, "b")]
    assert shape(list(assembler().items(blocks))) == [["a"], ["H1", "H2", "b"]]


def test_a_last_heading_without_text_stays_with_the_last_item() -> None:
    blocks = [paragraph(20, "a"), heading("H1")]
    assert shape(list(assembler().items(blocks))) == [["a", "H1"]]


def test_a_document_of_headings_alone_keeps_them_in_items_of_bounded_size() -> None:
    items = list(assembler().items(heading(f"H{number:03d}") for number in range(100)))
    assert "".join(map(text_of, items)).count("H") == 100
    assert all(len(text_of(item)) < 300 for item in items)


def test_an_item_knows_the_headings_above_it_without_its_own_and_the_title() -> None:
    blocks = [
        heading("The title", 1),
        heading("H1", 2),
        heading("H2", 3),
        paragraph(90, "a"),
        paragraph(90, "b"),
        heading("H3", 3),
        paragraph(90, "c"),
        heading("H4", 2),
        paragraph(90, "d"),
        paragraph(90, "e"),
    ]
    items = list(assembler().items(blocks))
    assert [item.section for item in items] == [(), ("H1", "H2"), ("H1",), (), ("H4",)]


def test_headings_right_before_a_table_are_in_its_section_and_in_force_after_it() -> None:
    table = Table(header=["A"], rows=[["1"]])
    blocks = [paragraph(20, "a"), heading("H1"), table, paragraph(20, "b")]
    text, rows, after = assembler().items(blocks)
    assert text_of(text)[0] == "a"
    assert "H1" not in text_of(text)
    assert rows.modality == "table"
    assert rows.section == after.section == ("H1",)
    assert [item.source.ordinal for item in (text, rows, after)] == [0, 1, 2]


def test_a_heading_with_nothing_below_it_before_a_table_stays_in_a_text() -> None:
    table = Table(header=["A"], rows=[["1"]])
    blocks = [paragraph(20, "a"), heading("H1"), heading("H2"), table]
    text, rows = assembler().items(blocks)
    assert shape([text]) == [["a", "H1", "H2"]]
    assert rows.section == ("H2",)


def test_a_border_ends_an_item_even_a_small_one() -> None:
    blocks = [paragraph(20, "a"), Border(), paragraph(20, "b"), Border()]
    assert shape(list(assembler().items(blocks))) == [["a"], ["b"]]


def test_a_long_paragraph_is_cut_between_sentences_into_even_parts() -> None:
    block = paragraph(1020, "A")
    block = Block(text=block.text.replace(".", ". ").strip(), anchor="here")
    items = list(assembler().items([block]))
    assert len(items) > 5
    assert all(25 <= len(text_of(item)) <= 125 and text_of(item)[-1] == "." for item in items)
    assert " ".join(map(text_of, items)) == block.text
    assert {locate(item, 0, 1).anchor for item in items} == {"here"}


def test_a_paragraph_of_up_to_twice_the_target_stays_whole() -> None:
    assert len(list(assembler().items([paragraph(200)]))) == 1


def test_leaves_that_the_parser_knows_are_taken_instead_of_sentences() -> None:
    block = Block(text="x = 1. Y\n\ny = 2", sentences=((0, 8), (10, 15)))
    (item,) = assembler().items([block])
    assert [(item.nodes[n].start, item.nodes[n].stop) for n in leaves(item.nodes)] == [
        (0, 8),
        (10, 15),
    ]


def test_a_heading_as_long_as_a_paragraph_is_one() -> None:
    items = list(assembler().items([Block(text="Word. " * 60 + "End.", level=1, title="word")]))
    assert len(items) > 1
    assert not any(item.payload.headings for item in items if isinstance(item.payload, TextPayload))


def test_each_block_keeps_its_places_in_the_joined_text() -> None:
    place = Place(page=3, box=(1, 2, 3, 4))
    blocks = [Block(text="One.", places=(place,)), Block(text="Two."), Block(text="3.", anchor="c")]
    (item,) = assembler().items(blocks)
    assert text_of(item) == "One.\n\nTwo.\n\n3."
    assert locate(item, 0, 4).places == (place,)
    assert locate(item, 6, 10).places == ()
    assert locate(item, 6, 10).anchor is None
    assert locate(item, 12, 14).anchor == "c"


def test_a_long_table_becomes_items_of_whole_rows_with_the_header() -> None:
    rows = [[str(number), "x"] for number in range(7)]
    spans = [SourceSpan(start=n, stop=n + 1, char=(10 * n, 10 * n + 9)) for n in range(7)]
    items = list(
        assembler().table_items(
            ["N", "X"], rows, caption="Cap", row_spans=spans, sheet="S", cells="A1:B8"
        )
    )
    assert [item.source.first_row for item in items] == [0, 3, 6]
    for item in items:
        assert isinstance(item.payload, TablePayload)
        assert item.payload.header == ("N", "X")
        assert item.payload.caption == "Cap"
        assert item.source.sheet == "S"
        assert item.source.range == "A1:B8"
        check_tree(item.nodes)
    place = locate(items[1], 1, 2)
    assert place.rows == (4,)
    assert place.char == (40, 49)


def test_a_span_over_many_rows_is_shared_out_to_their_items() -> None:
    spans = [
        SourceSpan(start=0, stop=4, places=(Place(page=1),)),
        SourceSpan(start=4, stop=6, places=(Place(page=2),)),
    ]
    first, second = assembler().table_items([], [["x"]] * 6, row_spans=spans)
    assert [(span.start, span.stop) for span in first.source.spans] == [(0, 3)]
    assert [place.page for place in locate(second, 0, 1).places] == [1]
    assert [place.page for place in locate(second, 1, 3).places] == [2]


def test_rows_are_read_only_as_items_are_taken() -> None:
    n_read = 0

    def rows() -> Iterator[list[str]]:
        nonlocal n_read
        for number in range(1000):
            n_read += 1
            yield [str(number)]

    next(assembler().table_items(["N"], rows()))
    assert n_read == 3


def test_a_table_without_rows_is_one_item_and_no_empty_item_follows_a_full_one() -> None:
    (empty,) = assembler().table_items(["A"], [])
    assert isinstance(empty.payload, TablePayload)
    assert empty.payload.rows == ()
    assert len(list(assembler().table_items(["A"], [["1"]] * 3))) == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.text("aB. \t", min_size=1, max_size=260), st.integers(1, 3)
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
@settings(deadline=None, max_examples=150)
def test_items_of_a_decoded_file_are_exact_slices_of_it(
    parts: list[tuple[int, str, int]], newline: str
) -> None:
    full_text, blocks = "", []
    for level, text, n_lines in parts:
        if text.strip():
            start = len(full_text)
            full_text += text.strip()
            blocks.append(Block(text=text.strip(), level=level, char=(start, len(full_text))))
        full_text += newline * n_lines
    items = list(assembler(full_text).items(blocks))
    covered = 0
    for item in items:
        check_tree(item.nodes)
        place = locate(item, item.nodes[0].start, item.nodes[0].stop)
        assert place.char is not None
        assert full_text[slice(*place.char)] == text_of(item)
        assert not full_text[covered : place.char[0]].strip()
        covered = place.char[1]
        for node in item.nodes:
            char = locate(item, node.start, node.stop).char
            assert char is not None
            assert full_text[slice(*char)] == text_of(item)[int(node.start) : int(node.stop)]
    assert not full_text[covered:].strip()
    assert not any(re.match(r"\s|$", text_of(item)) for item in items)
