"""The decision instances of a benchmark's questions, and what tells whether they are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from canopy_rag.core.preferences import decision_instances, gold_leaves
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Loaded


def gold_items(loaded: Loaded, questions: Iterable[Question] | None = None) -> dict[str, Item]:
    """Return the items that hold gold, by id; the others are streamed past.

    Args:
        loaded: A benchmark.
        questions: Whose gold; None: of all questions.
    """
    asked = loaded.questions if questions is None else questions
    wanted = {span.item_id for question in asked for span in question.gold}
    found: dict[str, Item] = {}
    for item in loaded.items():
        if item.id in wanted:
            found[item.id] = item
            if len(found) == len(wanted):
                break
    return found


def question_gold(question: Question, items: Mapping[str, Item]) -> dict[str, frozenset[int]]:
    """Return the gold leaves of each of a question's gold items, items in order of their spans."""
    return {
        item_id: gold_leaves(
            items[item_id].nodes,
            [(span.start, span.stop) for span in question.gold if span.item_id == item_id],
        )
        for item_id in dict.fromkeys(span.item_id for span in question.gold)
    }


def instances_digest(question: Question, items: Mapping[str, Item]) -> tuple[int, str]:
    """Return how many decision instances a question has, and a short hash over them.

    The hash covers the gold items, their whole trees, their gold leaves and the instances, so that
    equal hashes mean the same decisions to be made.
    """
    n_instances = 0
    lines: list[str] = []
    gold = question_gold(question, items)
    for item_id in sorted(gold):
        nodes, leaves = items[item_id].nodes, gold[item_id]
        instances = decision_instances(nodes, leaves)
        n_instances += len(instances)
        tree = ",".join(f"{node.parent}:{float(node.start)}:{float(node.stop)}" for node in nodes)
        decided = ",".join(str(each.node) for each in instances)
        lines.append(f"{item_id}\t{tree}\t{sorted(leaves)}\t{decided}")
    return n_instances, hashlib.sha256("\n".join(lines).encode()).hexdigest()[:10]
