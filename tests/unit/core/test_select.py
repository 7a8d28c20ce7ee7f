"""Selection over the whole retrieved set."""

import numpy as np
import pytest
from hypothesis import given
from tests.property.strategies import scored_trees

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.refine import refine
from canopy_rag.core.select import select
from canopy_rag.core.trees import leaves, table_tree


def scored(n_rows, values):
    return table_tree(n_rows), np.array(values, np.float32)


def test_paper_refines_each_item_on_its_own():
    items = [scored(2, [0.5, 0.6, 0.1]), scored(2, [0.5, 0.1, 0.1])]
    assert select(items) == [refine(nodes, values.tolist()) for nodes, values in items]


def test_set_drops_an_item_in_which_nothing_stands_out():
    items = [scored(2, [0.9, 1.0, 0.2]), scored(2, [0.1, 0.1, 0.1])]
    first, second = select(items, "set")
    assert first.kept == (1,)
    assert second.kept == ()
    assert second.outcomes == {0: "drop"}


def test_set_keeps_an_item_whole_when_all_its_leaves_stand_out():
    items = [scored(2, [0.9, 0.9, 0.9])] + [scored(4, [0.1] * 7) for _ in range(5)]
    assert select(items, "set")[0].kept == (0,)


def test_set_of_nothing_is_nothing():
    assert select([], "set") == []


def test_an_unknown_method_is_named():
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        select([], "papr")


@given(scored_trees(), scored_trees())
def test_set_always_keeps_something_and_an_antichain(one, two):
    items = [(nodes, np.array(values, np.float32)) for nodes, values in (one, two)]
    chosen = select(items, "set")
    assert any(each.kept for each in chosen)
    for (nodes, _), each in zip(items, chosen, strict=True):
        covered = [leaf for node in each.kept for leaf in leaves(nodes, node)]
        assert len(covered) == len(set(covered))
