from __future__ import annotations

from dataclasses import replace

from canopy_rag.core.preferences import decision_instances
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item
from canopy_rag.datasets._items import passage_item
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.instances import (
    gold_items,
    instances_digest,
    question_gold,
)

TEXT = "One a. Two b. Three."
SENTENCES = [(0, 6), (7, 13), (14, 20)]
ONE = passage_item("c", "c/1", "One", TEXT, SENTENCES)
TWO = passage_item("c", "c/2", "Two", TEXT, SENTENCES[:2])


def asked(*spans: tuple[Item, int, int]) -> Question:
    gold = tuple(GoldSpan(item_id=item.id, start=start, stop=stop) for item, start, stop in spans)
    return Question(id="q", text="?", answers=("!",), kind="", gold=gold)


def by_id(*items: Item) -> dict[str, Item]:
    return {item.id: item for item in items}


def test_gold_leaves_and_instances_are_told_for_each_gold_item() -> None:
    # The tree of ONE: root 0, inner node 1 over the leaves 2 and 3, leaf 4.
    question = asked((ONE, 8, 9), (TWO, 0, 13))
    items = by_id(ONE, TWO)
    assert question_gold(question, items) == {ONE.id: {3}, TWO.id: {1, 2}}
    found = {
        item_id: decision_instances(items[item_id].nodes, gold)
        for item_id, gold in question_gold(question, items).items()
    }
    assert {item_id: [each.node for each in found[item_id]] for item_id in found} == {
        ONE.id: [0, 1],
        TWO.id: [0],
    }
    assert instances_digest(question, items)[0] == 3


def test_the_digest_changes_with_gold_trees_and_items_only() -> None:
    items = by_id(ONE, TWO)
    digest = instances_digest(asked((ONE, 8, 9), (TWO, 0, 3)), items)
    assert digest == instances_digest(asked((TWO, 1, 2), (ONE, 7, 13)), items)
    assert digest != instances_digest(asked((ONE, 0, 1), (TWO, 0, 3)), items)
    moved = passage_item("c", "c/1", "One", TEXT, [(0, 6), (7, 12), (14, 20)])
    assert digest != instances_digest(asked((ONE, 8, 9), (TWO, 0, 3)), by_id(moved, TWO))
    other = replace(ONE, id="other")
    assert digest != instances_digest(asked((other, 8, 9), (TWO, 0, 3)), by_id(other, TWO))


def test_only_gold_items_are_held_and_the_stream_ends_with_the_last() -> None:
    passed: list[str] = []

    def items():
        for item in (TWO, ONE, TWO):
            passed.append(item.title)
            yield item

    loaded = Loaded(name="c", questions=(asked((ONE, 0, 3)),), items=items)
    assert gold_items(loaded) == {ONE.id: ONE}
    assert passed == ["Two", "One"]
    assert gold_items(loaded, []) == {}
