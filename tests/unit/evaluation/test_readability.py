"""Fragments that point to what is not shown."""

from __future__ import annotations

import pytest

from canopy_rag.core.trees import leaves, table_tree
from canopy_rag.core.types import Item, Node, Source, TablePayload, TextPayload
from canopy_rag.evaluation.readability import dangling, points_back

SENTENCES = ("Ada was born in 1815.", "She wrote programs.", "But nobody ran them.", "Time passed.")


def text_item(sentences=SENTENCES):
    text, nodes, position = " ".join(sentences), [], 0
    for index, sentence in enumerate(sentences, start=1):
        stop = position + len(sentence)
        nodes.append(Node(index=index, parent=0, children=(), start=position, stop=stop))
        position = stop + 1
    children = tuple(node.index for node in nodes)
    root = Node(index=0, parent=None, children=children, start=0, stop=len(text))
    return Item(
        id="a",
        modality="text",
        title="Ada",
        payload=TextPayload(text=text),
        nodes=(root, *nodes),
        source=Source(uri="a"),
    )


@pytest.mark.parametrize(
    ("kept", "counts"),
    [
        ({1}, (1, 0)),
        ({2}, (1, 1)),
        ({1, 2}, (1, 0)),
        ({2, 3}, (1, 1)),
        ({1, 3}, (2, 1)),
        ({4}, (1, 0)),
        (set(), (0, 0)),
    ],
)
def test_a_fragment_dangles_if_it_points_to_a_sentence_that_is_not_shown(kept, counts):
    assert dangling([text_item()], [frozenset(kept)]) == counts


def test_the_first_sentence_of_an_item_has_nothing_before_it():
    assert dangling([text_item(("It rained.", "All day."))], [frozenset({1})]) == (1, 0)


def test_rows_of_tables_do_not_count():
    nodes = table_tree(2)
    table = Item(
        id="t",
        modality="table",
        title="",
        payload=TablePayload(header=("a",), rows=(("x",), ("it",))),
        nodes=nodes,
        source=Source(uri="t"),
    )
    assert dangling([table], [frozenset(leaves(nodes)[1:])]) == (0, 0)


def test_words_are_told_apart_from_beginnings_of_words():
    assert points_back('"He left," she said.')
    assert not points_back("Iterations differ.")
    assert not points_back("1815.")
