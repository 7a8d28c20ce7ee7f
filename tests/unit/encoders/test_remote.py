"""Requests to embedding servers: together, with a key, tried again, given up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
from tests.unit.encoders.serving import (
    DIM,
    KEY,
    MODELS,
    asking,
    many,
    scripted,
    unit,
    vector_of,
)

from canopy_rag.core.errors import ConfigError, EncodeError
from canopy_rag.encoders.http import HttpEncoder
from canopy_rag.encoders.http_inputs import HttpOptions
from canopy_rag.encoders.remote_reply import ServerError
from canopy_rag.testing.chat_server import Served, refuses
from canopy_rag.testing.embedding_server import EmbeddingHost, embeddings
from canopy_rag.testing.encoder_contract import text_item


def test_requests_go_out_together_up_to_the_limit() -> None:
    barrier = threading.Barrier(3, timeout=20)

    def together(text: str) -> np.ndarray:
        barrier.wait()
        return vector_of(text)

    with EmbeddingHost(models={"m": together}) as host:
        encoder = asking(host, form="chat", max_in_flight=3)
        encoder.encode_queries([f"query {n}" for n in range(6)])
        assert host.peak == 3


def test_the_key_is_sent_as_bearer_token_and_shown_nowhere(host: EmbeddingHost) -> None:
    asking(host, api_key=KEY).encode_queries(["castle"])
    assert host.asked[0].headers["authorization"] == f"Bearer {KEY}"
    asking(host).encode_queries(["castle"])
    assert "authorization" not in host.asked[1].headers
    with scripted(refuses(401, f"wrong key {KEY}")) as other:
        with pytest.raises(ServerError, match=r"HTTP 401.*CANOPY_ENCODER_API_KEY") as caught:
            asking(other, api_key=KEY).encode_queries(["castle"])
        assert KEY not in str(caught.value)


def test_no_logged_line_holds_a_text_or_the_key(
    host: EmbeddingHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    asking(host, api_key=KEY).encode_queries(["a private question"])
    assert "private" not in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(status: int) -> None:
    with scripted(refuses(status), refuses(status)) as host:
        found = asking(host).encode_queries(["castle"]).node
        assert np.allclose(found[0], unit("castle"))
        assert len(host.asked) == 3


@pytest.mark.parametrize("reply", [Served(breaks=True, body=b"{"), Served(resets=True)])
def test_a_broken_connection_is_tried_again(reply: Served) -> None:
    with scripted(reply) as host:
        assert np.allclose(asking(host).encode_queries(["castle"]).node[0], unit("castle"))


def test_a_server_that_stays_down_is_told_with_its_last_words() -> None:
    with scripted(*[refuses(503, "loading")] * 3) as host:
        with pytest.raises(ServerError, match=r"HTTP 503.*loading"):
            asking(host).encode_queries(["castle"])
        assert len(host.asked) == 3


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    with scripted() as host:
        encoder = asking(host, max_retries=1)
    with pytest.raises(ServerError, match=r"http://127\.0\.0\.1:\d+/v1 cannot be reached"):
        encoder.encode_queries(["castle"])


def test_a_server_that_does_not_answer_in_time_is_told() -> None:
    with scripted(Served(hangs=True)) as host:
        with pytest.raises(ServerError, match=r"did not answer within 0\.2 s"):
            asking(host, timeout_s=0.2, max_retries=0).encode_queries(["castle"])
        host.release()


@pytest.mark.parametrize("wait", ["0", "0.001", formatdate(0, usegmt=True)])
def test_a_server_may_say_when_to_come_again(wait: str) -> None:
    with scripted(refuses(429, Retry_After=wait)) as host:
        # Without the header the pause would be an hour.
        encoder = asking(host, backoff_s=3600.0)
        assert np.allclose(encoder.encode_queries(["castle"]).node[0], unit("castle"))


def test_a_server_that_asks_for_too_long_a_wait_has_failed() -> None:
    with scripted(refuses(429, Retry_After="3600")) as host:
        with pytest.raises(ServerError, match="HTTP 429"):
            asking(host).encode_queries(["castle"])
        assert len(host.asked) == 1


def test_another_server_takes_over() -> None:
    with scripted() as gone:
        pass
    with EmbeddingHost(models=MODELS) as there:
        encoder = asking(gone, there)
        for _ in range(3):
            assert np.allclose(encoder.encode_queries(["castle"]).node[0], unit("castle"))


def choosy(bad: str) -> Callable[[Any], Served]:
    def reply(received: Any) -> Served:
        texts = received.body["input"]
        if any(bad in text for text in texts):
            return refuses(400, "This model's maximum context length is 8 tokens")
        return embeddings([vector_of(text) for text in texts], "base64")

    return reply


def test_the_text_that_makes_a_batch_fail_is_found_and_named(host: EmbeddingHost) -> None:
    items = many()
    host._then = choosy("Sentence 23.")
    with pytest.raises(EncodeError, match=r"maximum context length.*encoder\.max_tokens") as caught:
        asking(host).encode_items(items)
    assert caught.value.item_id == items[23].id


def test_one_failure_ends_the_other_requests(host: EmbeddingHost) -> None:
    host._then = choosy("Sentence 0.")
    encoder = asking(host, max_in_flight=1)
    with pytest.raises(EncodeError) as caught:
        encoder.encode_items(many(400))
    assert caught.value.item_id == many(1)[0].id
    assert len(host.asked) < 18


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:8000/v1", "write it like http://HOST:PORT/v1"),
        ("http:///v1", "write it like"),
        ("ftp://h/v1", "write it like"),
        ("http://user:pass@h/v1", "no user name or password"),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        HttpEncoder(HttpOptions(urls=(url,), model="m"))
    assert "pass@" not in str(caught.value)


def test_a_key_that_cannot_be_sent_is_refused_unseen() -> None:
    options = HttpOptions(urls=("http://h/v1",), model="m")
    with pytest.raises(ConfigError, match="holds characters that no key has") as caught:
        HttpEncoder(options, api_key="geheim\nX: ü")
    assert "geheim" not in str(caught.value)


def test_fewer_dimensions_are_asked_for_in_every_request(host: EmbeddingHost) -> None:
    encoder = asking(host, dim=None, dimensions=DIM)
    encoder.encode_queries(["castle"])
    encoder.encode_items([text_item("a", ["Castle."])])
    assert {each.body["dimensions"] for each in host.asked} == {DIM}
    asking(host).encode_queries(["castle"])
    assert "dimensions" not in host.asked[-1].body


def test_a_server_that_cannot_give_fewer_dimensions_blames_no_item() -> None:
    no = refuses(400, "Model m does not support matryoshka representation, changing dimensions")
    with scripted(no) as host:
        with pytest.raises(ServerError, match=r"matryoshka.*unset encoder\.dim.*--hf-overrides"):
            asking(host, dimensions=2).encode_items(many(3))
        assert len(host.asked) == 1
