"""The lexical term against a slow reference, its ties, and where it is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.core.lexical import (
    coverage,
    node_coverage,
    node_similarities,
    question_terms,
)
from canopy_rag.core.trees import leaves, table_tree
from canopy_rag.core.vectors import NodeQuery, NodeVectors, QueryVectors, pool, similarities

LEAVES = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), min_size=1, max_size=9)
QUESTION = st.lists(st.integers(0, 15), max_size=8)
IDF = np.linspace(0.0, 3.0, 13)


def slow(own: Sequence[Sequence[int]], question: Sequence[int], weight: float) -> list[float]:
    words = {word for word in question if word < len(IDF)}
    total = sum(IDF[word] for word in words)
    if not total:
        return [0.0] * len(own)
    return [weight * sum(IDF[word] for word in words & set(leaf)) / total for leaf in own]


def vectors_of(own: Sequence[Sequence[int]]) -> NodeVectors:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((len(own), 4)).astype(np.float32)
    made = pool(table_tree(len(own)), rows, [len(leaf) for leaf in own], np.zeros(4, np.float32), 0)
    tokens = np.asarray([token for leaf in own for token in leaf], np.uint16)
    return NodeVectors(rows=made.rows, weights=made.weights, norms=made.norms, tokens=tokens)


@given(LEAVES, QUESTION)
def test_coverage_equals_a_slow_reference(own: list[list[int]], question: list[int]) -> None:
    tokens = np.asarray([token for leaf in own for token in leaf])
    found = coverage(tokens, [len(leaf) for leaf in own], question_terms(question, IDF, 0.4))
    assert found == pytest.approx(slow(own, question, 0.4))


@given(LEAVES)
def test_a_node_covers_the_mean_of_its_leaves(own: list[list[int]]) -> None:
    nodes = table_tree(len(own))
    values = np.arange(len(own), dtype=np.float64) ** 2
    found = node_coverage(nodes, values.tolist())
    by_node = dict(zip(leaves(nodes), values, strict=True))
    for node in nodes:
        expected = np.mean([by_node[leaf] for leaf in leaves(nodes, node.index)])
        assert found[node.index] == pytest.approx(expected)


@given(LEAVES, st.integers(0, 8), QUESTION)
def test_equal_leaves_tie_exactly(own: list[list[int]], place: int, question: list[int]) -> None:
    leaf = own[place % len(own)]
    both = [*own, leaf]
    tokens = np.asarray([token for each in both for token in each])
    found = coverage(tokens, [len(each) for each in both], question_terms(question, IDF, 0.3))
    assert found[-1] == found[place % len(own)]


def test_similarity_is_cosine_plus_coverage_and_cosine_alone_without_terms() -> None:
    own = [[1, 2], [3], [4, 5, 6]]
    nodes, vectors = table_tree(3), vectors_of([*own])
    query = np.array([1, 0, 0, 0], np.float32)
    cosine = similarities(nodes, vectors, query)
    (plain,) = node_similarities([(nodes, vectors)], NodeQuery(query))
    assert plain.tolist() == cosine.tolist()
    terms = question_terms([3, 4], IDF, 0.5)
    (both,) = node_similarities([(nodes, vectors)], NodeQuery(query, terms))
    assert both.dtype == np.float32
    tokens = np.array([1, 2, 3, 4, 5, 6])
    gain = node_coverage(nodes, coverage(tokens, [2, 1, 3], terms).tolist())
    assert both == pytest.approx(cosine + gain)
    assert gain.max() > 0


def test_a_value_does_not_depend_on_which_items_stand_beside_it() -> None:
    many = [[[1, 2], [3]], [[4], [4], [4]], [[5, 6, 7]], [[2], [8, 2]]]
    items = [(table_tree(len(own)), vectors_of(own)) for own in many]
    query = NodeQuery(np.array([0, 1, 0, 0], np.float32), question_terms([2, 4, 7], IDF, 0.5))
    together = node_similarities(items, query)
    for item, values in zip(items, together, strict=True):
        assert node_similarities([item], query)[0].tolist() == values.tolist()
    assert node_similarities([], query) == []


def test_terms_without_stored_tokens_are_refused() -> None:
    nodes, vectors = table_tree(2), vectors_of([[1], [2]])
    bare = NodeVectors(rows=vectors.rows, weights=vectors.weights, norms=vectors.norms)
    query = NodeQuery(np.ones(4, np.float32), question_terms([1], IDF, 0.5))
    with pytest.raises(ValueError, match="no tokens are stored"):
        node_similarities([(nodes, bare)], query)


def test_a_question_of_unknown_or_common_words_gains_nothing() -> None:
    for question in ([], [14], [0]):
        terms = question_terms(question, IDF, 0.5)
        assert coverage(np.array([0, 1, 2]), [3], terms).tolist() == [0.0]


def test_one_query_of_several_has_its_own_terms() -> None:
    rows = np.eye(2, dtype=np.float32)
    terms = [question_terms([1], IDF, 0.5), question_terms([2], IDF, 0.5)]
    queries = QueryVectors(retrieval=rows, node=rows, terms=terms)
    assert queries.of(1).terms == terms[1]
    assert QueryVectors(retrieval=rows, node=rows).of(0).terms is None
