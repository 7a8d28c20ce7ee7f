"""What servers tell about themselves."""

from __future__ import annotations

import json

import pytest

from canopy_rag.llms._describe import context_of_props, described, token_count


def models(*entries: object) -> bytes:
    return json.dumps({"data": list(entries)}).encode()


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"data": 3}', b'{"data": [3]}'])
def test_what_is_no_list_of_models_lists_none(content: bytes) -> None:
    assert described(content, None, "u").model == "default"
    assert described(content, "m", "u").model == "m"


def test_a_named_model_is_found_by_an_alias() -> None:
    content = models({"id": "a"}, {"id": "b", "aliases": ["m"], "max_model_len": 9})
    assert described(content, "m", "u").context_tokens == 9


def test_a_llama_cpp_server_is_recognised() -> None:
    told = described(models({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 9}}), None, "u")
    assert told.llama_cpp
    assert told.context_tokens == 9
    assert context_of_props(b'{"default_generation_settings": {"n_ctx": 4}}') == 4
    assert context_of_props(b"{}") is None


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b'{"tokens": [5, 6]}', 2),
        (b'{"count": 3, "max_model_len": 9, "tokens": [1, 2, 3]}', 3),
        (b'{"tokens": []}', None),
        (b'{"count": "3"}', None),
        (b"nothing", None),
    ],
)
def test_token_counts_are_read_from_both_families_of_servers(
    content: bytes, count: int | None
) -> None:
    assert token_count(content, "text") == count


def test_no_text_has_no_tokens() -> None:
    assert token_count(b'{"tokens": []}', "") == 0
