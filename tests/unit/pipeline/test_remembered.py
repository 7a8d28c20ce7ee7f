from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from canopy_rag.core.lexical import question_terms
from canopy_rag.core.vectors import QueryVectors
from canopy_rag.pipeline.remembered import RememberedQueries
from canopy_rag.testing.hashing import HashingEncoder


class Counting(HashingEncoder):
    """Notes what it is asked to encode."""

    def __init__(self, *, terms: bool = False) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.terms = terms

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        self.calls.append(list(queries))
        found = super().encode_queries(queries)
        if not self.terms:
            return found
        terms = [question_terms([len(query)], np.ones(64), 0.3) for query in queries]
        return QueryVectors(retrieval=found.retrieval, node=-found.node, terms=terms)


def test_a_query_is_embedded_once() -> None:
    encoder = Counting()
    remembered = RememberedQueries(encoder)
    first, again = remembered.encode(["who?"]), remembered.encode(["who?"])
    assert encoder.calls == [["who?"]]
    assert (first.retrieval == again.retrieval).all()


def test_new_queries_are_embedded_in_one_call_and_come_back_in_the_order_asked() -> None:
    encoder = Counting()
    remembered = RememberedQueries(encoder)
    remembered.encode(["b"])
    found = remembered.encode(["c", "b", "a", "c"])
    assert encoder.calls == [["b"], ["c", "a"]]
    plain = HashingEncoder().encode_queries(["c", "b", "a", "c"])
    assert (found.retrieval == plain.retrieval).all()
    assert (found.node == plain.node).all()


def test_vectors_of_both_encoders_and_lexical_terms_are_those_of_the_query() -> None:
    remembered = RememberedQueries(Counting(terms=True))
    remembered.encode(["long one"])
    found = remembered.encode(["b", "long one"])
    plain = Counting(terms=True).encode_queries(["b", "long one"])
    for place in range(2):
        own, expected = found.of(place), plain.of(place)
        assert (own.vector == expected.vector).all()
        assert own.terms is not None
        assert expected.terms is not None
        assert own.terms.ids.tolist() == expected.terms.ids.tolist()


def test_the_query_that_was_asked_longest_ago_is_forgotten() -> None:
    encoder = Counting()
    remembered = RememberedQueries(encoder, size=2)
    for query in ("a", "b", "a", "c", "a", "b"):
        remembered.encode([query])
    assert encoder.calls == [["a"], ["b"], ["c"], ["b"]]


def test_what_is_remembered_cannot_be_changed_by_a_caller() -> None:
    remembered = RememberedQueries(Counting())
    with pytest.raises(ValueError, match="read-only"):
        remembered.encode(["a"]).retrieval[0, 0] = 1.0


def test_another_encoder_has_a_memory_of_its_own() -> None:
    one, other = HashingEncoder(), HashingEncoder(dim=64)
    assert RememberedQueries(one).encode(["a"]).retrieval.shape == (1, one.fingerprint.dim)
    assert RememberedQueries(other).encode(["a"]).retrieval.shape == (1, 64)
