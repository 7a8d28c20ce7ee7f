"""From candidates of several tables to the hits with all that they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Found
from canopy_rag.core.types import Hit, Modality
from canopy_rag.store.matrix import Candidate
from canopy_rag.store.rows import ITEM_COLUMNS, VECTOR_COLUMNS, to_items, to_node_vectors
from canopy_rag.store.table import ItemTable

Chosen = tuple[str, Candidate]
"""Corpus and place of an item."""
_RRF = 60  # of reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009


def check_words(tables: Mapping[str, ItemTable], place: str) -> None:
    """Check that every corpus has a full-text index.

    Raises:
        StoreError: If one has none.
    """
    for table in tables.values():
        if len(table) and "text" not in table.indexed():
            raise StoreError(
                f"the index in {place!r} has no full-text index, which hybrid search needs; index "
                "again with `hybrid` on, or search without it"
            )


def choose(
    tables: Mapping[str, ItemTable],
    query: NDArray[np.float32],
    k: int,
    modalities: Sequence[Modality] | None,
    words: str | None,
) -> list[Chosen]:
    """Return the places of the `k` hits, in order.

    Args:
        tables: Corpora to search.
        query: Unit vector, `(dim,)`.
        k: Most hits.
        modalities: Only items of these; None for all.
        words: Fuse with the ranks of a full-text search for them; None: vectors alone.
    """
    depth = k if words is None else max(50, 5 * k)
    near = [
        (corpus, candidate)
        for corpus, table in tables.items()
        for candidate in table.nearest(query, depth, modalities)
    ]
    near.sort(key=_by_similarity)
    if words is None:
        return near[:k]
    matching = {
        corpus: table.matching(words, query, depth, modalities) for corpus, table in tables.items()
    }
    return _fused(near, matching)[:k]


def fetch(tables: Mapping[str, ItemTable], chosen: Sequence[Chosen]) -> list[Found] | None:
    """Return the hits with items and node vectors, or None if rows moved since they were chosen."""
    there: dict[tuple[str, str], Found] = {}
    hits = {
        (corpus, candidate.item_id): Hit(
            item_id=candidate.item_id, corpus=corpus, similarity=candidate.similarity, rank=rank
        )
        for rank, (corpus, candidate) in enumerate(chosen, 1)
    }
    for corpus in sorted({corpus for corpus, _ in chosen}):
        row_ids = [candidate.row_id for name, candidate in chosen if name == corpus]
        rows = tables[corpus].take(row_ids, [*ITEM_COLUMNS, *VECTOR_COLUMNS])
        for item, nodes in zip(
            to_items(rows, corpus), to_node_vectors(rows, tables[corpus].dim), strict=True
        ):
            hit = hits.get((corpus, item.id))
            if hit is None:
                return None
            there[corpus, item.id] = Found(hit=hit, item=item, nodes=nodes)
    if len(there) < len(hits):
        return None
    return [there[key] for key in hits]


def _fused(near: Sequence[Chosen], matching: Mapping[str, Sequence[Candidate]]) -> list[Chosen]:
    """Return candidates by reciprocal rank fusion, ties by similarity, then by item id.

    Full-text scores of two corpora cannot be compared; each corpus has ranks of its own.
    """
    weights: dict[tuple[str, str], float] = {}
    places: dict[tuple[str, str], Chosen] = {}

    def count(corpus: str, candidate: Candidate, rank: int) -> None:
        key = (corpus, candidate.item_id)
        weights[key] = weights.get(key, 0.0) + 1 / (_RRF + rank)
        places[key] = (corpus, candidate)

    for rank, (corpus, candidate) in enumerate(near, 1):
        count(corpus, candidate, rank)
    for corpus, candidates in matching.items():
        for rank, candidate in enumerate(candidates, 1):
            count(corpus, candidate, rank)
    return [
        places[key]
        for key in sorted(places, key=lambda k: (-weights[k], *_by_similarity(places[k])))
    ]


def _by_similarity(chosen: Chosen) -> tuple[float, str]:
    return -chosen[1].similarity, chosen[1].item_id
