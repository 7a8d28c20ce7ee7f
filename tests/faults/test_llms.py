"""What real servers do to a client: one fault after the other, then all of them in one batch.

Deadlines are short, and no test waits for longer than `BOUND_S`, whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import (
    ChatServer,
    Received,
    Served,
    echoes,
    refuses,
    says,
    sends,
    streams,
)
from canopy_rag.testing.llm_contract import SCHEMA, ask

BOUND_S = 120.0
TIMEOUT_S = 1.0
"""Silence that counts as one; far above what a busy machine needs for a reply."""
BATCH_TIMEOUT_S = 3.0
"""The same where 32 calls share the machine with their server."""
TWO_MB = "canopy " * 300_000
EVENTS = {"Content-Type": "text/event-stream"}

Make = Callable[..., OpenAIChat]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Make chats that hardly wait, and close them."""
    made: list[OpenAIChat] = []

    def make(*urls: str, **options: object) -> OpenAIChat:
        defaults = {"model": "m", "backoff_s": 0.001, "timeout_s": TIMEOUT_S, "max_retries": 2}
        made.append(OpenAIChat(urls, **(defaults | options)))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


def free_port_url() -> str:
    """Return the URL of a port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


async def outcome(chat: OpenAIChat, request: ChatRequest, *, streamed: bool = False) -> str:
    """Return the reply, or the error's message; any other exception passes."""
    try:
        async with asyncio.timeout(BOUND_S):
            if streamed:
                return "".join([piece async for piece in chat.stream(request)])
            return (await chat.complete(request)).text
    except LLMError as error:
        return f"error: {error}"


# Faults that end with an error that says what happened


LASTING = [
    pytest.param(Served(hangs=True), r"did not answer within", id="silence"),
    pytest.param(Served(body=b'{"choices', stalls=True), r"did not answer within", id="stalls"),
    pytest.param(Served(body=b'{"choices', resets=True), r"broke the connection off", id="reset"),
    pytest.param(Served(body=b'{"choices', breaks=True), r"broke the connection off", id="cut"),
    pytest.param(Served(body=b'{"choices": [{"mes'), r"JSON that does not parse", id="half JSON"),
    pytest.param(refuses(500, "kaputt"), r"HTTP 500: .*kaputt", id="500"),
    pytest.param(refuses(429, "slow down", Retry_After="0"), r"HTTP 429: .*slow", id="429"),
]


@pytest.mark.parametrize(("served", "told"), LASTING)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_lasting_fault_ends_with_an_error_that_names_server_and_fault(
    make: Make, served: Served, told: str, streamed: bool
) -> None:
    silent = served.hangs or served.stalls  # then no time is short enough to tell it wrongly
    timeout_s = 0.2 if silent else TIMEOUT_S
    with ChatServer(then=lambda _: served) as server:
        chat = make(server.url, max_retries=1, timeout_s=timeout_s)
        ended = await outcome(chat, ask("Hello"), streamed=streamed)
        server.release()
        assert re.search(told, ended)
        assert server.url in ended
        assert len(server.chats) == 2


@pytest.mark.parametrize(("served", "told"), LASTING)
async def test_a_passing_fault_is_survived(make: Make, served: Served, told: str) -> None:
    with ChatServer(served, then=echoes) as server:
        assert await outcome(make(server.url), ask("Hello")) == "you said: Hello"
        server.release()
        assert len(server.chats) == 2


async def test_a_refused_connection_is_told_and_survived_by_another_server(make: Make) -> None:
    dead = free_port_url()
    assert f"{dead} cannot be reached" in await outcome(make(dead), ask("Hello"))
    with ChatServer(then=echoes) as server:
        chat = make(dead, server.url)
        for _ in range(4):
            assert await outcome(chat, ask("Hello")) == "you said: Hello"


async def test_an_empty_reply_is_an_error_at_once(make: Make) -> None:
    with ChatServer(says("  ")) as server:
        assert "an empty text" in await outcome(make(server.url), ask("Hello"))
        assert len(server.chats) == 1


# Faults in the middle of a stream


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"resets": True}, "broke the connection off", id="reset"),
        pytest.param({"breaks": True}, "broke the connection off", id="cut"),
        pytest.param({"stalls": True}, "did not answer within 1 s", id="silence"),
    ],
)
async def test_a_stream_that_breaks_keeps_what_came_and_says_so(
    make: Make, changes: dict[str, bool], told: str
) -> None:
    begun = streams("Paris", " is", finish_reason=None, done=False)
    with ChatServer(Served(body=begun.body, headers=EVENTS, **changes)) as server:
        stream = make(server.url).stream(ask("Capital?"))
        assert [await anext(stream), await anext(stream)] == ["Paris", " is"]
        with pytest.raises(LLMError, match=told) as caught:
            await anext(stream)
        server.release()
        assert len(server.chats) == 1, "what was shown is not asked for again"
    assert caught.value.retryable


async def test_a_stream_of_comments_alone_does_not_keep_a_question_alive() -> None:
    """A proxy may comment for ever while the model behind it is gone."""
    stopped = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while not stopped.wait(0.02):
                try:
                    connection.sendall(b": still here\n\n")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    chat = OpenAIChat(
        f"http://127.0.0.1:{listener.getsockname()[1]}", "m", timeout_s=0.3, max_retries=0
    )
    try:
        ended = await outcome(chat, ask("Hello"), streamed=True)
        assert "did not answer within 0.3 s" in ended
    finally:
        stopped.set()
        thread.join()
        listener.close()
        await chat.aclose()


# Replies that are whole, but not what was asked for: they come back as they are


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"sufficient": tr', id="truncated JSON"),
        pytest.param('Sure! {"sufficient": true} Hope that helps.', id="JSON with prose"),
        pytest.param('```json\n{"sufficient": true}\n```', id="fenced JSON"),
        pytest.param('{"enough": 1}', id="wrong schema"),
        pytest.param("[" * 5000, id="nesting"),
        pytest.param("Ja, das genügt. 充分です。", id="another language"),
        pytest.param("a\u2028b\x00c\ud7ff", id="odd characters"),
        pytest.param(TWO_MB, id="2 MB"),
    ],
)
async def test_a_reply_beside_the_schema_is_left_to_the_parser_unchanged(
    make: Make, text: str
) -> None:
    request = ask("Enough?", schema_name="critic", schema=SCHEMA)
    with ChatServer(says(text), streams(text)) as server:
        chat = make(server.url, timeout_s=30.0)
        assert await outcome(chat, request) == text
        assert await outcome(chat, ask("Enough?"), streamed=True) == text


async def test_a_web_page_of_2_mb_is_told_in_a_line(make: Make) -> None:
    page = f"<html><body>{'<p>' * 10}{TWO_MB}</body></html>".encode()
    with ChatServer(Served(body=page, headers={"Content-Type": "text/html"})) as server:
        ended = await outcome(make(server.url, timeout_s=30.0), ask("Hello"))
    assert "no JSON: a web page: canopy" in ended
    assert len(ended) < 600


# All at once


N_CALLS = 200
FAULTS: dict[str, Served] = {
    "silence": Served(hangs=True),
    "stall": Served(body=b'{"choices', stalls=True),
    "reset": Served(body=b'{"choices', resets=True),
    "cut": Served(body=b'{"choices', breaks=True),
    "500": refuses(500, "kaputt"),
    "429": refuses(429, "slow down", Retry_After="0"),
    "half JSON": Served(body=b'{"choices": [{"mes'),
    "empty": says(""),
    "401": refuses(401, "bad key"),
    "400": refuses(400, "too long"),
    "no choices": sends({"choices": []}),
    "page": Served(body=b"<html>Welcome</html>"),
}
TOLD = {
    "silence": "did not answer",
    "stall": "did not answer",
    "reset": "broke the connection off",
    "cut": "broke the connection off",
    "500": "HTTP 500",
    "429": "HTTP 429",
    "half JSON": "does not parse",
    "empty": "an empty text",
    "401": "HTTP 401",
    "400": "HTTP 400",
    "no choices": "without `choices`",
    "page": "a web page",
}


def fault_of(call: int) -> str | None:
    """Return the fault of every call: two of three have none."""
    faults = sorted(FAULTS)
    return faults[call // 3 % len(faults)] if call % 3 == 0 else None


def hostile(received: Received) -> Served:
    """Reply to `call N` with its own fault, the same at every attempt, or with an echo."""
    prompt = received.body["messages"][-1]["content"]
    fault = fault_of(int(prompt.split()[1]))
    return echoes(received) if fault is None else FAULTS[fault]


@pytest.mark.slow
@pytest.mark.parametrize("n_servers", [1, 2])
async def test_in_a_batch_every_call_ends_with_its_own_reply_or_its_own_error(
    make: Make, n_servers: int
) -> None:
    with ChatServer(then=hostile) as first, ChatServer(then=hostile) as second:
        urls = [first.url, second.url][:n_servers]
        chat = make(*urls, max_retries=0, timeout_s=BATCH_TIMEOUT_S)
        ended = await asyncio.gather(
            *(outcome(chat, ask(f"call {n}"), streamed=n % 2 == 1) for n in range(N_CALLS))
        )
        first.release()
        second.release()
    for call, text in enumerate(ended):
        fault = fault_of(call)
        if fault is None:
            assert text == f"you said: call {call}"
        else:
            assert text.startswith("error: http://127.0.0.1:")
            assert TOLD[fault] in text
    told = Counter(text.startswith("error:") for text in ended)
    assert told == {True: 67, False: 133}


@pytest.mark.slow
async def test_a_dead_and_a_silent_server_cost_a_batch_no_reply(make: Make) -> None:
    with (
        ChatServer(then=lambda _: Served(hangs=True)) as silent,
        ChatServer(then=echoes) as well,
    ):
        chat = make(
            free_port_url(), silent.url, well.url, max_in_flight=8, timeout_s=BATCH_TIMEOUT_S
        )
        ended = await asyncio.gather(*(outcome(chat, ask(f"call {n}")) for n in range(N_CALLS)))
        silent.release()
        assert ended == [f"you said: call {n}" for n in range(N_CALLS)]
        assert len(silent.chats) <= 8, "it is left out once it has let calls down"


async def test_once_a_server_has_long_been_silent_no_call_is_tried_again(make: Make) -> None:
    with ChatServer(then=lambda _: Served(hangs=True)) as server:
        chat = make(server.url, timeout_s=0.2, max_retries=5)
        first = await outcome(chat, ask("Hello"))
        n_first = len(server.chats)
        second = await outcome(chat, ask("Hello"))
        server.release()
        assert "did not answer" in first
        assert "did not answer" in second
        assert n_first < 6
        assert len(server.chats) == n_first + 1


async def test_a_cancelled_batch_leaves_nothing_behind(make: Make) -> None:
    with ChatServer(then=lambda _: Served(hangs=True)) as server:
        chat = make(server.url, timeout_s=30.0, max_in_flight=4)
        calls = [asyncio.create_task(chat.complete(ask(f"call {n}"))) for n in range(12)]
        await asyncio.to_thread(server.wait_for, 4)
        for call in calls:
            call.cancel()
        async with asyncio.timeout(BOUND_S):
            ended = await asyncio.gather(*calls, return_exceptions=True)
        server.release()
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    with ChatServer(then=echoes) as server:
        again = make(server.url)
        reply: Completion = await again.complete(ask("Hello"))
        assert reply.text == "you said: Hello"


@pytest.mark.slow
async def test_no_key_and_no_prompt_is_in_any_message(make: Make) -> None:
    key = "sk-very-secret"
    with ChatServer(then=hostile) as server:
        chat = make(server.url, max_retries=0, api_key=key, timeout_s=BATCH_TIMEOUT_S)
        ended = await asyncio.gather(*(outcome(chat, ask(f"call {n}")) for n in range(0, 36, 3)))
        server.release()
    assert len(ended) == len(FAULTS)
    assert key not in json.dumps(ended)
    assert "call " not in json.dumps(ended)
