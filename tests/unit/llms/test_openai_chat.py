"""Requests, replies, retries, replicas and streams, against a scripted server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from canopy_rag.core.errors import ConfigError, LLMError, MissingDependencyError
from canopy_rag.core.protocols import ChatRequest, Completion, MediaPart, Message
from canopy_rag.llms import _clients
from canopy_rag.llms.counting import Counting
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

KEY = "sk-very-secret"
Make = Callable[..., OpenAIChat]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Make chats without pauses between attempts, and close them."""
    made: list[OpenAIChat] = []

    def make(*servers: ChatServer | str, **options: object) -> OpenAIChat:
        urls = [each if isinstance(each, str) else each.url for each in servers]
        defaults = {"model": "m", "backoff_s": 0.0, "timeout_s": 20.0}
        made.append(OpenAIChat(urls, **(defaults | options)))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


def dead_url() -> str:
    """Return the URL of a port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def critic(prompt: str = "Enough?") -> ChatRequest:
    return ask(prompt, schema_name="critic", schema=SCHEMA)


async def collected(chat: OpenAIChat, request: ChatRequest | None = None) -> list[str]:
    return [piece async for piece in chat.stream(request or ask("Hello"))]


# What is sent


async def test_a_reader_call_carries_model_limit_and_temperature_and_no_schema(make: Make) -> None:
    with ChatServer(says("Hi")) as server:
        await make(server).complete(ask("Hello", max_tokens=9))
        assert server.chats[0].path == "/v1/chat/completions"
        assert server.chats[0].body == {
            "model": "m",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 9,
            "temperature": 0,
        }


async def test_a_structured_call_carries_its_schema_by_name(make: Make) -> None:
    with ChatServer(says("{}")) as server:
        await make(server).complete(critic())
        assert server.chats[0].body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "critic", "strict": True, "schema": SCHEMA},
        }


async def test_the_key_is_a_bearer_token(make: Make) -> None:
    with ChatServer(says("Hi")) as server:
        await make(server, api_key=f" {KEY}\n").complete(ask("Hello"))
        assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_nothing_is_authorised(make: Make) -> None:
    with ChatServer(says("Hi")) as server:
        await make(server, api_key="").complete(ask("Hello"))
        assert "authorization" not in server.chats[0].headers


async def test_pictures_go_as_data_uris_in_order(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "tree.tif"
    Image.new("RGB", (2, 1), (255, 0, 0)).save(path)
    content = ("See", MediaPart(media="data:image/png;base64,AAAA"), MediaPart(media=str(path)))
    with ChatServer(says("Red")) as server:
        await make(server, vision=True).complete(
            ChatRequest(messages=(Message(role="user", content=content),), max_tokens=9)
        )
        parts = server.chats[0].body["messages"][0]["content"]
    assert parts[0] == {"type": "text", "text": "See"}
    assert parts[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    kind, _, encoded = parts[2]["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(encoded).startswith(b"\x89PNG")


async def test_pictures_for_a_blind_model_are_refused_before_sending(make: Make) -> None:
    message = Message(role="user", content=(MediaPart(media="data:image/png;base64,AAAA"),))
    with ChatServer() as server:
        with pytest.raises(LLMError, match="not known to see pictures"):
            await make(server).complete(ChatRequest(messages=(message,), max_tokens=9))
        assert server.chats == []


@pytest.mark.parametrize("content", [None, b"no picture"])
async def test_a_picture_that_cannot_be_read_is_named(
    make: Make, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.png"
    if content is not None:
        path.write_bytes(content)
    message = Message(role="user", content=(MediaPart(media=str(path)),))
    with ChatServer() as server, pytest.raises(LLMError, match=r"a\.png.*cannot be read"):
        await make(server, vision=True).complete(ChatRequest(messages=(message,), max_tokens=9))


async def test_half_a_surrogate_pair_is_sent_as_a_question_mark(make: Make) -> None:
    with ChatServer(says("Hi")) as server:
        await make(server).complete(ask("file \udce4.txt"))
        assert server.chats[0].body["messages"][0]["content"] == "file ?.txt"


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
async def test_a_base_url_may_be_written_with_or_without_version(make: Make, suffix: str) -> None:
    with ChatServer(says("Hi")) as server:
        await make(server.url.removesuffix("/v1") + suffix).complete(ask("Hello"))
        assert server.chats[0].path == "/v1/chat/completions"


async def test_a_path_with_another_version_and_a_query_are_kept(make: Make) -> None:
    with ChatServer(says("Hi")) as server:
        url = server.url.removesuffix("/v1") + "/v1beta/openai?version=2"
        await make(url).complete(ask("Hello"))
        assert server.chats[0].path == "/v1beta/openai/chat/completions?version=2"


# What comes back


async def test_text_and_usage_come_from_the_reply(make: Make) -> None:
    with ChatServer(says("Hi", usage={"prompt_tokens": 5, "completion_tokens": 2})) as server:
        completion = await make(server).complete(ask("Hello"))
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == ("Hi", 5, 2)
    assert completion.tokens_are == "exact"
    assert not completion.cut


async def test_without_usage_the_server_counts_and_the_tokens_are_estimated(make: Make) -> None:
    with ChatServer(says("one two", usage=None)) as server:
        completion = await make(server).complete(ask("a b c"))
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, 2)
    assert completion.tokens_are == "estimated"


async def test_without_usage_and_counter_a_token_is_four_bytes(make: Make) -> None:
    with ChatServer(says("ééé", usage=None), tokenizes=False) as server:
        completion = await make(server).complete(ask("abcde"))
    assert (completion.prompt_tokens, completion.completion_tokens) == (2, 2)
    assert completion.tokens_are == "estimated"


async def test_a_reply_that_ends_at_the_limit_says_so(make: Make) -> None:
    with ChatServer(says("Half of", finish_reason="length")) as server:
        assert (await make(server).complete(ask("Hello"))).cut


async def test_leading_thoughts_are_taken_off_whole_replies_and_streams(make: Make) -> None:
    with ChatServer(
        says("<think>Hm {</think>\n\nParis"),
        streams("<th", "ink>Hm", " {</thi", "nk>\n", "\nPar", "is"),
        streams("<the> sea"),
    ) as server:
        chat = make(server)
        assert (await chat.complete(ask("Capital?"))).text == "Paris"
        assert await collected(chat) == ["Par", "is"]
        assert await collected(chat) == ["<the> sea"]


async def test_a_text_in_parts_is_joined(make: Make) -> None:
    parts = [{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]
    with ChatServer(says("", message={"content": parts})) as server:
        assert (await make(server).complete(ask("Capital?"))).text == "Paris"


@pytest.mark.parametrize(
    ("served", "told"),
    [
        pytest.param(sends({"choices": []}), "without `choices`", id="no choices"),
        pytest.param(says("", finish_reason="content_filter"), "content_filter", id="empty"),
        pytest.param(says("", finish_reason="length"), "within max_tokens", id="length"),
        pytest.param(
            says("", message={"content": None, "reasoning_content": "Hm"}, finish_reason="length"),
            "only reasoning",
            id="reasoning alone",
        ),
        pytest.param(says("<think>Hm"), "only reasoning", id="unfinished thought"),
        pytest.param(
            Served(body=b"<!DOCTYPE html><title>Welcome\nto nginx</title><p>x"),
            "no JSON: a web page: Welcome to nginx",
            id="web page",
        ),
        pytest.param(Served(body=b""), "an empty body", id="nothing"),
        pytest.param(sends([1]), "no object", id="list"),
        pytest.param(sends({"error": {"message": "odd", "code": 418}}), "an error: odd", id="err"),
        pytest.param(refuses(401, f"wrong key {KEY}"), "CANOPY_LLM_API_KEY", id="401"),
        pytest.param(refuses(404, "no model m"), "no model m.*name of the model", id="404"),
        pytest.param(
            Served(status=302, headers={"Location": "https://else.where/v1?t=1"}),
            r"redirects to: https://else\.where/v1\.",
            id="redirect",
        ),
    ],
)
async def test_a_useless_reply_is_an_error_that_is_not_retried(
    make: Make, served: Served, told: str
) -> None:
    with ChatServer(served) as server:
        with pytest.raises(LLMError, match=told) as caught:
            await make(server, api_key=KEY).complete(ask("Hello"))
        assert len(server.chats) == 1
        assert server.url in str(caught.value)
    assert not caught.value.retryable
    assert KEY not in str(caught.value)


def test_neither_key_nor_password_shows_in_repr_name_or_errors() -> None:
    chat = OpenAIChat("http://me:hidden@127.0.0.1:1/v1?token=hidden", api_key=KEY)
    assert repr(chat) == "OpenAIChat('http://127.0.0.1:1/v1', model=None)"
    assert chat.name == "http://127.0.0.1:1/v1"
    with pytest.raises(ConfigError) as caught:
        OpenAIChat("http://127.0.0.1:1", api_key=f"{KEY}\u2014{KEY}")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "127.0.0.1", "ftp://a/v1", "http://", "", ","])
def test_an_incomplete_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:8000/v1"):
        OpenAIChat(url)


# Dialects


async def test_a_refused_schema_is_left_out_once_and_from_then_on(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    script = (refuses(400, "unknown field"), says("{}"), says("{}"))
    with ChatServer(*script) as server, caplog.at_level(logging.WARNING):
        chat = make(server)
        await chat.complete(critic("First?"))
        await chat.complete(critic("Second?"))
        bodies = [each.body for each in server.chats]
    assert ["response_format" in body for body in bodies] == [True, False, False]
    assert bodies[0]["messages"] == bodies[1]["messages"]
    assert [record.message.endswith("without it") for record in caplog.records] == [True]


async def test_a_prompt_refused_with_and_without_schema_leaves_the_schema_on(make: Make) -> None:
    script = (refuses(400, "too long"), refuses(400, "too long"), says("{}"))
    with ChatServer(*script) as server:
        chat = make(server)
        with pytest.raises(LLMError, match=r"HTTP 400: .*too long"):
            await chat.complete(critic())
        await chat.complete(critic())
        assert ["response_format" in each.body for each in server.chats] == [True, False, True]


async def test_what_one_replica_refuses_is_still_sent_to_the_other(make: Make) -> None:
    with (
        ChatServer(refuses(400), says("{}"), says("{}")) as old,
        ChatServer(says("{}")) as new,
    ):
        chat = make(old, new)
        for _ in range(3):
            await chat.complete(critic())
        assert ["response_format" in each.body for each in old.chats] == [True, False, False]
        assert ["response_format" in each.body for each in new.chats] == [True]


async def test_newer_models_get_their_own_limit_and_temperature(make: Make) -> None:
    script = (
        refuses(400, "Unsupported parameter: use 'max_completion_tokens' instead"),
        refuses(400, "'temperature' does not support 0"),
        says("Hi"),
    )
    with ChatServer(*script) as server:
        await make(server).complete(ask("Hello", max_tokens=9))
        body = server.chats[-1].body
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_completion_tokens": 9,
    }


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


# Discovery and counting


async def test_the_only_model_is_found_with_its_window(make: Make) -> None:
    models = [
        {"id": "qwen", "max_model_len": 32768, "parent": None},
        {"id": "adapter", "parent": "qwen"},
    ]
    with ChatServer(says("Hi"), says("Hi"), models=models) as server:
        chat = make(server, model=None)
        assert chat.context_tokens is None
        await asyncio.gather(chat.complete(ask("Hello")), chat.complete(ask("Hello")))
        assert (chat.name, chat.context_tokens) == ("qwen", 32768)
        assert [each.body["model"] for each in server.chats] == ["qwen", "qwen"]
        assert sum(each.path == "/v1/models" for each in server.received) == 1


async def test_one_of_several_models_has_to_be_named(make: Make) -> None:
    with ChatServer(models=["b", "a"]) as server:
        with pytest.raises(LLMError, match="several models; name one of them: a, b"):
            await make(server, model=None).complete(ask("Hello"))
        chat = make(server, model="b")
        await chat.discover()
        assert chat.name == "b"


async def test_a_server_without_a_list_gets_a_name_that_stands_for_any(make: Make) -> None:
    with ChatServer(says("Hi"), models=None) as server:
        await make(server, model=None).complete(ask("Hello"))
        assert server.chats[0].body["model"] == "default"


async def test_discovery_tells_the_smallest_window_of_the_replicas(make: Make) -> None:
    with (
        ChatServer(says("Hi"), models=[{"id": "m", "max_model_len": 100}]) as small,
        ChatServer(says("Hi"), models=[{"id": "m", "context_length": 200}]) as large,
    ):
        chat = make(large, small, model=None)
        await chat.discover()
        assert chat.context_tokens == 200
        await asyncio.gather(chat.complete(ask("Hello")), chat.complete(ask("Hello")))
        assert chat.context_tokens == 100


async def test_vision_is_what_the_server_tells_if_not_set(make: Make) -> None:
    entry = {"id": "m", "architecture": {"input_modalities": ["text", "image"]}}
    with ChatServer(models=[entry]) as server:
        chat, blind = make(server, vision=None), make(server, vision=False)
        assert not chat.vision
        await chat.discover()
        assert chat.vision
        await blind.discover()
        assert not blind.vision


async def test_a_server_without_tokenizer_is_asked_once(make: Make) -> None:
    with ChatServer(tokenizes=False) as server:
        chat = make(server)
        assert await chat.count_tokens("one two") is None
        assert await chat.count_tokens("one two") is None
        assert sum(each.path == "/tokenize" for each in server.received) == 1


async def test_a_server_that_misreads_the_text_does_not_count(make: Make) -> None:
    class Deaf(ChatServer):
        def _aside(self, received: object) -> Served:
            return sends({"tokens": []})

    with Deaf() as server:
        assert await make(server).count_tokens("one two") is None


async def test_a_tokenizer_of_ones_own_counts_and_the_server_tells_its_window(
    make: Make, tokenizer: str
) -> None:
    with ChatServer(models=[{"id": "m", "max_model_len": 100}]) as server:
        chat = make(server, counting=Counting(tokenizer=tokenizer))
        assert await chat.count_tokens("one two, three") == 4
        assert chat.context_tokens == 100
        assert [each.path for each in server.received] == ["/v1/models"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path)


async def test_pictures_cost_what_the_server_counts_each_size_asked_once(make: Make) -> None:
    with ChatServer(picture_tokens=300) as server:
        chat = make(server, model="qwen3-vl", vision=True)
        for _ in range(2):
            assert await chat.media_tokens(640, 480) == 300
        asked = [each.body for each in server.received if each.path == "/tokenize"]
    assert len(asked) == 4, "with and without a picture: a probe, then the size itself"
    url = asked[-1]["messages"][0]["content"][-1]["image_url"]["url"]
    picture = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert picture.size == (640, 480)
    assert picture.convert("RGB").getextrema() == ((0, 0),) * 3


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="no messages"),
        pytest.param({"picture_tokens": 3}, id="placeholders alone"),
        pytest.param({"tokenizes": False}, id="no tokenizer"),
    ],
)
async def test_pictures_cost_by_the_models_name_if_the_server_does_not_count_them(
    make: Make, options: dict[str, Any]
) -> None:
    with ChatServer(models=["Qwen/Qwen3-VL-8B-Instruct"], **options) as server:
        chat = make(server, model=None, vision=True)
        assert await chat.media_tokens(1024, 1024) == 32 * 32 + 2
        asked = len(server.received)
        assert await chat.media_tokens(512, 512) == 16 * 16 + 2
        assert len(server.received) == asked, "a server that cannot is not asked again"


async def test_a_named_family_of_pictures_needs_no_server(make: Make) -> None:
    chat = make(dead_url(), vision=True, counting=Counting(pictures="internvl"))
    assert await chat.media_tokens(448, 448) == 258


async def test_pictures_of_unknown_models_are_not_guessed(make: Make) -> None:
    with ChatServer() as server:
        assert await make(server, vision=True).media_tokens(640, 480) is None
        assert await make(server, vision=False).media_tokens(640, 480) is None


# Usage and cost


async def test_usage_of_zero_tokens_is_none(make: Make) -> None:
    with ChatServer(says("one", usage={"prompt_tokens": 0, "completion_tokens": 0})) as server:
        completion = await make(server).complete(ask("a b c"))
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, 1)
    assert completion.tokens_are == "estimated"


async def test_a_completion_costs_what_its_tokens_do(make: Make) -> None:
    with ChatServer(says("Hi"), says("Hi")) as server:
        dear = make(server, counting=Counting(price_in=100_000.0, price_out=1e6))
        assert (await dear.complete(ask("Hello"))).cost == pytest.approx(0.7 + 3)
        assert (await make(server).complete(ask("Hello"))).cost is None


async def ended(chat: OpenAIChat) -> Completion:
    """Return what is told at the end of a stream."""
    told: list[Completion] = []
    pieces = [piece async for piece in chat.stream(ask("a b c"), told.append)]
    assert len(told) == 1
    assert told[0].text == "".join(pieces)
    return told[0]


async def test_a_stream_asks_for_its_usage_and_tells_it_at_the_end(make: Make) -> None:
    with ChatServer(streams("Hi", " there", finish_reason="length")) as server:
        completion = await ended(make(server))
        assert server.chats[0].body["stream_options"] == {"include_usage": True}
    assert (completion.prompt_tokens, completion.completion_tokens) == (7, 3)
    assert completion.tokens_are == "exact"
    assert completion.cut


async def test_a_stream_without_usage_is_estimated(make: Make) -> None:
    with ChatServer(streams("Hi", " there", usage=None)) as server:
        completion = await ended(make(server))
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, 2)
    assert completion.tokens_are == "estimated"


async def test_a_whole_reply_to_a_stream_request_tells_its_usage_too(make: Make) -> None:
    with ChatServer(says("Hi there")) as server:
        assert (await ended(make(server))).prompt_tokens == 7


async def test_a_server_that_refuses_to_tell_usage_in_streams_is_not_asked_again(
    make: Make,
) -> None:
    refusal = refuses(400, "stream_options: extra fields not permitted")
    with ChatServer(refusal, streams("Hi"), streams("Hi")) as server:
        chat = make(server)
        for _ in range(2):
            assert await collected(chat) == ["Hi"]
        asked = ["stream_options" in each.body for each in server.chats]
    assert asked == [True, False, False]


async def test_a_stream_left_early_tells_nothing(make: Make) -> None:
    told: list[Completion] = []
    with ChatServer(streams("Hi", " there")) as server:
        stream = make(server).stream(ask("Hello"), told.append)
        await anext(stream)
        await stream.aclose()
    assert told == []


# What the SDK would do on its own


async def test_the_sdks_environment_reaches_no_server_but_openais(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "BASE_URL"):
        monkeypatch.setenv(f"OPENAI_{name}", f"{KEY}-{name}")
    with ChatServer(says("Hi"), tokenizes=True) as server:
        chat = make(server)
        await chat.complete(ask("Hello"))
        await chat.count_tokens("Hello")
        sent = json.dumps([dict(each.headers) for each in server.received])
    assert len(server.received) == 3
    assert KEY not in sent


async def test_a_login_in_the_url_is_sent_and_neither_logged_nor_told(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with ChatServer(says("Hi"), refuses(403)) as server, caplog.at_level(logging.DEBUG):
        chat = make(server.url.replace("//", "//me:s%20ecret@"), api_key=KEY)
        await chat.complete(ask("Hello"))
        with pytest.raises(LLMError) as caught:
            await chat.complete(ask("Hello"))
        assert server.chats[0].headers["authorization"] == "Basic bWU6cyBlY3JldA=="
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert "ecret" not in logged + str(caught.value)


async def test_the_sdk_does_not_retry_by_itself(make: Make) -> None:
    with ChatServer(then=lambda _: refuses(500)) as server:
        with pytest.raises(LLMError):
            await make(server, max_retries=0).complete(ask("Hello"))
        assert len(server.chats) == 1


async def test_connections_are_used_again_after_streams_too(make: Make) -> None:
    clients: set[str] = set()

    class Watched(ChatServer):
        def respond(self, received: Received) -> Served:
            clients.add(threading.current_thread().name)  # one thread per connection
            return super().respond(received)

    with Watched(then=echoes) as server:
        chat = make(server)
        for _ in range(3):
            assert await collected(chat) == ["you", " said:", " Hello"]
            await chat.complete(ask("Hello"))
    assert len(clients) == 1


def test_without_the_sdk_its_installation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clients, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(
        MissingDependencyError, match=r"`openai`.*pip install 'canopy-rag\[index\]'"
    ):
        OpenAIChat("http://a.example")


def test_the_sdk_is_not_loaded_before_the_first_call() -> None:
    code = (
        "import sys; from canopy_rag.llms.registry import llm; llm('http://a.example'); "
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2', 'tenacity')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
