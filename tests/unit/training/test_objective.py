"""What is compared with what across the items of a batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from canopy_rag.core.preferences import decision_instances
from canopy_rag.testing.encoder_contract import text_item
from canopy_rag.training.data import Example
from canopy_rag.training.objective import contrasts, first_nodes


def item(name, n_leaves):
    made = text_item(name, [f"Sentence {number} of {name}." for number in range(n_leaves)])
    return replace(made, id=name)


def leaves(one):
    return [node.index for node in one.nodes if not node.children]


def example(one, gold, question="q", others=()):
    return Example(
        benchmark="made",
        question_id=question,
        query=question,
        item=one,
        instances=tuple(decision_instances(one.nodes, gold)) if len(one.nodes) > 1 else (),
        gold=frozenset(gold),
        gold_items=frozenset({one.id, *others}),
    )


def test_gold_leaves_stand_against_all_other_leaves_and_items_against_items():
    one, two, single = item("one", 3), item("two", 5), item("single", 1)
    gold = leaves(one)[1]
    batch = [example(one, [gold]), example(single, [0], "r"), example(two, leaves(two), "s")]
    items = [one, single, two]
    starts = first_nodes(items)
    of_leaves, of_roots = contrasts(batch, items)
    everything = {starts[each.id] + leaf for each in items for leaf in leaves(each)}
    first = starts["one"] + gold
    assert set(np.flatnonzero(of_leaves.gold[0])) == {first}
    assert set(np.flatnonzero(of_leaves.other[0])) == everything - {first}
    assert set(np.flatnonzero(of_leaves.other[1])) == everything - {starts["single"]}
    own = {starts["two"] + leaf for leaf in leaves(two)}
    assert set(np.flatnonzero(of_leaves.gold[2])) == own
    assert set(np.flatnonzero(of_leaves.other[2])) == everything - own
    roots = set(starts.values())
    for row, each in enumerate(batch):
        assert set(np.flatnonzero(of_roots.gold[row])) == {starts[each.item.id]}
        assert set(np.flatnonzero(of_roots.other[row])) == roots - {starts[each.item.id]}


def test_another_gold_item_of_the_question_is_never_wrong_for_it():
    one, two, three = item("one", 3), item("two", 3), item("three", 3)
    batch = [
        example(one, [leaves(one)[0]], others=["two", "not here"]),
        example(two, [leaves(two)[0]], others=["one", "not here"]),
        example(three, [leaves(three)[0]], "r"),
    ]
    items = [one, two, three]
    starts = first_nodes(items)
    of_leaves, of_roots = contrasts(batch, items)
    second = slice(starts["two"], starts["three"])
    assert not of_leaves.other[0, second].any()
    assert not of_roots.other[0, second].any()
    assert of_leaves.other[0, starts["three"] :].any()
    assert of_leaves.other[2, second].sum() == 3
    assert of_roots.other[2, starts["two"]]


def test_a_batch_of_one_question_has_leaves_to_compare_but_no_roots():
    one = item("one", 3)
    of_leaves, of_roots = contrasts([example(one, [leaves(one)[0]])], [one])
    assert (of_leaves.n_counted, of_roots.n_counted) == (1, 0)


def test_the_whole_loss_equals_a_loop_over_questions():
    """Decisions, leaves and roots of a batch, as one would write them down."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    from canopy_rag.training.objective import _across
    from canopy_rag.training.recipe import Recipe
    from canopy_rag.training.trainable import Compared

    recipe = Recipe(unit="item", across=0.5)
    items = [item("one", 4), item("two", 6), item("single", 1)]
    batch = [
        example(items[0], leaves(items[0])[1:3], "q", ["two"]),
        example(items[1], leaves(items[1])[:1], "q", ["one"]),
        example(items[2], [0], "r"),
    ]
    draw = np.random.default_rng(3)
    n_nodes = sum(len(each.nodes) for each in items)
    cosines = draw.uniform(-1, 1, (3, n_nodes)).astype(np.float32)
    values = cosines + draw.uniform(0, 0.3, cosines.shape).astype(np.float32)
    compared = Compared(
        items=tuple(items), cosines=torch.tensor(cosines), similarities=torch.tensor(values)
    )
    loss, parts = _across(compared, batch, recipe).total(3, recipe.across)

    starts = first_nodes(items)
    decided, by_leaves, by_roots = [], [], []
    for row, each in enumerate(batch):
        own = starts[each.item.id]
        for instance in each.instances:
            costs = [
                math.log1p(
                    math.exp(-20 * (values[row, own + p.preferred] - values[row, own + p.other]))
                )
                for p in instance.preferences
            ]
            decided.append(sum(costs) / len(costs))
        foreign = [one for one in items if one.id not in each.gold_items]
        below = [values[row, own + leaf] for leaf in leaves(each.item) if leaf not in each.gold]
        below += [values[row, starts[one.id] + leaf] for one in foreign for leaf in leaves(one)]
        total = sum(math.exp(20 * float(value)) for value in below)
        costs = [math.log1p(total / math.exp(20 * float(values[row, own + g]))) for g in each.gold]
        by_leaves.append(sum(costs) / len(costs))
        total = sum(math.exp(20 * float(cosines[row, starts[one.id]])) for one in foreign)
        by_roots.append(math.log1p(total / math.exp(20 * float(cosines[row, own]))))
    expected = {
        "decisions": sum(decided) / 3,
        "leaves": sum(by_leaves) / 3,
        "roots": sum(by_roots) / 3,
    }
    assert parts == pytest.approx(expected, rel=1e-4)
    whole = expected["decisions"] + 0.5 * (expected["leaves"] + expected["roots"])
    assert float(loss) == pytest.approx(whole, rel=1e-4)
