"""Selection over the whole retrieved set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import scored_trees

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.refine import refine
from canopy_rag.core.select import otsu, select
from canopy_rag.core.trees import leaves, table_tree


def scored(n_rows, values):
    return table_tree(n_rows), np.array(values, np.float32)


def test_paper_refines_each_item_on_its_own():
    items = [scored(2, [0.5, 0.6, 0.1]), scored(2, [0.5, 0.1, 0.1])]
    assert select(items, "paper") == [refine(nodes, values.tolist()) for nodes, values in items]


def test_set_drops_an_item_in_which_nothing_stands_out():
    items = [scored(2, [0.9, 1.0, 0.2]), scored(2, [0.1, 0.1, 0.1])]
    first, second = select(items, "set")
    assert first.kept == (1,)
    assert second.kept == ()
    assert second.outcomes == {0: "drop"}


def test_set_keeps_an_item_whole_when_all_its_leaves_stand_out():
    items = [scored(2, [0.9, 0.9, 0.8])] + [scored(4, [0.1] * 7) for _ in range(5)]
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


def slow_otsu(values):
    """The definition, over every cut."""
    best = (-1.0, values[0])
    ordered = sorted(values)
    for cut in range(1, len(ordered)):
        low, high = ordered[:cut], ordered[cut:]
        spread = len(low) * len(high) * (np.mean(high) - np.mean(low)) ** 2
        if spread > best[0] + 1e-12:
            best = (spread, ordered[cut])
    return best[1]


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True))
def test_otsu_equals_its_definition(values):
    array = np.array(values, np.float64)
    n_low = {cut: sum(value < cut for value in values) for cut in (otsu(array), slow_otsu(array))}
    spreads = set()
    for n in n_low.values():
        low, high = np.sort(array)[:n], np.sort(array)[n:]
        spreads.add(round(len(low) * len(high) * (high.mean() - low.mean()) ** 2, 6))
    assert len(spreads) == 1


def test_otsu_of_equal_values_is_that_value():
    assert otsu(np.array([0.25, 0.25])) == 0.25
