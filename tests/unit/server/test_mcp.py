from __future__ import annotations

from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

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
