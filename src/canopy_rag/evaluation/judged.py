"""What the diagnosis looks at: questions with the trees and similarities of their items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.lexical import node_similarities
from canopy_rag.core.preferences import gold_leaves
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.questions import Question
from canopy_rag.core.select import Scored
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import NodeQuery, NodeVectors

T = TypeVar("T")
Advance = Callable[[int], None]
"""Hears how many items were encoded."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Encoded items that questions search together (P16)."""

    items: tuple[Item, ...]
    vectors: tuple[NodeVectors, ...]
    matrix: NDArray[np.float32]
    """Item vectors, `(n_items, dim)`, unit length."""
    positions: Mapping[str, int]
    """Item id -> row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """A question with what an encoder makes of its items."""

    benchmark: str
    question: Question
    gold: Mapping[str, frozenset[int]]
    """Item id -> its gold leaves, for every item with located gold."""
    gold_items: tuple[Item, ...]
    gold_scored: tuple[Scored, ...]
    """Trees and similarities of `gold_items`."""
    found_items: tuple[Item, ...]
    """The first `k` of the pool, in rank order."""
    found_scored: tuple[Scored, ...]

    @property
    def n_gold(self) -> int:
        """Number of gold leaves."""
        return sum(len(each) for each in self.gold.values())


def encode_pool(
    items: Iterable[Item], encoder: Encoder, *, batch: int = 128, advance: Advance | None = None
) -> Pool:
    """Encode items once; an id that comes again is left out.

    Args:
        items: Streamed; held with half-precision vectors.
        encoder: Makes the vectors.
        batch: Items per call of the encoder.
        advance: Hears how many items were encoded.
    """
    kept: list[Item] = []
    vectors: list[NodeVectors] = []
    rows: list[NDArray[np.float32]] = []
    positions: dict[str, int] = {}
    for group in _batches(items, batch):
        new = [
            item for item in {item.id: item for item in group}.values() if item.id not in positions
        ]
        for item, each in zip(new, encoder.encode_items(new), strict=True):
            positions[item.id] = len(kept)
            kept.append(item)
            vectors.append(each.nodes)
            rows.append(each.item)
        if advance is not None:
            advance(len(group))
    dim = encoder.fingerprint.dim
    matrix = np.stack(rows) if rows else np.zeros((0, dim), np.float32)
    return Pool(items=tuple(kept), vectors=tuple(vectors), matrix=matrix, positions=positions)


def judge(
    benchmark: str, questions: Sequence[Question], pool: Pool, encoder: Encoder, k: int = 10
) -> list[Judged]:
    """Compare questions with their gold items and with the first `k` items of a pool.

    Args:
        benchmark: Name that the results are listed under.
        questions: Questions whose gold items are in the pool; others are skipped, and so is one
            whose gold overlaps no leaf.
        pool: What they search.
        encoder: The one that made the pool.
        k: Items retrieved per question; equal similarities by id.
    """
    judged: list[Judged] = []
    for group in _batches(questions, 256):
        queries = encoder.encode_queries([question.text for question in group])
        for place, (question, retrieval) in enumerate(zip(group, queries.retrieval, strict=True)):
            gold = _gold(question, pool)
            if not gold:
                continue
            ranked = _nearest(pool, retrieval, k)
            node = queries.of(place)
            own = [pool.positions[item_id] for item_id in gold]
            judged.append(
                Judged(
                    benchmark=benchmark,
                    question=question,
                    gold=gold,
                    gold_items=tuple(pool.items[row] for row in own),
                    gold_scored=tuple(_scored(pool, row, node) for row in own),
                    found_items=tuple(pool.items[row] for row in ranked),
                    found_scored=tuple(_scored(pool, row, node) for row in ranked),
                )
            )
    return judged


def _gold(question: Question, pool: Pool) -> dict[str, frozenset[int]]:
    spans: dict[str, list[tuple[float, float]]] = {}
    for span in question.gold:
        if span.item_id in pool.positions:
            spans.setdefault(span.item_id, []).append((span.start, span.stop))
    gold = {
        item_id: gold_leaves(pool.items[pool.positions[item_id]].nodes, own)
        for item_id, own in spans.items()
    }
    return {item_id: ends for item_id, ends in gold.items() if ends}


def _nearest(pool: Pool, query: NDArray[np.float32], k: int) -> list[int]:
    values = pool.matrix @ query  # (n_items,)
    k = min(k, len(values))
    if not k:
        return []
    bound = np.partition(values, -k)[-k]
    rows = np.flatnonzero(values >= bound).tolist()
    rows.sort(key=lambda row: (-float(values[row]), pool.items[row].id))
    return rows[:k]


def _scored(pool: Pool, row: int, query: NodeQuery) -> Scored:
    nodes = pool.items[row].nodes
    return nodes, node_similarities([(nodes, pool.vectors[row])], query)[0]


def _batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(values)
    while group := list(islice(iterator, size)):
        yield group
