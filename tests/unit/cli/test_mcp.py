"""`canopy mcp` as agents meet it: a process at the end of a pipe, a port on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="needs the extra `mcp`")

import httpx2
from mcp import Client, StdioServerParameters, stdio_client

COMMAND = ["-c", "from canopy_rag.cli import main; main()", "mcp"]
QUERY = "When are pears picked?"


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


async def check_all(client: Client) -> None:
    """Search in a session, ask, read the source and the resource."""
    found = await client.call_tool("search_evidence", {"query": QUERY, "session": "s"})
    assert not found.is_error, found.content
    items = found.structured_content["evidence"]["items"]
    texts = [f["text"] for item in items for f in item["fragments"]]
    assert any("Pears are picked in September." in text for text in texts if text)
    again = await client.call_tool("search_evidence", {"query": QUERY, "session": "s"})
    assert again.structured_content["n_new"] == 0
    answer = await client.call_tool("ask", {"question": QUERY})
    assert "Pears are picked in September." in answer.content[0].text
    source = await client.call_tool("read_source", {"item": items[0]["id"]})
    assert "Apples are picked in October." in source.structured_content["text"]
    resource = await client.read_resource(items[0]["resource"])
    assert "Apples are picked in October." in resource.contents[0].text


@pytest.mark.slow
async def test_over_stdio_stdout_is_the_protocols_alone(index: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "--index", index, "--quiet"], env=environment()
    )
    async with Client(stdio_client(server)) as client:
        await check_all(client)


@pytest.fixture(scope="module")
def address(index: str) -> Iterator[str]:
    """A server on a free port."""
    command = [sys.executable, *COMMAND, "--index", index, "--transport", "http", "--port", "0"]
    with subprocess.Popen(
        [*command, "--json", "--quiet"], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(30) in (0, -15)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_clients_of_either_protocol_are_served(address: str, mode: str) -> None:
    async with Client(address, mode=mode) as client:
        await check_all(client)


@pytest.mark.slow
async def test_over_http_connected_clients_do_not_share_a_sessions_name(address: str) -> None:
    async def n_new() -> Any:
        async with Client(address, mode="legacy") as client:
            arguments = {"query": QUERY, "session": "mine"}
            found = await client.call_tool("search_evidence", arguments)
            return found.structured_content["n_new"]

    assert await n_new() == await n_new() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("Host", "evil.example", 421), ("Origin", "http://evil.example", 403)],
)
def test_over_http_names_of_other_machines_are_refused(
    address: str, header: str, value: str, status: int
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    assert httpx2.post(address, json=call, headers={header: value} | accept).status_code == status


def test_other_machines_are_not_served(run, index: str) -> None:
    done = run("mcp", "--index", index, "--transport", "http", "--host", "0.0.0.0")
    assert (done.code, done.out) == (2, "")
    assert "listens on this machine alone" in done.err


def test_a_port_that_is_taken_is_told(run, index: str, address: str) -> None:
    port = address.rsplit(":", 1)[1].split("/", maxsplit=1)[0]
    done = run("mcp", "--index", index, "--transport", "http", "--port", port)
    assert done.code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.err


def test_without_an_index_it_says_so(run) -> None:
    done = run("mcp", "--index", "nowhere")
    assert (done.code, done.out) == (1, "")
    assert "nowhere" in done.err
