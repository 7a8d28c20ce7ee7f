"""How many of a question's words a node holds: the lexical term of the similarity (D3).

A leaf's *coverage* is the share of the question's tokens that stand in it, each counted by how rare
it is. A node's is the mean over its leaves, so that it does not grow with the node: a parent covers
whatever its children do, and only a mean can say which of them stands out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.types import Node
from canopy_rag.core.vectors import (
    Borders,
    NodeQuery,
    NodeVectors,
    Terms,
    leaf_borders,
    similarities_of_all,
)


def question_terms(token_ids: Sequence[int], idf: NDArray[np.floating], weight: float) -> Terms:
    """Return what a question's tokens count: in proportion to `idf`, `weight` altogether.

    Args:
        token_ids: Of the question, in any order; those outside `idf` are left out.
        idf: How rare each token is, `(n_words,)`.
        weight: Of the lexical term.

    >>> question_terms([7, 3, 7], np.array([0, 0, 0, 1, 0, 0, 0, 3.0]), 0.4).weights
    array([0.1, 0.3])
    """
    ids = np.unique(np.asarray(token_ids, np.int64))
    ids = ids[(ids >= 0) & (ids < len(idf))]
    rarity = np.asarray(idf, np.float64)[ids]
    total = float(rarity.sum())
    return Terms(ids, rarity * (weight / total) if total > 0 else rarity)


def coverage(
    tokens: NDArray[np.integer], sizes: Sequence[int] | NDArray[np.integer], terms: Terms
) -> NDArray[np.float64]:
    """Return the summed weight of the terms that each leaf holds, `(n_leaves,)`.

    Args:
        tokens: Token ids of all leaves, one leaf after the other.
        sizes: How many tokens each leaf has.
        terms: Of the question.
    """
    n_leaves = len(sizes)
    if not len(tokens) or not len(terms.ids):
        return np.zeros(n_leaves)
    place = np.searchsorted(terms.ids, tokens)
    place[place == len(terms.ids)] = 0
    found = np.flatnonzero(terms.ids[place] == tokens)
    leaf = np.searchsorted(np.cumsum(sizes), found, side="right")
    # Each pair once, in order: equal leaves add the same numbers up, and tie.
    pairs = np.unique(leaf * len(terms.ids) + place[found])
    gained = terms.weights[pairs % len(terms.ids)]
    return np.asarray(np.bincount(pairs // len(terms.ids), gained, n_leaves), np.float64)


def node_coverage(nodes: Sequence[Node], values: Sequence[float]) -> NDArray[np.float32]:
    """Return the mean over each node's leaves, `(n_nodes,)`, node order.

    Args:
        nodes: A tree in preorder.
        values: Of its leaves, in order.
    """
    return _means(leaf_borders(nodes), values)


def _means(borders: Borders, values: Sequence[float]) -> NDArray[np.float32]:
    begins, ends = borders
    # Lists: a tree is small, and each step of an array costs more than all of its sums.
    running = [0.0, *accumulate(values)]
    return np.array(
        [
            values[begin] if end - begin == 1 else (running[end] - running[begin]) / (end - begin)
            for begin, end in zip(begins, ends, strict=True)
        ],
        np.float32,
    )


def node_similarities(
    items: Sequence[tuple[Sequence[Node], NodeVectors]], query: NodeQuery
) -> list[NDArray[np.float32]]:
    """Return the similarity of the query with each node of each item: cosine plus lexical term.

    A value does not depend on which items stand beside it.

    Args:
        items: Trees with their stored vectors.
        query: The query; without terms this is the cosine (D3).

    Returns:
        float32, `(n_nodes,)` each, node order.

    Raises:
        ValueError: If vectors and tree of an item do not belong together, or terms are asked for
            where no tokens are stored.
    """
    if query.terms is None:
        return similarities_of_all(items, query.vector)
    borders = [leaf_borders(nodes) for nodes, _ in items]
    cosines = similarities_of_all(items, query.vector, borders)
    tokens, sizes = _leaf_tokens(items)
    values = coverage(tokens, sizes, query.terms).tolist()
    place = 0
    for number, (_, vectors) in enumerate(items):
        stop = place + len(vectors.rows) - 1
        cosines[number] = cosines[number] + _means(borders[number], values[place:stop])
        place = stop
    return cosines


def _leaf_tokens(
    items: Sequence[tuple[Sequence[Node], NodeVectors]],
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the tokens of all items' leaves, and how many each leaf has."""
    if not items:
        return np.zeros(0, np.uint16), np.zeros(0, np.int64)
    tokens, sizes = [], []
    for _, vectors in items:
        if vectors.tokens is None or vectors.weights is None:
            raise ValueError("the query has lexical terms, but no tokens are stored with the nodes")
        tokens.append(vectors.tokens)
        sizes.append(vectors.weights[:-1])
    return np.concatenate(tokens), np.concatenate(sizes).astype(np.int64)
