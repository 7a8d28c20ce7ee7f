"""What is sent to a scripted server, and what comes back."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.llms.chats import KEY, Make, collected, critic

from canopy_rag.core.errors import ConfigError, LLMError
from canopy_rag.core.protocols import ChatRequest, MediaPart, Message
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import (
    ChatServer,
    Served,
    refuses,
    says,
    sends,
    streams,
)
from canopy_rag.testing.llm_contract import SCHEMA, ask

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


async def test_a_host_that_cannot_be_one_is_told(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"snow.\.invalid/v1 cannot be used"):
        await make("http://snow\u2603.invalid").complete(ask("Hello"))


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
