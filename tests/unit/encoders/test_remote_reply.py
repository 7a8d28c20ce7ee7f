"""Replies of embedding servers: in which form, in which order, and those that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.encoders.serving import (
    asking,
    scripted,
    unit,
    vector_of,
)

from canopy_rag.core.errors import EncodeError
from canopy_rag.encoders.remote_reply import ServerError
from canopy_rag.testing.chat_server import Served, refuses, sends
from canopy_rag.testing.embedding_server import EmbeddingHost, embeddings
from canopy_rag.testing.encoder_contract import text_item


def test_vectors_are_asked_for_as_base64_and_taken_as_either(host: EmbeddingHost) -> None:
    packed = asking(host).encode_queries(["castle"]).node
    assert host.asked[0].body["encoding_format"] == "base64"
    with scripted(embeddings([vector_of("castle")])) as plain:
        assert np.array_equal(asking(plain).encode_queries(["castle"]).node, packed)
    assert np.allclose(packed[0], unit("castle"), atol=1e-6)


def test_a_server_that_refuses_base64_is_asked_for_numbers_from_then_on() -> None:
    no = refuses(400, "encoding_format must be float")
    with scripted(no) as host:
        encoder = asking(host)
        for _ in range(2):
            assert np.allclose(encoder.encode_queries(["castle"]).node[0], unit("castle"))
        formats = [each.body.get("encoding_format") for each in host.asked]
        assert formats == ["base64", None, None]


def test_vectors_are_put_in_order_by_their_index() -> None:
    data = [
        {"index": 1, "embedding": [0, 1, 0, 0]},
        {"index": 0, "embedding": [1, 0, 0, 0]},
    ]
    with scripted(sends({"data": data})) as host:
        assert asking(host).encode_queries(["a", "b"]).node.argmax(axis=1).tolist() == [0, 1]


def test_vectors_without_an_index_are_in_order() -> None:
    data = [{"embedding": [1, 0, 0, 0]}, {"embedding": [0, 1, 0, 0]}]
    with scripted(sends({"data": data})) as host:
        assert asking(host).encode_queries(["a", "b"]).node.argmax(axis=1).tolist() == [0, 1]


def data_of(*rows: Any) -> Served:
    return embeddings(list(rows))


FULL = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("reply", "whom", "told"),
    [
        (data_of(FULL), 1, "gave 1 vectors for 2 inputs, none for this one"),
        (data_of(), 0, "gave 0 vectors for 2 inputs"),
        (data_of(FULL, [1.0, 0.0]), 1, "entries"),
        (data_of(FULL, []), 1, "entries"),
        (data_of(FULL, [0.0] * 4), 1, "zero or holds no numbers"),
        (data_of(FULL, [float("nan")] * 4), 1, "zero or holds no numbers"),
        (data_of(FULL, [float("inf"), 0, 0, 0]), 1, "zero or holds no numbers"),
        (data_of(FULL, None), 1, "gave no vector|cannot be read"),
        (data_of(FULL, "!!!"), 1, "cannot be read"),
        (data_of(FULL, "AAA="), 1, "cannot be read"),
        (data_of(FULL, ["a", "b", "c", "d"]), 1, "cannot be read"),
        (data_of([FULL], FULL), 0, "gave no vector"),
        (
            sends({"data": [{"index": 0, "embedding": FULL}, {"index": 0, "embedding": FULL}]}),
            1,
            "none for this one",
        ),
    ],
)
def test_a_vector_that_is_missing_or_none_is_an_error_that_names_its_text(
    reply: Served, whom: int, told: str
) -> None:
    with scripted(reply) as host, pytest.raises(EncodeError, match=told) as caught:
        asking(host).encode_queries(["castle", "hill"])
    assert caught.value.item_id == f"query {whom}"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (data_of(FULL, FULL, FULL), "gave 3 vectors for 2 inputs"),
        (sends({"error": {"message": "busy"}}), "no list of vectors but.*busy"),
        (sends([1]), "no list of vectors"),
        (sends({"data": [1, 2]}), "no list of vectors"),
        (Served(body=b"<html>Sign in</html>"), "answered no JSON: <html>Sign in"),
        (Served(body=b""), "answered no JSON"),
        (refuses(404, "nothing here"), "HTTP 404.*check the base URL and the name of the model"),
        (Served(status=302, headers={"Location": "http://x/"}), "HTTP 302"),
    ],
)
def test_a_reply_that_is_none_of_the_api_blames_the_server(reply: Served, told: str) -> None:
    with scripted(reply) as host, pytest.raises(ServerError, match=told) as caught:
        asking(host).encode_queries(["castle", "hill"])
    assert caught.value.item_id == ""
    assert len(host.asked) == 1


def test_an_endpoint_that_changes_its_dimension_is_caught() -> None:
    with scripted(embeddings([vector_of("a")]), embeddings([np.ones(5)])) as host:
        encoder = asking(host, dim=None)
        encoder.encode_queries(["a"])
        with pytest.raises(EncodeError, match=r"a vector of 5 entries, 4 are expected") as caught:
            encoder.encode_items([text_item("x", ["Castle."])])
        assert caught.value.item_id == text_item("x", ["Castle."]).id


def test_an_endpoint_of_another_dimension_than_the_indexs_is_caught(host: EmbeddingHost) -> None:
    with pytest.raises(EncodeError, match=r"4 entries, 384 are expected"):
        asking(host, dim=384).encode_queries(["castle"])
