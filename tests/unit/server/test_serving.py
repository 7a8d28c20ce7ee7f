from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from canopy_rag._listening import listen
from canopy_rag.core.errors import ConfigError
from canopy_rag.server.serving import url_of

KEY = "a-key-of-the-tests"


def started(*arguments: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from canopy_rag.cli import main; main()", "serve", "--json"]
    return subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    )


def test_the_command_serves_until_it_is_told_to_stop_and_logs_no_key(folder: Path) -> None:
    process = started("--index", str(folder), "--port", "0", CANOPY_SERVER_API_KEY=KEY)
    try:
        assert process.stdout is not None
        about = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=about["url"], headers=headers) as client:
            found = client.post("/v1/search", json={"query": "coffee"}).json()
            client.get(f"/{KEY}", params={"key": KEY})
        host, port = about["url"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            smuggled = f"GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {KEY}\x0b\r\n{KEY}: 1\r\n"
            connection.sendall(f"{smuggled}\r\n".encode())
            connection.recv(1000)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert found["items"]
    assert (about["key"], about["uploads"]) == (True, False)
    assert process.returncode == 0, err
    assert out == ""
    assert "POST /v1/search 200" in err
    assert KEY not in err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--host", "0.0.0.0"], "CANOPY_SERVER_API_KEY"),
        (["--host", "no.such.host.invalid", "--api-key", "x"], "--port"),
        (["--allow-origin", "evil"], "origin"),
        (["--port", "70000"], "--port"),
        (["--port", "-1"], "server.port"),
    ],
)
def test_settings_that_cannot_work_are_wrong_usage(
    folder: Path, arguments: list[str], word: str
) -> None:
    process = started("--index", str(folder), *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert out == ""
    assert word in err
    assert "Traceback" not in err


def test_without_an_index_nothing_is_served(tmp_path: Path) -> None:
    process = started("--index", str(tmp_path / "none"), "--port", "0")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "no index" in err
    assert out == ""


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            listen("127.0.0.1", port)


def test_the_address_is_one_that_a_browser_here_can_open() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_reply_is_not_held_back_until_its_head_is_acknowledged() -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as listener:
        async with await asyncio.start_server(answer, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            assert await asyncio.wait_for(accepted, 30) != 0
            writer.close()


def test_what_runs_ends_before_the_server_does(
    served: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = threading.Event(), threading.Event()
    plain = type(index).search

    def slow(self: Any, query: str, **options: Any) -> Any:
        if query == "coffee":
            begun.set()
            assert release.wait(30)
        return plain(self, query, **options)

    monkeypatch.setattr(type(index), "search", slow)
    replies: list[Any] = []
    with served() as url:

        def ask() -> None:
            replies.append(httpx.post(f"{url}/v1/search", json={"query": "coffee"}, timeout=60))

        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(30)
        served.server.should_exit = True
        threading.Timer(0.3, release.set).start()
        asking.join(30)
    assert [each.status_code for each in replies] == [200]


def test_a_client_that_stops_in_the_middle_of_a_request_holds_nobody_up(served: Any) -> None:
    with served(server__max_searches=1, server__threads=1) as url:
        host, port = url.removeprefix("http://").split(":")
        stuck = [socket.create_connection((host, int(port))) for _ in range(20)]
        head = b"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        for number, each in enumerate(stuck):
            each.sendall(head if number % 2 else head + b"Content-Length: 100\r\n\r\n{")
        reply = httpx.post(f"{url}/v1/search", json={"query": "coffee"}, timeout=30)
        for each in stuck:
            each.close()
        again = httpx.post(f"{url}/v1/search", json={"query": "tea"}, timeout=30)
    assert (reply.status_code, again.status_code) == (200, 200)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
    ],
    ids=["no host", "two hosts", "two lengths", "long line", "tls", "nul"],
)
def test_a_request_that_is_none_is_refused_and_the_server_lives(served: Any, raw: bytes) -> None:
    with served() as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            reply = b""
            while chunk := connection.recv(65536):
                reply += chunk
        assert reply == b"" or reply.startswith(b"HTTP/1.1 4"), reply[:200]
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_refused_name_is_refused_on_a_socket_too(served: Any) -> None:
    with served() as url:
        reply = httpx.get(f"{url}/v1/models", headers={"Host": "rebound.example"})
    assert reply.status_code == 421
