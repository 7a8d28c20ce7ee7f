"""The selections of the diagnosis, on similarities that can be read off."""

import numpy as np
import pytest
from hypothesis import given
from tests.property.strategies import scored_trees

from canopy_rag.core.refine import refine
from canopy_rag.core.trees import leaves, table_tree
from canopy_rag.evaluation.selections import above, best_leaves, flat, methods, whole


def scored(n_rows, *leaf_values):
    nodes = table_tree(n_rows)
    values = np.zeros(len(nodes), np.float32)
    for leaf, value in zip(leaves(nodes), leaf_values, strict=True):
        values[leaf] = value
    return nodes, values


FIRST = scored(3, 0.1, 0.5, 0.3)
SECOND = scored(2, 0.9, 0.2)


def values_of(kept):
    return [
        sorted(round(float(values[leaf]), 2) for leaf in own)
        for (_, values), own in zip((FIRST, SECOND), kept, strict=True)
    ]


def test_flat_keeps_the_best_leaves_of_each_item():
    assert values_of(flat(1)([FIRST, SECOND])) == [[0.5], [0.9]]
    assert values_of(flat(2)([FIRST, SECOND])) == [[0.3, 0.5], [0.2, 0.9]]
    assert values_of(flat(20)([FIRST, SECOND])) == [[0.1, 0.3, 0.5], [0.2, 0.9]]


def test_global_keeps_the_best_leaves_of_all():
    assert values_of(best_leaves(1)([FIRST, SECOND])) == [[], [0.9]]
    assert values_of(best_leaves(3)([FIRST, SECOND])) == [[0.3, 0.5], [0.9]]


def test_thresholds_are_those_of_all_leaves_together():
    assert values_of(above(np.mean)([FIRST, SECOND])) == [[0.5], [0.9]]
    assert values_of(above(lambda values: 2.0)([FIRST, SECOND])) == [[], [0.9]]
    assert above(np.mean)([]) == []


def test_whole_keeps_the_first_items():
    assert values_of(whole(1)([FIRST, SECOND])) == [[0.1, 0.3, 0.5], []]


def test_ties_go_to_the_earlier_leaf():
    nodes, values = scored(2, 0.5, 0.5)
    (kept,) = flat(1)([(nodes, values)])
    assert kept == {leaves(nodes)[0]}


@given(scored_trees())
def test_refine_is_the_rule_itself(tree):
    nodes, values = tree
    (method,) = (each for each in methods() if each.name == "refine")
    (kept,) = method.select([(nodes, np.array(values, np.float32))])
    own = refine(nodes, np.array(values, np.float32).tolist()).kept
    assert kept == {leaf for node in own for leaf in leaves(nodes, node)}


@pytest.mark.parametrize("method", methods(), ids=lambda each: each.name)
def test_every_method_returns_leaves_of_every_item(method):
    for kept, (nodes, _) in zip(method.select([FIRST, SECOND]), (FIRST, SECOND), strict=True):
        assert kept <= set(leaves(nodes))
