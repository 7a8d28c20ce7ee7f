from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.server.admission import Gate
from canopy_rag.server.errors import ApiError
from canopy_rag.server.replies import EventStream
from canopy_rag.testing.scripted import ScriptedLLM

ENOUGH = '{"sufficient": true, "follow_up": ""}'
MORE = '{"sufficient": false, "follow_up": "harbour fee in pounds"}'
PLAIN = {"retrieval__aggregate": False}


def events_of(text: str) -> list[tuple[str, Any]]:
    """Return the events of a stream in order, comments left out."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(": ")[0] for line in lines] == ["event", "data"]
            name, data = (line.partition(": ")[2] for line in lines)
            found.append((name, json.loads(data)))
    return found


async def test_an_answer_is_the_answer_object(client_of: Any) -> None:
    async with client_of() as client:
        reply = await client.post("/v1/ask", json={"question": "What is the harbour fee?", "k": 3})
    answer = reply.json()
    assert reply.status_code == 200
    assert answer["question"] == "What is the harbour fee?"
    assert answer["stop"] == "no_critic"
    assert len(answer["rounds"][0]["hits"]) == 3
    numbers = {f["n"] for each in answer["evidence"]["items"] for f in each["fragments"]}
    assert {each["fragment"] for each in answer["citations"]} <= numbers


async def test_a_stream_brings_evidence_then_tokens_then_the_answer(client_of: Any) -> None:
    llm = ScriptedLLM(("sufficient", ENOUGH), ("", "It is 12 pounds [1]."))
    async with client_of(llm=llm, **PLAIN) as client:
        body = {"question": "What is the harbour fee?", "stream": True}
        reply = await client.post("/v1/ask", json=body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply.text)
    names = [name for name, _ in events]
    assert names[0] == "evidence"
    assert set(names[1:-1]) == {"token"}
    assert names[-1] == "answer"
    assert "".join(data for name, data in events if name == "token") == "It is 12 pounds [1]."
    answer = events[-1][1]
    assert answer["text"] == "It is 12 pounds [1]."
    assert answer["citations"] == [{"n": 1, "fragment": 1}]
    assert answer["evidence"] == events[0][1]
    llm.assert_done()


async def test_rounds_are_told_while_they_go_on_if_wanted(client_of: Any) -> None:
    llm = ScriptedLLM(("", MORE), ("", ENOUGH), ("", "It is 12 pounds."))
    async with client_of(llm=llm, **PLAIN) as client:
        body = {"question": "coffee?", "stream": True, "progress": True, "k": 2}
        reply = await client.post("/v1/ask", json=body)
    events = events_of(reply.text)
    rounds = [data for name, data in events if name == "round"]
    assert [each["number"] for each in rounds] == [1, 1, 2, 2]
    assert [each["verdict"] and each["verdict"]["sufficient"] for each in rounds] == [
        None, False, None, True,
    ]  # fmt: skip
    assert [name for name, _ in events][4] == "evidence"
    assert events[-1][1]["rounds"] == [rounds[1], rounds[3]]


async def test_fields_change_one_answer_alone(client_of: Any) -> None:
    async with client_of() as client:
        few = (await client.post("/v1/ask", json={"query": "coffee", "k": 1})).json()
        many = (await client.post("/v1/ask", json={"query": "coffee"})).json()
    assert (len(few["rounds"][0]["hits"]), len(many["rounds"][0]["hits"])) == (1, 10)


async def test_routing_without_a_model_is_a_wrong_request(client_of: Any, said: Any) -> None:
    async with client_of() as client:
        reply = await client.post("/v1/ask", json={"query": "coffee", "route": True})
    assert reply.status_code == 400
    assert "--llm" in said(reply)["message"]


async def test_a_model_that_fails_is_told_with_a_status_or_as_the_last_event(
    client_of: Any, said: Any
) -> None:
    failed = LLMError("the chat server said no (503)", status=503, retryable=True)
    for stream in (False, True):
        llm = ScriptedLLM(("", failed))
        async with client_of(llm=llm, retrieval__rounds=1, **PLAIN) as client:
            body = {"question": "What is the harbour fee?", "stream": stream}
            reply = await client.post("/v1/ask", json=body)
        if stream:
            assert reply.status_code == 200
            names = [name for name, _ in events_of(reply.text)]
            assert names == ["evidence", "error"]
            error = events_of(reply.text)[-1][1]["error"]
        else:
            assert reply.status_code == 502
            error = said(reply)
        assert error["type"] == "model_error"
        assert "503" in error["message"]


class Stuck:
    """A chat model that answers nothing until it is cancelled."""

    name, context_tokens, vision = "stuck", 8192, False

    def __init__(self) -> None:
        self.asked, self.cancelled = asyncio.Event(), asyncio.Event()

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        yield (await self.complete(request)).text

    async def count_tokens(self, text: str) -> int | None:
        return None

    async def media_tokens(self, width: int, height: int) -> int | None:
        return None

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_vanishes_ends_the_work_and_frees_its_place(
    app_of: Any, scope_of: Any, path: str, stream: bool
) -> None:
    llm = Stuck()
    app = app_of(llm=llm, retrieval__rounds=1, server__max_answers=1, **PLAIN)
    question = "What is the harbour fee?"
    message = {"role": "user", "content": question}
    body: dict[str, Any] = {"question": question, "stream": stream}
    if path != "/v1/ask":
        body = {"model": "canopy", "messages": [message], "stream": stream}
    gone = asyncio.Event()
    raw = json.dumps(body).encode()
    messages = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        pass

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = scope_of("POST", path, headers)
    running = asyncio.ensure_future(app(scope, receive, send))
    await llm.asked.wait()
    gone.set()
    await asyncio.wait_for(running, 10)
    await asyncio.wait_for(llm.cancelled.wait(), 10)
    place = app._app.state.service.answers.enter()
    place.release()


async def test_a_client_that_takes_nothing_holds_no_place() -> None:
    gate = Gate("answers", 1)
    done = asyncio.Event()

    async def produce(emit: Callable[[bytes], None]) -> None:
        for number in range(1000):
            emit(b"%d" % number)
        done.set()

    stream = EventStream(produce, failed=lambda error: b"", slot=gate.enter(), timeout_s=10)
    stuck = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        await stuck.wait()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    sending = asyncio.ensure_future(stream({"type": "http"}, receive, send))
    await asyncio.wait_for(done.wait(), 10)
    while gate.n:
        await asyncio.sleep(0)
    assert not sending.done()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_reply_that_is_not_taken_is_given_up(app_of: Any, scope_of: Any) -> None:
    app = app_of(server__write_timeout_s=0.05)
    sent: list[str] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])
        await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    scope = scope_of("GET", "/health", [(b"host", b"127.0.0.1")])
    await asyncio.wait_for(app(scope, receive, send), 10)
    assert sent == ["http.response.start"]


async def test_a_stream_that_takes_too_long_ends_with_an_error() -> None:
    gate = Gate("answers", 1)
    sent: list[bytes] = []

    async def produce(emit: Callable[[bytes], None]) -> None:
        emit(b"first")
        await asyncio.Event().wait()

    def failed(error: ApiError) -> bytes:
        return str(error.status).encode()

    stream = EventStream(produce, failed=failed, slot=gate.enter(), timeout_s=0.05)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    await asyncio.wait_for(stream({"type": "http"}, receive, send), 10)
    assert sent[2:] == [b"first", b"504", b""]
    assert gate.n == 0


async def test_too_many_questions_are_sent_away(client_of: Any, said: Any) -> None:
    llm = Stuck()
    options = {"llm": llm, "server__max_answers": 1, "retrieval__rounds": 1, **PLAIN}
    async with client_of(**options) as client:
        body = {"question": "What is the harbour fee?"}
        running = asyncio.ensure_future(client.post("/v1/ask", json=body))
        await llm.asked.wait()
        streamed = await client.post("/v1/ask", json={**body, "stream": True})
        chat = {"model": "canopy", "messages": [{"role": "user", "content": "x"}]}
        chatted = await client.post("/v1/chat/completions", json=chat)
        searched = await client.post("/v1/search", json={"query": "coffee"})
        running.cancel()
    for refused in (streamed, chatted):
        assert refused.status_code == 503
        assert said(refused)["type"] == "overloaded"
        assert "retry-after" in refused.headers
    assert searched.status_code == 200


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_busy_chat_model_is_an_overload_and_may_be_asked_again(
    client_of: Any, streamed: bool
) -> None:
    busy = LLMError("9 requests wait", status=429, retryable=True)
    llm = ScriptedLLM(("", ENOUGH), ("", busy))
    async with client_of(llm=llm, **PLAIN) as client:
        reply = await client.post("/v1/ask", json={"query": "coffee", "stream": streamed})
    if streamed:
        (name, said) = events_of(reply.text)[-1]
        assert (name, said["error"]["type"]) == ("error", "overloaded")
    else:
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert reply.json()["error"]["type"] == "overloaded"
