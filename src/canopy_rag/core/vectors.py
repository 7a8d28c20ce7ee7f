"""Vectors of one item's nodes, and their similarities to a query.

Two storage forms, one result. *Late pooling*: the encoder reads an item once; a leaf's
row is the mean of its own tokens' states, the last row is the mean of the title's (or header's)
tokens; the vector of any node is the token-weighted mean of its leaves' rows and the title's. Only
rows, weights and norms are stored; inner nodes are arithmetic. *Per node*: one row per node, each
encoded on its own. In either, rows may be stored in few bits (`coding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.coding import Rows, dense, dots
from canopy_rag.core.types import Node

Matrix = NDArray[np.floating]
Borders = tuple[list[int], list[int]]
"""Where the leaves of each node begin and end, counted in order."""
AT_ONCE_ROWS = 4096
"""Rows that are looked at together: 6 MB of 384 entries in float32, unless one item has more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeVectors:
    """Stored vectors of one item's nodes."""

    rows: Rows
    """Late pooling: `(n_leaves + 1, dim)`, leaves in order, then the context row. Per node:
    `(n_nodes, dim)`, unit length, node order. float16, float32, or coded."""
    weights: NDArray[np.float32] | None = None
    """Late pooling: token count of each row, `(n_leaves + 1,)`. None: per node."""
    norms: NDArray[np.float32] | None = None
    """Late pooling: length of each node's weighted sum, `(n_nodes,)`. None: per node. Of the rows
    before they were coded: coding makes all dot products smaller by the same share, and the noise
    that it adds lengthens a single row but not the sum of many, which would favour parents."""
    tokens: NDArray[np.uint16] | None = None
    """Late pooling with a lexical term: the leaves' token ids, one leaf after the other; `weights`
    says how many each has. None: the encoder has no such term."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemVectors:
    """What an encoder makes of one item."""

    item: NDArray[np.float32]
    """The vector by which the item is retrieved, `(dim,)`, unit length."""
    nodes: NodeVectors


class Terms(NamedTuple):
    """The tokens of a question and what each counts."""

    ids: NDArray[np.int64]
    """Distinct, ascending, `(n_terms,)`."""
    weights: NDArray[np.float64]
    """`(n_terms,)`; their sum is the weight of the whole term beside the cosine."""


class NodeQuery(NamedTuple):
    """A query as nodes are compared with it."""

    vector: NDArray[np.float32]
    """Of the node encoder, `(dim,)`, unit length."""
    terms: Terms | None = None
    """Of the lexical term; None: the similarity is the cosine alone (the paper's)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryVectors:
    """What an encoder makes of queries. Both rows are the same with a single encoder (D12)."""

    retrieval: NDArray[np.float32]
    """`(n_queries, dim)`, unit length: ranks items (f0)."""
    node: NDArray[np.float32]
    """`(n_queries, dim)`, unit length: compares nodes (f_theta)."""
    terms: Sequence[Terms] | None = None
    """Of each query, for an encoder with a lexical term."""

    def of(self, position: int) -> NodeQuery:
        """Return one of the queries as nodes are compared with it."""
        terms = None if self.terms is None else self.terms[position]
        return NodeQuery(self.node[position], terms)


def leaf_intervals(nodes: Sequence[Node]) -> NDArray[np.int64]:
    """Return for each node the half-open interval of its leaves, counted in order.

    Args:
        nodes: A tree in preorder.

    Returns:
        `(n_nodes, 2)`; the root's row is `[0, n_leaves]`, a leaf's interval has length one.
    """
    return np.array(leaf_borders(nodes), np.int64).T.reshape(-1, 2)


def leaf_borders(nodes: Sequence[Node]) -> Borders:
    """Return where the leaves of each node begin and end, counted in order."""
    begins: list[int] = []
    ends: list[int] = []
    n_leaves = 0
    for node in nodes:  # preorder: the leaves before a node are those before its subtree
        begins.append(n_leaves)
        if not node.children:
            n_leaves += 1
        ends.append(n_leaves)
    for node in reversed(nodes):
        if node.children:
            ends[node.index] = ends[node.children[-1]]
    return begins, ends


def pool(
    nodes: Sequence[Node],
    leaf_means: NDArray[np.float32],
    leaf_tokens: Sequence[int],
    context_mean: NDArray[np.float32],
    context_tokens: int,
    dtype: type[np.floating] = np.float16,
) -> NodeVectors:
    """Put late-pooled states into their stored form.

    Args:
        nodes: The item's tree.
        leaf_means: Mean token state of each leaf, `(n_leaves, dim)`, not normalised.
        leaf_tokens: Token count of each leaf, each at least 1.
        context_mean: Mean token state of the title or header, `(dim,)`; zeros without one.
        context_tokens: Its token count; 0 without one.
        dtype: Storage type of the rows. Norms are those of the rows as stored.

    Raises:
        ValueError: If `leaf_means` has not one row per leaf of `nodes`.
    """
    intervals = leaf_intervals(nodes)
    if len(leaf_means) != intervals[0, 1] or len(leaf_tokens) != len(leaf_means):
        raise ValueError(
            f"{len(leaf_means)} leaf vectors and {len(leaf_tokens)} token counts for a tree with "
            f"{intervals[0, 1]} leaves; pass one per leaf, in order"
        )
    rows = np.vstack([leaf_means, context_mean[None]]).astype(dtype)
    weights = np.asarray([*leaf_tokens, context_tokens], np.float32)
    norms = np.linalg.norm(_sums(rows, weights, intervals), axis=1).astype(np.float32)
    return NodeVectors(rows=rows, weights=weights, norms=norms)


def node_matrix(nodes: Sequence[Node], vectors: NodeVectors) -> NDArray[np.float32]:
    """Return every node's unit vector, `(n_nodes, dim)`, node order."""
    if vectors.weights is None:
        return dense(vectors.rows)
    sums = _sums(dense(vectors.rows), vectors.weights, leaf_intervals(nodes))
    return np.asarray(
        sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12), np.float32
    )


def similarities(
    nodes: Sequence[Node], vectors: NodeVectors, query: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the cosine of the query with each node, float32, `(n_nodes,)`, node order (D3).

    Inner nodes cost no vector arithmetic: the rows' dot products are summed over each node's
    leaves and divided by the stored norms.

    Args:
        nodes: The item's tree.
        vectors: Its stored vectors.
        query: Unit vector, `(dim,)`.

    Raises:
        ValueError: If vectors and tree do not belong together.
    """
    return similarities_of_all([(nodes, vectors)], query)[0]


def similarities_of_all(
    items: Sequence[tuple[Sequence[Node], NodeVectors]],
    query: NDArray[np.float32],
    borders: Sequence[Borders] | None = None,
) -> list[NDArray[np.float32]]:
    """Return what `similarities` does for each of several items, in fewer and larger steps.

    A value does not depend on which items stand beside it.

    Args:
        items: Trees with their stored vectors.
        query: Unit vector, `(dim,)`.
        borders: `leaf_borders` of the trees, where they are known already.

    Raises:
        ValueError: If vectors and tree of an item do not belong together.
    """
    found: list[NDArray[np.float32]] = []
    begin = 0
    while begin < len(items):
        end, n_rows = begin, 0
        while end < len(items) and (end == begin or n_rows < AT_ONCE_ROWS):
            n_rows += len(items[end][1].rows)
            end += 1
        batch = items[begin:end]
        values = dots([vectors.rows for _, vectors in batch], query)  # (n_rows,)
        place = 0
        for nodes, vectors in batch:
            own = values[place : place + len(vectors.rows)]
            known = None if borders is None else borders[len(found)]
            found.append(_of_item(nodes, vectors, own, known))
            place += len(vectors.rows)
        begin = end
    return found


def _of_item(
    nodes: Sequence[Node],
    vectors: NodeVectors,
    values: NDArray[np.float32],
    borders: Borders | None,
) -> NDArray[np.float32]:
    """Return the similarities of an item's nodes from its rows' dot products with the query."""
    if vectors.weights is None or vectors.norms is None:
        if len(values) != len(nodes):
            raise ValueError(f"{len(values)} node vectors for a tree of {len(nodes)} nodes")
        return values
    begins, ends = leaf_borders(nodes) if borders is None else borders
    if len(values) != ends[0] + 1 or len(vectors.norms) != len(nodes):
        raise ValueError(
            f"{len(values)} stored rows and {len(vectors.norms)} norms for a tree of "
            f"{len(nodes)} nodes with {ends[0]} leaves"
        )
    # Lists: a tree is small, and each step of an array costs more than all of its sums.
    *weighted, context = np.multiply(values, vectors.weights, dtype=np.float64).tolist()
    running = [0.0, *accumulate(weighted)]
    return np.array(
        [
            (running[end] - running[begin] + context) / max(norm, 1e-12)
            for begin, end, norm in zip(begins, ends, vectors.norms.tolist(), strict=True)
        ],
        np.float32,
    )


def _sums(rows: Matrix, weights: NDArray[np.float32], intervals: NDArray[np.int64]) -> Matrix:
    """Return each node's weighted sum of leaf rows plus the context's, `(n_nodes, dim)`."""
    weighted = rows.astype(np.float64) * weights[:, None].astype(np.float64)
    running = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(weighted[:-1], axis=0)])
    sums: Matrix = running[intervals[:, 1]] - running[intervals[:, 0]] + weighted[-1]
    return sums
