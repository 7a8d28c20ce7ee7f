"""What a client can do with a connection before and after it asks: real sockets on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from canopy_rag.server import serving
from canopy_rag.server.connections import Stuck

WAIT_S = 30.0
HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), WAIT_S)


def ends(client: socket.socket) -> bytes:
    """Return what still comes until the server closes; fails if it does not."""
    parts = []
    while part := client.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def wait_until(met: Callable[[], bool]) -> bool:
    pause = threading.Event()
    return any(met() or pause.wait(0.05) for _ in range(600))


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT_S", 0.2)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("sent", [b"", b"GET", HEAD], ids=["nothing", "a word", "half a head"])
def test_who_does_not_finish_a_head_is_cut_off(served: Any, sent: bytes) -> None:
    with served() as url, connected(url) as client:
        client.sendall(sent)
        assert ends(client) == b""


@pytest.mark.usefixtures("_impatient")
def test_drops_of_a_head_give_no_further_time(served: Any) -> None:
    with served() as url, connected(url) as client:
        client.settimeout(0.02)
        client.sendall(HEAD)
        assert any(is_cut_off(client, b"X-Slow: 1\r\n") for _ in range(1000))


def is_cut_off(client: socket.socket, drop: bytes) -> bool:
    try:
        client.sendall(drop)
        return client.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.usefixtures("_impatient")
def test_the_second_head_on_a_connection_has_no_more_time_than_the_first(served: Any) -> None:
    with served() as url, connected(url) as client:
        client.sendall(HEAD + b"\r\n")
        said = client.recv(65_536)
        assert said.startswith(b"HTTP/1.1 200")
        client.sendall(HEAD)
        assert b"HTTP/1.1" not in ends(client)


@pytest.mark.usefixtures("_impatient")
def test_a_request_that_works_for_long_is_not_cut_off(
    served: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = type(index).search

    def slow(self: Any, query: str, **options: Any) -> Any:
        if query == "coffee":
            threading.Event().wait(0.6)
        return plain(self, query, **options)

    monkeypatch.setattr(type(index), "search", slow)
    with served() as url:
        reply = httpx.post(f"{url}/v1/search", json={"query": "coffee"}, timeout=WAIT_S)
    assert reply.status_code == 200


def test_more_clients_than_the_limit_are_sent_away_and_may_come_back(served: Any) -> None:
    with served(server__max_connections=2) as url:
        first, second = connected(url), connected(url)
        for each in (first, second):  # so that both are there before the third
            each.sendall(HEAD + b"\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 200")
        with connected(url) as third:
            head, _, body = ends(third).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 1" in head
        assert json.loads(body)["error"]["type"] == "overloaded"
        first.close()
        second.close()
        assert wait_until(lambda: httpx.get(f"{url}/health").status_code == 200)


class Client:
    """A connection as far as `Stuck` looks at it; it is its own transport."""

    def __init__(self, *, closing: bool) -> None:
        self.transport = self
        self.closing = closing
        self.aborted = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True


def test_a_connection_that_closes_for_too_long_is_cut() -> None:
    clients = [Client(closing=False), Client(closing=True)]
    stuck = Stuck(10.0)
    for now, cut in ((100.0, False), (109.0, False), (110.0, True)):
        stuck.cut(clients, now)
        assert [each.aborted for each in clients] == [False, cut]


def test_a_connection_that_is_gone_is_forgotten() -> None:
    stuck = Stuck(10.0)
    stuck.cut([Client(closing=True)], 100.0)
    stuck.cut([], 200.0)
    assert not stuck._since


def test_who_takes_nothing_of_a_reply_holds_no_connection(served: Any) -> None:
    with served(server__write_timeout_s=0.3) as url, connected(url) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(HEAD + b"\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        # As many requests as go out, none of whose replies is read.
        client.setblocking(False)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        rest = request * 2000
        while rest:
            try:
                rest = rest[client.send(rest) :]
            except BlockingIOError:
                break
        connections = served.server.server_state.connections
        assert len(connections) == 1
        assert wait_until(lambda: not connections)
