from __future__ import annotations

import numpy as np
import pytest

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.vectors import similarities
from canopy_rag.testing.encoder_contract import text_item
from canopy_rag.testing.hashing import HashingEncoder

KNOWN = [0.0, 0.0, 0.0, 0.7071068, 0.0, -0.7071068, 0.0, 0.0]


def test_the_same_words_have_the_same_direction_whatever_their_order_and_case() -> None:
    rows = HashingEncoder().encode_queries(["Ada wrote it", "IT wrote ada!"]).node
    assert np.allclose(rows[0], rows[1])


def test_vectors_are_the_same_on_every_machine() -> None:
    row = HashingEncoder(dim=8).encode_queries(["ada"]).node[0]
    assert np.allclose(row, KNOWN, atol=1e-6), row.tolist()


def test_words_in_common_raise_the_similarity_and_others_lower_it() -> None:
    item = text_item(
        "a", ["Ada wrote programs.", "Ada lived by a lake in the north.", "Rain fell."]
    )
    encoder = HashingEncoder(dim=512)
    one = encoder.encode_items([item])[0]
    query = encoder.encode_queries(["ada programs"]).node[0]
    found = similarities(item.nodes, one.nodes, query)
    first, second, third = (found[n.index] for n in item.nodes if not n.children)
    assert first > second > third


def test_modes_differ_in_what_they_store() -> None:
    item = text_item("a", ["Ada wrote.", "Rain fell.", "It was cold."])
    late = HashingEncoder().encode_items([item])[0]
    node = HashingEncoder(mode="node").encode_items([item])[0]
    assert late.nodes.rows.shape == (4, 64)
    assert node.nodes.rows.shape == (5, 64)


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 8 dimensions, got 4"):
        HashingEncoder(dim=4)
