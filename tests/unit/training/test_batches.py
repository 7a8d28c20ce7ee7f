from dataclasses import replace
from itertools import chain

from canopy_rag.training import PAPER
from canopy_rag.training.batches import n_steps, split_evenly, step_batch, units

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
