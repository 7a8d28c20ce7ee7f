"""A chat server that does everything wrong; `benchmarks/chaos_llm.py` asks it 1,000 questions."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import ChatRequest
from canopy_rag.llms import _bounds
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import ChatServer, Served, says
from canopy_rag.testing.llm_contract import ask

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 120.0
SLOW = {"silence", "drop by drop", "blank lines without end", "late but right", "too many requests"}
"""Faults that cost their time-outs; the campaign has them."""


@pytest.fixture(scope="module")
def chaos() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("chaos_llm", ROOT / "benchmarks/chaos_llm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chaos_llm"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["chaos_llm"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts what is open in /proc")
async def test_every_question_ends_and_every_departure_is_on_record(
    chaos: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("CANOPY_") or name == "OPENAI_API_KEY":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    n = 40
    with chaos.ChaosServer(only=sorted(set(chaos.FAULTS) - SLOW)) as server:
        async with asyncio.timeout(4 * BOUND_S):
            found = await chaos.campaign(n, server, tmp_path)
    assert (found["hung"], found["crashed"], found["crashes"]) == (0, 0, [])
    assert found["answered"] + found["typed_errors"] == n
    assert min(found["answered"], found["typed_errors"]) > 0
    assert found["fallbacks"].keys() >= {"critic", "router"}
    assert found["unrecorded"] == {}
    for what in ("tasks", "descriptors"):
        assert found["after"][what] <= found["before"][what]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        "a body without end",
        "a stream without end",
        "blank lines without end",
        "drop by drop",
        "a gzip bomb",
        "a redirect elsewhere",
        "no http",
    ],
)
async def test_no_reply_keeps_a_call_for_ever(
    chaos: ModuleType, monkeypatch: pytest.MonkeyPatch, fault: str, streamed: bool
) -> None:
    monkeypatch.setattr(chaos, "TIMEOUT_S", 0.5)  # what "in time" means to the server
    with chaos.ChaosServer(only=[fault]) as server:
        chat = OpenAIChat(server.url, "m", timeout_s=2.0, max_retries=0)
        request = ask("Of question 2: how?", max_tokens=8)
        call = read(chat, request) if streamed else chat.complete(request)
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(LLMError, match="http://127"):
                await call
        await chat.aclose()


async def read(chat: OpenAIChat, request: ChatRequest) -> list[str]:
    return [piece async for piece in chat.stream(request)]


async def completed(served: Served) -> str:
    with ChatServer(served) as server:
        chat = OpenAIChat(server.url, "m", max_retries=0)
        try:
            return (await chat.complete(ask("Hello"))).text
        finally:
            await chat.aclose()


def packed(served: Served, content: bytes, name: str) -> Served:
    return Served(body=content, headers={**served.headers, "Content-Encoding": name})


async def test_a_reply_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounds, "REPLY_BYTES", 5_000_000)
    assert len(await completed(says("x" * 4_000_000))) == 4_000_000
    with pytest.raises(LLMError, match="longer than 5 MB"):
        await completed(says("x" * 6_000_000))


@pytest.mark.parametrize("name", ["gzip", "x-gzip"])
async def test_a_zipped_reply_is_unpacked_up_to_the_same_length(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(_bounds, "REPLY_BYTES", 5_000_000)
    well, bomb = says("zipped"), says("x" * 6_000_000)
    assert await completed(packed(well, gzip.compress(well.body), name)) == "zipped"
    with pytest.raises(LLMError, match="longer than 5 MB"):
        await completed(packed(bomb, gzip.compress(bomb.body), name))


async def test_a_reply_packed_otherwise_or_wrongly_is_told() -> None:
    with pytest.raises(LLMError, match="packed as 'br', which nobody asked for"):
        await completed(packed(says("x"), b"\x0b\x02\x80", "br"))
    with pytest.raises(LLMError, match="does not unpack"):
        await completed(packed(says("x"), b"no gzip", "gzip"))


async def test_replies_are_asked_for_unpacked() -> None:
    with ChatServer(says("x")) as server:
        chat: Any = OpenAIChat(server.url, "m")
        await chat.complete(ask("Hello"))
        await chat.aclose()
        assert server.chats[0].headers["accept-encoding"] == "identity"
