"""The encoder over HTTP as a whole: two models, its fingerprint, its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.encoders.serving import (
    DIM,
    KEY,
    asking,
    unit,
    vector_of,
)

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import Fingerprint
from canopy_rag.encoders.http import HttpEncoder, Unaddressed
from canopy_rag.encoders.http_inputs import HttpOptions
from canopy_rag.encoders.registry import from_config
from canopy_rag.encoders.remote_reply import ServerError
from canopy_rag.testing.embedding_server import EmbeddingHost
from canopy_rag.testing.encoder_contract import text_item


@pytest.mark.parametrize("form", ["text", "chat"])
def test_with_an_adapter_items_are_ranked_by_the_base_and_nodes_compared_by_it(
    host: EmbeddingHost, form: str
) -> None:
    encoder = asking(host, form=form, lora="tuned")
    queries = encoder.encode_queries(["castle"])
    assert np.allclose(queries.retrieval[0], unit("castle"), atol=1e-6)
    assert np.allclose(queries.node[0], -unit("castle"), atol=1e-6)
    (found,) = encoder.encode_items([text_item("a", ["Castle."])])
    assert np.allclose(found.item, unit("Castle."), atol=1e-6)
    assert np.allclose(found.nodes.rows[0], -unit("Castle."), atol=1e-3)
    assert {each.body["model"] for each in host.asked} == {"m", "tuned"}


def test_an_adapter_that_the_server_does_not_know_is_told(host: EmbeddingHost) -> None:
    with pytest.raises(ServerError, match="`other` does not exist"):
        asking(host, lora="other").encode_queries(["castle"])


@pytest.mark.parametrize("form", ["text", "chat"])
def test_an_adapter_that_the_server_loaded_without_effect_is_told(form: str) -> None:
    with EmbeddingHost(models={"m": vector_of, "tuned": vector_of}) as host:
        encoder = asking(host, form=form, lora="tuned")
        for asked in (
            lambda: encoder.encode_queries(["castle"]),
            lambda: encoder.encode_items([text_item("a", ["Castle.", "Hill."])]),
        ):
            with pytest.raises(ServerError, match=r"adapter 'tuned' changes no vector"):
                asked()


def test_an_adapter_may_leave_some_vectors_as_they_are() -> None:
    def some(text: str) -> np.ndarray:
        return vector_of(text) * (-1 if text == "castle" else 1)

    with EmbeddingHost(models={"m": vector_of, "tuned": some}) as host:
        found = asking(host, lora="tuned").encode_queries(["castle", "hill"])
        assert (found.retrieval @ found.node.T).diagonal() == pytest.approx([-1, 1], abs=1e-5)


def test_the_fingerprint_needs_no_server_when_the_dimension_is_known() -> None:
    options = HttpOptions(urls=("http://127.0.0.1:9/v1",), model="m")
    found = HttpEncoder(options, dim=7).fingerprint
    assert found == Fingerprint(
        model="http:m", revision="text.1", mode="node", instruction="", dim=7
    )


def test_the_dimension_is_asked_for_once(host: EmbeddingHost) -> None:
    encoder = asking(host, dim=None)
    assert encoder.fingerprint.dim == DIM
    assert encoder.fingerprint.dim == DIM
    encoder.encode_queries([])
    assert len(host.asked) == 1


def test_whatever_vectors_depend_on_is_in_the_fingerprint() -> None:
    def found(**changes: Any) -> Fingerprint:
        options = HttpOptions(urls=("http://h/v1",), model="m")
        return HttpEncoder(replace(options, **changes), dim=DIM).fingerprint

    others = [
        found(model="n"),
        found(lora="tuned"),
        found(form="chat"),
        found(max_tokens=100),
        found(instruction="query: "),
    ]
    assert len({found(), *others}) == 6
    assert found(urls=("http://other/v1",), max_in_flight=1) == found()


def test_the_name_and_the_settings_reach_the_server(host: EmbeddingHost) -> None:
    config = EncoderConfig(
        name=f"http:{host.url}#m+lora:tuned", form="chat", instruction="Find it.", max_tokens=50
    )
    encoder = from_config(config, dim=DIM, api_key=KEY)
    encoder.encode_queries(["castle"])
    assert sorted(each.body["model"] for each in host.asked) == ["m", "tuned"]
    assert host.asked[0].body["messages"][0]["content"][0]["text"] == "Find it."
    assert encoder.fingerprint.revision == "chat.1.50+lora:tuned"


def test_late_pooling_is_not_to_be_had_over_http(host: EmbeddingHost) -> None:
    with pytest.raises(ConfigError, match="encodes each node on its own; use mode 'node'"):
        from_config(EncoderConfig(name=f"http:{host.url}#m", mode="late"))


def test_an_index_whose_server_is_not_named_says_how_to_name_it() -> None:
    print_of = Fingerprint(
        model="http:org/m", revision="text.1", mode="node", instruction="", dim=4
    )
    encoder = Unaddressed(print_of, frozenset({"image"}))
    assert encoder.fingerprint == print_of
    assert encoder.count_tokens("castle hill") == 2
    for call in (encoder.encode_queries, encoder.encode_items):
        with pytest.raises(ConfigError, match=r"--encoder 'http:http://HOST:PORT/v1#org/m'"):
            call([])
