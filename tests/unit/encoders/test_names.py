from __future__ import annotations

import pytest

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.encoders.names import parse, without_adapter

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    "name", [f"http:{URL}#org/m", f"{URL}#org/m", f"http:{URL}/#org/m", "http:https://h/v1#org/m"]
)
def test_the_scheme_before_a_url_may_be_left_out(name: str) -> None:
    found = parse(name)
    assert (found.scheme, found.model, found.target) == ("http", "http:org/m", "org/m")
    assert found.urls in {(URL,), ("https://h/v1",)}


def test_a_server_may_have_a_lora_adapter_and_a_map_on_top() -> None:
    found = parse(f"http:{URL}#org/m+lora:canopy+maps/c++")
    assert (found.target, found.lora, found.adapter) == ("org/m", "canopy", "maps/c++")
    assert parse(f"http:{URL}#m+maps/x").adapter == "maps/x"
    assert parse(f"http:{URL}#m+lora:x").adapter is None


def test_several_servers_share_a_model() -> None:
    assert parse("http:http://a/v1,http://b/v1#m").urls == ("http://a/v1", "http://b/v1")


def test_what_makes_an_encoder_again_is_its_name_without_adapter_and_address() -> None:
    assert parse("minilm+x").model == "minilm"
    assert parse("hf:org/m+x").model == "hf:org/m"
    assert parse("qwen3-vl:/models/q+x").model == "qwen3-vl:/models/q"


@pytest.mark.parametrize(
    "name",
    [
        f"http:{URL}",
        f"http:{URL}#",
        f"{URL}#m+",
        f"{URL}#m+lora:",
        f"{URL}#+x",
        "http:m",
        "minilm+",
        "hf:",
    ],
)
def test_a_name_without_one_of_its_parts_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        parse(name)


@pytest.mark.parametrize("name", ["minilmm", "hff:x", "", "minilm:x"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownNameError, match="Known: hf:<model>"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("minilm", "minilm:base"),
        ("minilm:paper", "minilm:base"),
        ("minilm+tuned", "minilm:base"),
        ("minilm:base+tuned", "minilm:base"),
        ("minilm:base", None),
        ("qwen3-vl", None),
        ("qwen3-vl+a/b", "qwen3-vl"),
        ("qwen3-vl:/models/x+a", "qwen3-vl:/models/x"),
        ("hf:owner/model+a", "hf:owner/model"),
        ("hashing", None),
        ("http:http://h/v1#m", None),
        ("http:http://h/v1,http://i/v1#m+lora:canopy", "http:http://h/v1,http://i/v1#m"),
        ("http:http://h/v1#m+lora:canopy+map", "http:http://h/v1#m"),
    ],
)
def test_every_adapter_has_a_name_without_it(name: str, bare: str | None) -> None:
    assert without_adapter(name) == bare
