"""Decision accuracy of an encoder on the gold items of questions, no chat model asked (P11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from canopy_rag.core.lexical import node_similarities
from canopy_rag.core.preferences import decides_correctly, decision_instances, gold_leaves
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.questions import Question
from canopy_rag.evaluation.journal import Journal
from canopy_rag.evaluation.pool import Pool

BATCH = 200
Advance = Callable[[int], None]
"""Hears how many questions were looked at."""


def decide(
    journal: Journal,
    benchmark: str,
    questions: Sequence[Question],
    pools: dict[str, Pool],
    *,
    advance: Advance | None = None,
) -> None:
    """Write the decision instances of each question, and how many are right, to `journal`.

    What stands there already is not done again.

    Args:
        journal: Of `decisions.jsonl`.
        benchmark: Its name.
        questions: With gold.
        pools: By encoder, `f_theta` and perhaps `f0`; each holds the gold items.
        advance: Hears how many questions were looked at.
    """
    done = {
        (record["encoder"], record["question"])
        for record in journal.open()
        if record["benchmark"] == benchmark
    }
    for encoder, pool in pools.items():
        waiting = iter(question for question in questions if (encoder, question.id) not in done)
        while group := list(islice(waiting, BATCH)):
            for record in _decided(group, pool):
                journal.append({"benchmark": benchmark, "encoder": encoder, **record})
            if advance is not None:
                advance(len(group))
        journal.sync()


def _decided(questions: Sequence[Question], pool: Pool) -> Iterator[dict[str, Any]]:
    encoder: Encoder = pool.encoder
    queries = encoder.encode_queries([question.text for question in questions])
    wanted = {span.item_id for question in questions for span in question.gold}
    there = pool.store.vectors(wanted)
    for place, question in enumerate(questions):
        spans: dict[str, list[tuple[float, float]]] = {}
        for span in question.gold:
            if span.item_id in there:
                spans.setdefault(span.item_id, []).append((span.start, span.stop))
        right = total = 0
        by: dict[str, list[int]] = {}
        for item_id, own in spans.items():
            item, nodes = there[item_id]
            if item.modality == "image":
                continue
            (values,) = node_similarities([(item.nodes, nodes)], queries.of(place))
            counts = by.setdefault(item.modality, [0, 0])
            for instance in decision_instances(item.nodes, gold_leaves(item.nodes, own)):
                correct = decides_correctly(instance, values.tolist())
                counts[0] += correct
                counts[1] += 1
                right += correct
                total += 1
        yield {"question": question.id, "right": right, "total": total, "by_modality": by}
