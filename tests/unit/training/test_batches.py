from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from canopy_rag.training import PAPER
from canopy_rag.training.batches import Likeness, n_steps, split_evenly, step_batch, units

SMALL = replace(PAPER, batch=4, epochs=3)


def test_the_papers_instances_make_the_papers_steps():
    assert n_steps(18_575, PAPER) == 2_322


def test_an_epoch_learns_each_unit_once():
    own = list(range(10))
    steps = [step_batch(own, SMALL, step) for step in range(n_steps(10, SMALL))]
    assert [len(batch) for batch in steps] == [4, 4, 2] * 3
    for epoch in range(3):
        assert sorted(chain(*steps[3 * epoch : 3 * epoch + 3])) == own


def test_the_order_differs_by_epoch_and_seed_and_is_the_same_everywhere():
    own = list(range(10))
    assert step_batch(own, SMALL, 0) == [4, 0, 7, 3]
    assert step_batch(own, SMALL, 3) != step_batch(own, SMALL, 0)
    assert step_batch(own, replace(SMALL, seed=1), 0) != step_batch(own, SMALL, 0)


def test_a_batch_is_split_evenly_even_when_there_is_not_enough():
    assert split_evenly([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4, 5]]
    assert split_evenly([1], 3) == [[], [], [1]]


def test_the_paper_counts_single_decisions(learned):
    single = units(learned.examples, PAPER)
    assert len(single) == learned.n_instances
    assert {len(each.instances) for each in single} == {1}
    assert units(learned.examples, replace(PAPER, unit="item")) == list(learned.examples)


def likeness(n, names=None):
    """Examples of two kinds, by turns, each kind a little alike."""
    rows = np.zeros((n, 3), np.float32)
    for each in range(n):
        rows[each, each % 2] = 1
        rows[each, 2] = 0.01 * each
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Likeness(rows, rows, names or [(f"q{each}", f"i{each}") for each in range(n)])


@pytest.mark.parametrize("n", [1, 7, 16])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_with_neighbours_an_epoch_learns_each_example_once_too(n, size):
    for epoch in range(3):
        assert sorted(likeness(n).order(0, epoch, size)) == list(range(n))


def test_neighbours_stand_together():
    recipe = replace(SMALL, unit="item", neighbours=4)
    own = list(range(16))
    for step in range(4):
        batch = step_batch(own, recipe, step, likeness(16))
        assert len({each % 2 for each in batch}) == 1


def test_the_order_of_neighbours_differs_by_epoch_and_seed_and_is_the_same_again():
    like = likeness(16)
    first = like.order(0, 0, 4)
    assert like.order(0, 1, 4) != first
    assert like.order(1, 0, 4) != first
    assert like.order(0, 0, 4) == first == likeness(16).order(0, 0, 4)


@pytest.mark.parametrize("shared", [0, 1], ids=["question", "item"])
def test_examples_of_one_question_or_item_are_no_neighbours(shared):
    names = [[f"q{each}", f"i{each}"] for each in range(4)]
    for each in range(4):  # those that are most alike
        names[each][shared] = f"same {each % 2}"
    like = likeness(4, [tuple(each) for each in names])
    for epoch in range(5):
        order = like.order(0, epoch, 2)
        for one, other in zip(order[::2], order[1::2], strict=True):
            assert one % 2 != other % 2
