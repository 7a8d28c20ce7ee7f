"""Retries, replicas, streams and event loops, against scripted servers."""

from __future__ import annotations

import asyncio
import json
import logging
import threading

import pytest
from tests.unit.llms.chats import KEY, Make, collected, dead_url

from canopy_rag.core.errors import LLMError
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import (
    ChatServer,
    Served,
    echoes,
    refuses,
    says,
    sends,
    streams,
)
from canopy_rag.testing.llm_contract import ask

# Retries and replicas


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refuses(429, Retry_After="0"), id="429"),
        pytest.param(refuses(500), id="500"),
        pytest.param(refuses(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), id="503"),
        pytest.param(Served(body=b'{"choices": [{"mess'), id="truncated JSON"),
        pytest.param(Served(body=b'{"cho', breaks=True), id="broken connection"),
        pytest.param(sends({"error": {"message": "busy", "code": 429}}), id="429 inside a 200"),
    ],
)
async def test_a_passing_failure_is_tried_again(make: Make, failure: Served) -> None:
    with ChatServer(failure, says("Hi")) as server:
        assert (await make(server).complete(ask("Hello"))).text == "Hi"
        assert len(server.chats) == 2


async def test_after_the_last_retry_the_last_failure_is_told(make: Make) -> None:
    with ChatServer(then=lambda _: refuses(503, "loading model")) as server:
        with pytest.raises(LLMError, match=r"HTTP 503: .*loading model.*server's log") as caught:
            await make(server, max_retries=2).complete(ask("Hello"))
        assert len(server.chats) == 3
    assert caught.value.status == 503
    assert caught.value.retryable


async def test_a_server_that_asks_for_a_long_pause_is_not_waited_for(make: Make) -> None:
    with ChatServer(refuses(429, Retry_After="3600")) as server:
        with pytest.raises(LLMError, match="asks to wait 3600 s") as caught:
            await make(server).complete(ask("Hello"))
        assert len(server.chats) == 1
    assert caught.value.retryable


async def test_a_server_that_hangs_runs_into_the_timeout(make: Make) -> None:
    with ChatServer(Served(hangs=True)) as server:
        with pytest.raises(LLMError, match=r"did not answer within 0\.1 s") as caught:
            await make(server, timeout_s=0.1, max_retries=0).complete(ask("Hello"))
        server.release()
    assert caught.value.retryable
    assert caught.value.status is None


async def test_a_server_that_is_not_there_is_named(make: Make) -> None:
    url = dead_url()
    with pytest.raises(LLMError, match=f"{url} cannot be reached") as caught:
        await make(url, max_retries=1).complete(ask("Hello"))
    assert caught.value.retryable


async def test_a_failing_replica_is_left_for_another_and_then_rests(make: Make) -> None:
    with (
        ChatServer(refuses(500), refuses(500)) as sick,
        ChatServer(then=echoes) as well,
    ):
        chat = make(sick, well, max_retries=0)
        for _ in range(3):
            await chat.complete(ask("Hello"))
        assert len(sick.chats) == 1
        assert len(well.chats) == 3


async def test_a_replica_asking_for_a_long_pause_is_left_for_another(make: Make) -> None:
    with (
        ChatServer(refuses(429, Retry_After="3600")) as busy,
        ChatServer(says("Hi")) as free,
    ):
        assert (await make(busy, free).complete(ask("Hello"))).text == "Hi"


async def test_a_request_goes_to_the_replica_with_fewer_in_flight(make: Make) -> None:
    hanging = Served(body=says("late").body, hangs=True)
    with ChatServer(hanging) as slow, ChatServer(then=echoes) as quick:
        chat = make(slow, quick)
        late = asyncio.create_task(chat.complete(ask("Hello")))
        await asyncio.to_thread(slow.wait_for, 1)
        for _ in range(3):
            await chat.complete(ask("Hello"))
        assert len(slow.chats) == 1
        slow.release()
        assert (await late).text == "late"


async def test_no_more_requests_are_in_flight_than_allowed(make: Make) -> None:
    with ChatServer(then=lambda _: Served(body=says("Hi").body, hangs=True)) as server:
        chat = make(server, max_in_flight=2)
        tasks = [asyncio.create_task(chat.complete(ask("Hello"))) for _ in range(6)]
        await asyncio.to_thread(server.wait_for, 2)
        server.release()
        await asyncio.gather(*tasks)
        assert len(server.chats) == 6
        assert server.peak == 2


async def test_a_cancelled_request_frees_its_place(make: Make) -> None:
    with ChatServer(Served(hangs=True), says("Hi")) as server:
        chat = make(server, max_in_flight=1)
        task = asyncio.create_task(chat.complete(ask("Hello")))
        await asyncio.to_thread(server.wait_for, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await chat.complete(ask("Hello"))).text == "Hi"
        server.release()


# Streams


async def test_a_stream_keeps_line_separators_inside_its_text(make: Make) -> None:
    with ChatServer(streams("a\u2028b", "\x85c\n", "日本")) as server:
        assert await collected(make(server)) == ["a\u2028b", "\x85c\n", "日本"]
        assert server.chats[0].body["stream"] is True


async def test_a_whole_reply_to_a_stream_request_is_one_piece(make: Make) -> None:
    with ChatServer(says("Hi there")) as server:
        assert await collected(make(server)) == ["Hi there"]


async def test_a_stream_is_retried_before_its_first_piece(make: Make) -> None:
    script = (refuses(503), streams(finish_reason=None, done=False), streams("Hi"))
    with ChatServer(*script) as server:
        assert await collected(make(server)) == ["Hi"]
        assert len(server.chats) == 3


async def test_a_stream_that_breaks_after_a_piece_is_an_error(make: Make) -> None:
    broken = streams("Hi", " th", finish_reason=None, done=False)
    with ChatServer(
        broken, Served(body=broken.body, headers=broken.headers, breaks=True)
    ) as server:
        chat = make(server)
        for told in ("broke the stream off", "broke the connection off"):
            stream = chat.stream(ask("Hello"))
            assert [await anext(stream), await anext(stream)] == ["Hi", " th"]
            with pytest.raises(LLMError, match=told):
                await anext(stream)


async def test_an_error_inside_a_stream_is_told(make: Make) -> None:
    event = b'data: {"error": {"message": "out of memory", "code": 400}}\n\n'
    with (
        ChatServer(Served(body=event, headers={"Content-Type": "text/event-stream"})) as server,
        pytest.raises(LLMError, match="out of memory"),
    ):
        await collected(make(server))


async def test_a_stream_without_text_is_an_error(make: Make) -> None:
    with (
        ChatServer(streams({"reasoning_content": "Hm"})) as server,
        pytest.raises(LLMError, match="only reasoning"),
    ):
        await collected(make(server))


async def test_a_stream_learns_the_dialect_too(make: Make) -> None:
    with ChatServer(refuses(400, "use max_completion_tokens"), streams("Hi")) as server:
        assert await collected(make(server)) == ["Hi"]


# Event loops


def test_one_chat_works_in_several_event_loops() -> None:
    with ChatServer(then=echoes) as server:
        chat = OpenAIChat(server.url, "m")

        async def once() -> str:
            text = (await chat.complete(ask("Hello"))).text
            await chat.aclose()
            return text

        assert [asyncio.run(once()) for _ in range(2)] == ["you said: Hello"] * 2


def test_closing_in_one_loop_closes_the_connections_of_another() -> None:
    with ChatServer(then=echoes) as server:
        chat = OpenAIChat(server.url, "m")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            there = asyncio.run_coroutine_threadsafe(chat.complete(ask("there")), loop)
            assert there.result(20).text == "you said: there"

            async def here() -> str:
                text = (await chat.complete(ask("here"))).text
                await chat.aclose()
                return text

            assert asyncio.run(here()) == "you said: here"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def test_proxies_of_the_environment_do_not_stand_before_loopback(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", dead_url())
    monkeypatch.setenv("ALL_PROXY", dead_url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ChatServer(says("Hi")) as server:
        assert (await make(server, max_retries=0).complete(ask("Hello"))).text == "Hi"


async def test_prompts_do_not_reach_the_log(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with ChatServer(refuses(500), says("answer text")) as server, caplog.at_level(logging.DEBUG):
        await make(server, api_key=KEY).complete(ask("question text"))
    logged = json.dumps([record.getMessage() for record in caplog.records])
    assert "question text" not in logged
    assert "answer text" not in logged
    assert KEY not in logged
