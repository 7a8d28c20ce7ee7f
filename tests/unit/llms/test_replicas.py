"""Which server is asked next."""

from __future__ import annotations

import pytest

from canopy_rag.llms._replicas import REST_S, Replicas, address


@pytest.mark.parametrize(
    ("base_url", "api", "root"),
    [
        ("http://a:1", "http://a:1/v1", "http://a:1/"),
        ("http://a:1/v1/", "http://a:1/v1", "http://a:1/"),
        ("https://a/openai/v1", "https://a/openai/v1", "https://a/openai"),
        ("https://a/v1beta/openai/", "https://a/v1beta/openai", "https://a/v1beta/openai"),
        ("https://a/llm", "https://a/llm/v1", "https://a/llm"),
        ("http://[::1]:80/v1", "http://[::1]/v1", "http://[::1]/"),
    ],
)
def test_a_base_url_is_completed(base_url: str, api: str, root: str) -> None:
    read = address(base_url)
    assert (str(read.api), str(read.root)) == (api, root)


def test_what_is_shown_of_a_url_holds_no_secret() -> None:
    assert address("https://me:pw@a:8/v1?key=pw").shown == "https://a:8/v1"


def test_equal_servers_take_turns() -> None:
    replicas = Replicas(["http://a", "http://b", "http://c"])
    taken = []
    for _ in range(6):
        taken.append(replicas.take([]))
        replicas.give_back(taken[-1], failed=False)
    assert taken == replicas.all * 2


def test_a_server_that_failed_rests_and_comes_back() -> None:
    now = 0.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first, second = replicas.all
    replicas.give_back(replicas.take([second]), failed=True)
    for _ in range(3):
        assert replicas.take([]) is second
    assert not replicas.has_other([second])
    now = REST_S
    assert replicas.take([]) is first


def test_if_all_rest_one_that_was_not_tried_is_asked() -> None:
    replicas = Replicas(["http://a", "http://b"])
    first, second = replicas.all
    for each, other in ((first, second), (second, first)):
        replicas.give_back(replicas.take([other]), failed=True)
        assert each.rests_until > 0
    assert replicas.take([first]) is second
