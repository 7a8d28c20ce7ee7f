"""Which server is asked next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from canopy_rag.core.errors import ConfigError
from canopy_rag.llms._replicas import REST_S, Replica, Replicas, address


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


def take(replicas: Replicas, tried: Sequence[Replica]) -> Replica:
    """Take a replica that can be had at once."""
    taking = replicas.take(tried)
    try:
        taking.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        taking.close()
    raise AssertionError("all are full")


def test_equal_servers_take_turns() -> None:
    replicas = Replicas(["http://a", "http://b", "http://c"])
    taken = []
    for _ in range(6):
        taken.append(take(replicas, []))
        replicas.give_back(taken[-1], failed=False)
    assert taken == replicas.all * 2


def test_a_server_that_failed_rests_and_comes_back() -> None:
    now = 0.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first, second = replicas.all
    replicas.give_back(take(replicas, [second]), failed=True)
    for _ in range(3):
        assert take(replicas, []) is second
    assert not replicas.has_other([second])
    now = REST_S
    assert take(replicas, []) is first


def test_if_all_rest_one_that_was_not_tried_is_asked() -> None:
    replicas = Replicas(["http://a", "http://b"])
    first, second = replicas.all
    for each, other in ((first, second), (second, first)):
        replicas.give_back(take(replicas, [other]), failed=True)
        assert each.rests_until > 0
    assert take(replicas, [first]) is second


def down(replicas: Replicas, replica: Replica) -> None:
    """Let a replica fail once."""
    others = [each for each in replicas.all if each is not replica]
    assert take(replicas, others) is replica
    replicas.give_back(replica, failed=True)


def test_a_rest_doubles_with_every_failure_after_it_up_to_a_minute() -> None:
    now = 0.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first = replicas.all[0]
    rests = []
    for _ in range(8):
        down(replicas, first)
        rests.append(first.rests_until - now)
        now = first.rests_until
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]


def test_failures_of_requests_under_way_count_once() -> None:
    replicas = Replicas(["http://a"], clock=lambda: 0.0)
    taken = [take(replicas, []) for _ in range(32)]
    for each in taken:
        replicas.give_back(each, failed=True)
    assert replicas.all[0].rests_until == REST_S


def test_after_its_rest_a_server_gets_one_request_at_a_time_until_one_succeeds() -> None:
    now = 0.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first, second = replicas.all
    down(replicas, first)
    now = REST_S
    assert [take(replicas, []) for _ in range(5)] == [second, first, second, second, second]
    replicas.give_back(first, failed=False)
    assert [take(replicas, []) for _ in range(3)] == [first] * 3


def test_a_server_that_asks_for_a_pause_is_left_out_for_as_long() -> None:
    now = 0.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first, second = replicas.all
    take(replicas, [second])
    replicas.give_back(first, failed=False, pause_s=3.0)
    assert [take(replicas, []) for _ in range(2)] == [second] * 2
    now = 3.0
    assert take(replicas, []) is first


def test_servers_are_lost_when_all_have_only_failed_for_long() -> None:
    now = 5.0
    replicas = Replicas(["http://a", "http://b"], clock=lambda: now)
    first, second = replicas.all
    down(replicas, first)
    now = 20.0
    down(replicas, second)
    assert not replicas.lost(10.0)
    now = 30.0
    assert replicas.lost(10.0)
    replicas.give_back(take(replicas, [second]), failed=False)
    assert not replicas.lost(10.0)


def test_what_is_not_shown_of_a_url_is_kept_for_its_requests() -> None:
    read = address("https://me:p%40w@A.example:8/v1?key=pw")
    assert read.login == ("me", "p@w")
    assert read.query == "key=pw"
    assert read.host == "a.example"
    assert read.beside("tokenize") == "https://a.example:8/tokenize"


@pytest.mark.parametrize("url", ["http://[::1", "http://a:port", "http://a b", "http://me:pw@"])
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"Write it like http://") as caught:
        address(url)
    assert "pw" not in str(caught.value)
