"""Stored vectors of nodes against the plain computation that they stand for."""

import numpy as np
import pytest

from canopy_rag.core.coding import code
from canopy_rag.core.trees import leaves, table_tree
from canopy_rag.core.vectors import (
    NodeVectors,
    leaf_intervals,
    node_matrix,
    pool,
    similarities,
    similarities_of_all,
)

DIM = 8


def states(n_rows, seed=0):
    generator = np.random.default_rng(seed)
    nodes = table_tree(n_rows)
    n_leaves = max(n_rows, 1)
    tokens = generator.integers(1, 9, n_leaves)
    means = generator.normal(size=(n_leaves, DIM)).astype(np.float32)
    context = generator.normal(size=DIM).astype(np.float32)
    query = generator.normal(size=DIM).astype(np.float32)
    return nodes, means, tokens.tolist(), context, query / np.linalg.norm(query)


def expected(nodes, means, tokens, context, n_context, query):
    """The token-weighted mean of each node's own tokens and the context's, written out."""
    position = {leaf: place for place, leaf in enumerate(leaves(nodes))}
    values = []
    for node in nodes:
        total = context.astype(np.float64) * n_context
        for leaf in leaves(nodes, node.index):
            total += means[position[leaf]].astype(np.float64) * tokens[position[leaf]]
        values.append(total @ query / np.linalg.norm(total))
    return np.array(values)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5, 37])
@pytest.mark.parametrize("n_context", [0, 3])
def test_similarities_are_those_of_the_weighted_means(n_rows, n_context):
    nodes, means, tokens, context, query = states(n_rows)
    vectors = pool(nodes, means, tokens, context, n_context, np.float32)
    values = similarities(nodes, vectors, query)
    assert values.dtype == np.float32
    np.testing.assert_allclose(
        values, expected(nodes, means, tokens, context, n_context, query), atol=1e-5
    )
    np.testing.assert_allclose(node_matrix(nodes, vectors) @ query, values, atol=1e-5)


def test_half_precision_storage_moves_similarities_by_less_than_a_thousandth():
    nodes, means, tokens, context, query = states(50, seed=1)
    full = similarities(nodes, pool(nodes, means, tokens, context, 4, np.float32), query)
    half = similarities(nodes, pool(nodes, means, tokens, context, 4, np.float16), query)
    assert np.abs(full - half).max() < 1e-3


def test_per_node_vectors_are_compared_directly():
    nodes = table_tree(2)
    rows = np.eye(3, DIM, dtype=np.float32)
    query = np.eye(1, DIM, 1, dtype=np.float32)[0]
    assert similarities(nodes, NodeVectors(rows=rows), query).tolist() == [0, 1, 0]


def test_vectors_of_another_tree_are_refused():
    nodes, means, tokens, context, query = states(4)
    vectors = pool(nodes, means, tokens, context, 1)
    with pytest.raises(ValueError, match="for a tree of"):
        similarities(table_tree(5), vectors, query)
    with pytest.raises(ValueError, match="node vectors for a tree"):
        similarities(nodes, NodeVectors(rows=np.eye(3, DIM)), query)
    with pytest.raises(ValueError, match="pass one per leaf"):
        pool(table_tree(5), means, tokens, context, 1)


def test_leaf_intervals_count_the_leaves_under_each_node():
    assert leaf_intervals(table_tree(3)).tolist() == [[0, 3], [0, 2], [0, 1], [1, 2], [2, 3]]


def test_items_taken_together_have_the_similarities_that_they_have_alone(monkeypatch):
    rng = np.random.default_rng(3)
    query = rng.normal(size=DIM).astype(np.float32)
    items = []
    for n_rows in (1, 2, 7, 30, 3):
        nodes = table_tree(n_rows)
        means = rng.normal(size=(n_rows, DIM)).astype(np.float32)
        items.append((nodes, pool(nodes, means, range(1, n_rows + 1), means[0], 2)))
        each_node = rng.normal(size=(len(nodes), DIM)).astype(np.float16)
        items.append((nodes, NodeVectors(rows=each_node)))
        items += [(nodes, NodeVectors(rows=code(each_node, bits))) for bits in (4, 8)]
    alone = [similarities(nodes, vectors, query) for nodes, vectors in items]
    for at_once in (1, 10, 4096):
        monkeypatch.setattr("canopy_rag.core.vectors.AT_ONCE_ROWS", at_once)
        together = similarities_of_all(items, query)
        for one, other in zip(together, alone, strict=True):
            assert one.dtype == np.float32
            np.testing.assert_array_equal(one, other)
    assert similarities_of_all([], query) == []
