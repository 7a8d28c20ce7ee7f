from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from mcp import Client

from canopy_rag.integrations.mcp import create_server

KEY = "a-key-of-the-tests"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
TAKES = {"Accept": "application/json, text/event-stream"}


def test_a_tool_has_the_time_of_a_request(app_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def noting(*given: Any, **options: Any) -> Any:
        seen.append(options["timeout_s"])
        return create_server(*given, **options)

    monkeypatch.setattr("canopy_rag.integrations.mcp.create_server", noting)
    app_of(server__timeout_s=7.0)
    assert seen == [7.0]


def test_mcp_is_answered_behind_the_same_guard(served: Any) -> None:
    with served(key=KEY) as url, httpx.Client(base_url=url, headers=TAKES, timeout=30) as client:
        without = client.post("/mcp", json=HELLO)
        right = {"Authorization": f"Bearer {KEY}"}
        rebound = client.post("/mcp", json=HELLO, headers={**right, "Host": "rebound.example"})
        foreign = client.post("/mcp", json=HELLO, headers={**right, "Origin": "http://a.example"})
        reply = client.post("/mcp", json=HELLO, headers=right)
    assert (without.status_code, rebound.status_code, foreign.status_code) == (401, 421, 403)
    assert reply.status_code == 200
    assert '"canopy"' in reply.text


async def test_calls_of_clients_that_have_gone_are_bounded(
    app_of: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []

    def noting(*given: Any, **options: Any) -> Any:
        held.append(create_server(*given, **options))
        return held[-1]

    monkeypatch.setattr("canopy_rag.integrations.mcp.create_server", noting)
    begun, release = threading.Semaphore(0), threading.Event()
    plain = type(index).search

    def slow(self: Any, query: str, **options: Any) -> Any:
        begun.release()
        assert release.wait(30)
        return plain(self, query, **options)

    monkeypatch.setattr(type(index), "search", slow)
    app_of(server__max_searches=2, server__threads=2)
    async with Client(held[0]) as client:
        calls = [
            asyncio.ensure_future(client.call_tool("search_evidence", {"query": "coffee"}))
            for _ in range(2)
        ]
        for _ in calls:
            assert await asyncio.to_thread(begun.acquire, timeout=30)
        calls[0].cancel()  # its client has gone, its thread has not
        third = await client.call_tool("search_evidence", {"query": "coffee"})
        release.set()
        second = await calls[1]
    assert third.is_error
    assert "2 searches are at work" in third.content[0].text
    assert not second.is_error


async def test_questions_by_mcp_have_the_places_of_all_questions(
    app_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []

    def noting(*given: Any, **options: Any) -> Any:
        held.append((create_server(*given, **options), options["answering"]))
        return held[-1][0]

    monkeypatch.setattr("canopy_rag.integrations.mcp.create_server", noting)
    app_of(server__max_answers=1)
    server, answering = held[0]
    async with Client(server) as client, answering():
        refused = await client.call_tool("ask", {"question": "Who made the lamp?"})
    async with Client(server) as client:
        answered = await client.call_tool("ask", {"question": "Who made the lamp?"})
    assert refused.is_error
    assert "1 answers are at work" in refused.content[0].text
    assert not answered.is_error
