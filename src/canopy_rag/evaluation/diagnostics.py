"""What refinement decides on gold and other items, measured without a chat model (P11-P13).

Every function returns one record per question, decision or node, so that callers can average and
resample as they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from canopy_rag.core.evidence import Evidence, Meter, Shown
from canopy_rag.core.preferences import decides_correctly, decision_instances
from canopy_rag.core.questions import GoldSpan
from canopy_rag.core.refine import Outcome, Refinement, refine
from canopy_rag.core.select import Scored
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item, Modality, Node
from canopy_rag.evaluation.judged import Judged
from canopy_rag.evaluation.selections import Kept, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision instance and whether all its preferences hold (P11)."""

    question_id: str
    benchmark: str
    modality: Modality
    depth: int
    """Of the node; the root has 0."""
    correct: bool


def decisions(judged: Sequence[Judged]) -> list[Decision]:
    """Return every decision instance of the gold items; images have none (P11)."""
    found: list[Decision] = []
    for each in judged:
        for item, (nodes, values) in zip(each.gold_items, each.gold_scored, strict=True):
            depth = _depths(nodes)
            found.extend(
                Decision(
                    question_id=each.question.id,
                    benchmark=each.benchmark,
                    modality=item.modality,
                    depth=depth[instance.node],
                    correct=decides_correctly(instance, values.tolist()),
                )
                for instance in decision_instances(nodes, each.gold[item.id])
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Kepts:
    """What one selection keeps for one question."""

    recall: float
    """Share of the question's gold leaves that are kept; those of items not found count as lost."""
    recall_shown: float | None
    """The same over gold items that were found and may be split (P12); None without any."""
    words: int
    tokens: int
    """Of the evidence as written out, titles and header rows included."""
    words_full: int
    tokens_full: int
    """Of the same candidates shown whole."""


class Size(NamedTuple):
    """How much evidence there is."""

    words: int
    tokens: int


def whole_size(judged: Judged, *, retrieved: bool, count: Callable[[str], int]) -> Size:
    """Return the size of a question's candidates shown whole, as written out."""
    items = judged.found_items if retrieved else judged.gold_items
    return _size(written(items, [frozenset(leaves(item.nodes)) for item in items]), count)


def keep(
    judged: Judged,
    select: Selection,
    full: Size,
    *,
    retrieved: bool,
    count: Callable[[str], int],
) -> Kepts:
    """Measure a selection on one question.

    Args:
        judged: The question.
        select: The selection.
        full: Size of the candidates shown whole.
        retrieved: Over the retrieved items; otherwise over the gold items alone.
        count: Counts the tokens of a text.
    """
    items = judged.found_items if retrieved else judged.gold_items
    scored = judged.found_scored if retrieved else judged.gold_scored
    kept = select(scored)
    n_kept = 0
    shares: list[float] = []
    for item, ends in zip(items, kept, strict=True):
        gold = judged.gold.get(item.id, frozenset())
        n_kept += len(gold & ends)
        if gold and item.nodes[0].children:
            shares.append(len(gold & ends) / len(gold))
    size = _size(written(items, kept), count)
    return Kepts(
        recall=n_kept / judged.n_gold,
        recall_shown=sum(shares) / len(shares) if shares else None,
        words=size.words,
        tokens=size.tokens,
        words_full=full.words,
        tokens_full=full.tokens,
    )


def _size(text: str, count: Callable[[str], int]) -> Size:
    return Size(len(text.split()), count(text))


def written(items: Sequence[Item], kept: Kept) -> str:
    """Return the evidence of kept leaves as a reader gets it."""
    shown = [
        Shown(
            item=item,
            kept=tuple(sorted(ends)),
            why="refined",
            query="",
            round=1,
            rank=rank,
            similarity=0.0,
        )
        for rank, (item, ends) in enumerate(zip(items, kept, strict=True), start=1)
        if ends
    ]
    return Evidence(entries=tuple(shown), meter=Meter()).text


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What refinement did with one retrieved item (P13)."""

    question_id: str
    benchmark: str
    modality: Modality
    gold: bool
    """Whether the item holds gold of the question."""
    kept_whole: bool
    """Whether refinement stopped at the root."""
    counts: tuple[int, int, int]
    """Visited nodes kept, split, dropped, read off the shown leaves: all, some, none remain."""


def outcomes(judged: Sequence[Judged]) -> list[Outcomes]:
    """Return what refinement decides about each retrieved item that it may split."""
    return [
        _outcomes(each, item, scored)
        for each in judged
        for item, scored in zip(each.found_items, each.found_scored, strict=True)
        if item.modality != "image" and item.nodes[0].children
    ]


def _outcomes(judged: Judged, item: Item, scored: Scored) -> Outcomes:
    refinement = refine(scored[0], scored[1].tolist())
    counts = Counter(visited(item.nodes, refinement))
    return Outcomes(
        question_id=judged.question.id,
        benchmark=judged.benchmark,
        modality=item.modality,
        gold=item.id in judged.gold,
        kept_whole=refinement.kept == (0,),
        counts=(counts["keep"], counts["split"], counts["drop"]),
    )


def visited(nodes: Sequence[Node], refinement: Refinement) -> list[Outcome]:
    """Return the outcome of each visited node as its shown leaves tell it.

    A node that was split but of which all leaves remain counts as kept (P13).
    """
    shown = {leaf for node in refinement.kept for leaf in leaves(nodes, node)}
    found: list[Outcome] = []
    for index in refinement.outcomes:
        own = leaves(nodes, index)
        n_shown = sum(leaf in shown for leaf in own)
        found.append("keep" if n_shown == len(own) else "split" if n_shown else "drop")
    return found


def root_relative(judged: Sequence[Judged]) -> dict[bool, list[float]]:
    """Return similarities of gold items' leaves less their root's: of gold ones, and of the others.

    The paper's Figure 6 shows how far the two lie apart.
    """
    found: dict[bool, list[float]] = {True: [], False: []}
    for each in judged:
        for item, (nodes, values) in zip(each.gold_items, each.gold_scored, strict=True):
            if not nodes[0].children:
                continue
            for leaf in leaves(nodes):
                found[leaf in each.gold[item.id]].append(float(values[leaf] - values[0]))
    return found


def retrieval_recall(judged: Judged, k: int) -> float:
    """Return the share of the question's gold items among the first `k`."""
    first = {item.id for item in judged.found_items[:k]}
    return len(first & set(judged.gold)) / len(judged.gold)


def covers_all(judged: Judged, k: int) -> bool:
    """Whether every hop (or, without hops, every gold item) has an item among the first `k`."""
    located = [span for span in judged.question.gold if span.item_id in judged.gold]
    return covers(located, {item.id for item in judged.found_items[:k]})


def covers(gold: Sequence[GoldSpan], found: Collection[str]) -> bool:
    """Whether every hop (or, without hops, every gold item) has an item among those found.

    Args:
        gold: Gold spans of a question, at least one.
        found: Ids of items.
    """
    hops: dict[int, set[str]] = {}
    for span in gold:
        if span.hop is not None:
            hops.setdefault(span.hop, set()).add(span.item_id)
    if hops:
        return all(not own.isdisjoint(found) for own in hops.values())
    return all(span.item_id in found for span in gold)


def _depths(nodes: Sequence[Node]) -> list[int]:
    depth = [0] * len(nodes)
    for node in nodes:
        if node.parent is not None:
            depth[node.index] = depth[node.parent] + 1
    return depth
