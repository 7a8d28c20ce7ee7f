"""The refinement rule on cases that can be checked by hand."""

import numpy as np
import pytest

from canopy_rag.core.refine import refine
from canopy_rag.core.types import Node


def tree_of(children: list[list[int]]) -> list[Node]:
    parents = {child: parent for parent, kids in enumerate(children) for child in kids}
    return [
        Node(index=i, parent=parents.get(i), children=tuple(kids), start=0, stop=1)
        for i, kids in enumerate(children)
    ]


WORKED = tree_of([[1, 4], [2, 3], [], [], [5, 6], [], []])  # root A a1 a2 B b1 b2


def test_the_papers_worked_example_keeps_a_whole_and_replaces_b_by_b1():
    result = refine(WORKED, [0.50, 0.80, 0.79, 0.10, 0.70, 0.90, 0.20])
    assert result.kept == (1, 5)
    assert result.outcomes == {0: "split", 1: "keep", 4: "split", 5: "keep", 6: "drop"}


def test_a_single_node_is_kept():
    assert refine(tree_of([[]]), [0.1]).kept == (0,)


def test_a_tie_with_the_parent_qualifies():
    assert refine(tree_of([[1, 2], [], []]), [0.5, 0.5, 0.4]).kept == (1,)


def test_the_root_is_kept_whole_when_no_child_reaches_it():
    result = refine(WORKED, [0.9, 0.8, 1.0, 1.0, 0.7, 1.0, 1.0])
    assert result.kept == (0,)
    assert result.outcomes == {0: "keep"}


def test_numpy_similarities_are_accepted():
    assert refine(WORKED, np.array([0.5, 0.8, 0.79, 0.1, 0.7, 0.9, 0.2], np.float32)).kept == (1, 5)


@pytest.mark.parametrize("similarities", [[], [0.1, 0.2]])
def test_a_wrong_number_of_similarities_is_refused(similarities):
    with pytest.raises(ValueError, match="one similarity per node"):
        refine(WORKED, similarities)


def test_a_nan_is_refused_rather_than_compared():
    with pytest.raises(ValueError, match="NaN"):
        refine(tree_of([[1, 2], [], []]), [0.5, float("nan"), 0.4])
