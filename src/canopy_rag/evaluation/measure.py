"""From an answer to one line of `predictions.jsonl`: what was said, shown and spent, and how good.

Everything that needs trees and gold is measured here, where the answer still holds its items
(P11-P13, P17); what is read from the file later are numbers, and words for case studies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from canopy_rag.core.answer import Answer, Round
from canopy_rag.core.evidence import Evidence, Shown
from canopy_rag.core.preferences import gold_leaves
from canopy_rag.core.questions import Question
from canopy_rag.core.refine import Outcome
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item, Node
from canopy_rag.datasets.base import Metric
from canopy_rag.evaluation.diagnostics import covers
from canopy_rag.evaluation.metrics import score

FIRST = 10
"""Hits of round 1 that hop coverage looks at (P2)."""
SHOWN_CHARS = 400
"""Most characters of an item's shown text that a prediction keeps, for case studies."""
_DIGITS = 4

Gold = Mapping[str, frozenset[int]]


def prediction(
    answer: Answer, question: Question, *, benchmark: str, method: str, metric: Metric
) -> dict[str, Any]:
    """Return what is written of one answer; `docs/evaluate.md` tells the fields.

    Args:
        answer: The method's.
        question: With answers and gold.
        benchmark: Its name.
        method: Full name of the method.
        metric: The benchmark's.

    Raises:
        ValueError: If the question lacks what the metric needs.
    """
    evidence = answer.evidence
    gold = located(question, evidence)
    later = [hit for each in answer.rounds[1:] for hit in each.hits]
    return {
        "benchmark": benchmark,
        "method": method,
        "question": question.id,
        "kind": question.kind,
        "text": answer.text,
        "answers": list(question.answers),
        "scores": dict(score(metric, answer.text, question)),
        "evidence": {
            "tokens": evidence.tokens,
            "tokens_full": evidence.tokens_full,
            "tokens_are": "exact" if evidence.meter.exact else "estimated",
            "items": len(evidence.entries),
            "left_out": len(evidence.left_out),
        },
        "usage": _usage(answer),
        "rounds": [_round(each) for each in answer.rounds],
        "stop": answer.stop,
        "fallbacks": dict(Counter(note.stage for each in answer.rounds for note in each.fallbacks)),
        "follow_up_hits": {"n": len(later), "held": sum(hit.held for hit in later)},
        "hop_coverage": _coverage(question, answer.rounds),
        "gold_leaf_recall": gold_leaf_recall(evidence, gold),
        "outcomes": _outcomes(evidence),
        "kept_whole": _kept_whole(evidence, question),
        "root_relative": _root_relative(evidence, gold),
        "shown": [_shown(entry) for entry in evidence.entries],
    }


def located(question: Question, evidence: Evidence) -> Gold:
    """Return the gold leaves of the items that have some, shown or left out by selection."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for span in question.gold:
        spans.setdefault(span.item_id, []).append((span.start, span.stop))
    items = [*(entry.item for entry in evidence.entries), *_unselected(evidence)]
    found = {item.id: gold_leaves(item.nodes, spans[item.id]) for item in items if item.id in spans}
    return {item_id: ends for item_id, ends in found.items() if ends}


def gold_leaf_recall(evidence: Evidence, gold: Gold) -> float | None:
    """Return the share of gold leaves that remain, over shown items that may be split (P12).

    By the paper's rule something is shown of every item. Where a selection shows nothing of one,
    its gold is lost like any other that selection drops; what had to give way to the budget does
    not count. Neither do images, items of one leaf, and tables that were passed whole because the
    question aggregates. A leaf of which only the beginning is shown does not remain.

    Args:
        evidence: What the reader got.
        gold: As `located` gives it.

    Returns:
        None if there is no such gold.
    """
    kept = 0
    wanted = sum(len(gold.get(item.id, ())) for item in _unselected(evidence) if _has_parts(item))
    for entry in evidence.entries:
        own = gold.get(entry.item.id)
        if own and may_be_split(entry):
            wanted += len(own)
            kept += len(own & shown_leaves(entry))
    return kept / wanted if wanted else None


def may_be_split(entry: Shown) -> bool:
    """Whether refinement may decide about a shown item (P4, P6)."""
    return _has_parts(entry.item) and entry.why != "aggregate"


def _has_parts(item: Item) -> bool:
    return item.modality != "image" and bool(item.nodes[0].children)


def _unselected(evidence: Evidence) -> list[Item]:
    """Return the items of which selection shows nothing."""
    return [each.item for each in evidence.left_out if each.item is not None]


def shown_leaves(entry: Shown) -> frozenset[int]:
    """Return the leaves that are shown whole."""
    if entry.cut is not None:
        return frozenset()
    return frozenset(leaf for node in entry.kept for leaf in leaves(entry.item.nodes, node))


def visited(nodes: Sequence[Node], kept: Sequence[int]) -> list[Outcome]:
    """Return the outcome of each node that refinement came to, read off the shown leaves (P13).

    The walk is that which led to the kept nodes: the root is visited, and the children of every
    visited node that is not kept and of which something remains. A node of which all leaves remain
    counts as kept, also if its children were kept one by one.

    Args:
        nodes: A tree.
        kept: Kept nodes, none an ancestor of another.

    >>> from canopy_rag.core.types import Node
    >>> tree = [Node(index=0, parent=None, children=(1, 2), start=0, stop=2),
    ...         Node(index=1, parent=0, children=(), start=0, stop=1),
    ...         Node(index=2, parent=0, children=(), start=1, stop=2)]
    >>> visited(tree, [2])
    ['split', 'drop', 'keep']
    """
    ends = {leaf for node in kept for leaf in leaves(nodes, node)}
    found: list[Outcome] = []
    waiting = [0]
    while waiting:
        index = waiting.pop()
        own = leaves(nodes, index)
        n_shown = sum(leaf in ends for leaf in own)
        found.append("keep" if n_shown == len(own) else "split" if n_shown else "drop")
        if n_shown and index not in kept:
            waiting.extend(reversed(nodes[index].children))
    return found


def _refined(evidence: Evidence) -> list[Shown]:
    return [entry for entry in evidence.entries if entry.why == "refined" and may_be_split(entry)]


def _outcomes(evidence: Evidence) -> dict[str, list[int]]:
    """Return visited nodes kept, split and dropped, by modality."""
    counts: dict[str, list[int]] = {}
    for entry in _refined(evidence):
        own = counts.setdefault(entry.item.modality, [0, 0, 0])
        for outcome in visited(entry.item.nodes, entry.kept):
            own[("keep", "split", "drop").index(outcome)] += 1
    return counts


def _kept_whole(evidence: Evidence, question: Question) -> dict[str, list[int]]:
    """Return how many refined items were kept whole, of how many, by whether they hold gold."""
    gold = {span.item_id for span in question.gold}
    counts = {"gold": [0, 0], "non_gold": [0, 0]}
    for entry in _refined(evidence):
        own = counts["gold" if entry.item.id in gold else "non_gold"]
        own[0] += entry.kept == (0,)
        own[1] += 1
    return counts


def _root_relative(evidence: Evidence, gold: Gold) -> dict[str, dict[str, list[float]]]:
    """Return similarities of gold items' leaves less their root's, gold ones and the others."""
    found: dict[str, dict[str, list[float]]] = {}
    for entry in _refined(evidence):
        own = gold.get(entry.item.id)
        if own and entry.node_similarities:
            parts = found.setdefault(entry.item.modality, {"gold": [], "other": []})
            root = entry.node_similarities[0]
            for leaf in leaves(entry.item.nodes):
                value = round(entry.node_similarities[leaf] - root, _DIGITS)
                parts["gold" if leaf in own else "other"].append(value)
    return found


def _coverage(question: Question, rounds: Sequence[Round]) -> bool | None:
    """Return whether the first hits of round 1 hold every hop; None without gold or a search."""
    if not question.gold or not rounds:
        return None
    first = [hit.item_id for hit in rounds[0].hits[:FIRST]]
    return covers(question.gold, set(first))


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "llm_calls": usage.llm_calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
        "seconds": {stage: round(value, _DIGITS) for stage, value in usage.seconds.items()},
    }


def _round(each: Round) -> dict[str, Any]:
    return {
        "query": each.query,
        "routed": list(each.routed),
        "hits": len(each.hits),
        "new": each.n_new,
        "sufficient": None if each.verdict is None else each.verdict.sufficient,
        "follow_up": None if each.verdict is None else each.verdict.follow_up,
    }


def _shown(entry: Shown) -> dict[str, Any]:
    item = entry.item
    regions = (item.nodes[node] for node in entry.kept)
    text = " … ".join(
        body for region in regions if (body := node_body(item, region.start, region.stop).strip())
    )
    return {
        "id": item.id,
        "title": item.title,
        "modality": item.modality,
        "round": entry.round,
        "why": entry.why,
        "leaves": len(leaves(item.nodes)),
        "leaves_kept": sum(len(leaves(item.nodes, node)) for node in entry.kept),
        "text": text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS].rstrip()}…",
    }
