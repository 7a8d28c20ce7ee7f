from __future__ import annotations

import pytest

from canopy_rag.cli.drawing import ASCII, FOLD_ABOVE, draw
from canopy_rag.core.refine import refine
from canopy_rag.core.trees import table_tree, text_tree
from canopy_rag.core.types import Hit, Item, Source, TablePayload, TextPayload

TEXT = "Ada wrote it. Rain fell. Nobody read it. Babbage built nothing."
SENTENCES = [(0, 13), (14, 24), (25, 40), (41, 63)]


def _text_item(text: str = TEXT, title: str = "Notes") -> Item:
    return Item(
        id="a",
        modality="text",
        title=title,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [SENTENCES if text == TEXT else [(0, len(text))]]),
        source=Source(uri="notes/a.txt"),
    )


def _table_item(n_rows: int) -> Item:
    rows = tuple((f"name {row}", str(row)) for row in range(n_rows))
    return Item(
        id="t",
        modality="table",
        title="Names",
        payload=TablePayload(header=("name", "n"), rows=rows),
        nodes=table_tree(n_rows, 2),
        source=Source(uri="t.csv"),
    )


def _drawn(item: Item, similarities: list[float], width: int = 80) -> list[str]:
    hit = Hit(item_id=item.id, corpus="main", similarity=similarities[0], rank=1)
    outcomes = refine(item.nodes, similarities).outcomes
    lines = draw(item, hit, similarities, outcomes, width=width, guides=ASCII)
    assert all(line.cell_len <= width for line in lines)
    return [line.plain for line in lines]


def test_every_visited_node_has_a_line_and_the_others_are_counted_under_theirs() -> None:
    # root, left half, its two sentences, right half, its two sentences
    lines = _drawn(_text_item(), [0.5, 0.4, 0.9, 0.1, 0.6, 0.7, 0.2])
    assert lines == [
        "1. Notes",
        "   notes/a.txt   text, similarity 0.500, keeps 1 of 4 leaves",
        "    0.500 split 4 leaves",
        "    0.400 drop  |- 2 leaves  Ada wrote it. Rain fell.",
        "    0.600 split `- 2 leaves",
        "    0.700 keep    |- Nobody read it.",
        "    0.200 drop    `- Babbage built nothing.",
    ]


def test_the_outcomes_have_their_colours() -> None:
    item, similarities = _text_item(), [0.5, 0.4, 0.9, 0.1, 0.6, 0.7, 0.2]
    hit = Hit(item_id="a", corpus="main", similarity=0.5, rank=1)
    lines = draw(item, hit, similarities, refine(item.nodes, similarities).outcomes, width=80)
    colours = {
        line.plain[span.start : span.end].strip(): str(span.style)
        for line in lines
        for span in line.spans
    }
    assert (colours["keep"], colours["split"], colours["drop"]) == ("green", "yellow", "red")


def test_a_long_text_ends_in_an_ellipsis_at_the_width() -> None:
    lines = _drawn(_text_item("word " * 100), [0.5], width=60)
    assert lines[-1].endswith("...")
    assert len(lines[-1]) == 60


def test_wide_letters_count_as_two_columns() -> None:
    lines = _drawn(_text_item("東京" * 60), [0.5], width=61)
    assert lines[-1].endswith("...")


def test_line_breaks_and_escape_codes_of_a_text_do_not_reach_the_terminal() -> None:
    lines = _drawn(_text_item("one\x1b[31m\ntwo\x07", title="a\x1b]0;b"), [0.5])
    assert lines[-1].endswith("one[31m two")
    assert lines[0] == "1. a]0;b"


def test_a_large_tree_sums_up_dropped_nodes_in_the_line_above_them() -> None:
    item = _table_item(64)
    similarities = [1.0] * len(item.nodes)
    similarities[2] = 0.5
    assert len(refine(item.nodes, similarities).outcomes) > FOLD_ABOVE
    lines = _drawn(item, similarities)
    assert not [line for line in lines if " drop " in line]
    assert [line for line in lines if line.endswith("drops 16 leaves, at most 0.500")]


@pytest.mark.parametrize(
    ("uri", "n_head"), [("t.csv", 2), ("a/very/long/folder/name/" * 3 + "t.csv", 3)]
)
def test_a_long_path_gets_a_line_of_its_own(uri: str, n_head: int) -> None:
    item = _table_item(1)
    item = Item(
        id="t",
        modality="table",
        title="Names",
        payload=item.payload,
        nodes=item.nodes,
        source=Source(uri=uri),
    )
    lines = _drawn(item, [0.5], width=100)
    assert lines[n_head].startswith("    0.500 keep  row 1")
