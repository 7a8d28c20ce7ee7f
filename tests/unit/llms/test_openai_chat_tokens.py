"""Models, tokens and costs as servers tell them; and what the SDK is kept from."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.llms.chats import KEY, Make, collected, dead_url
from tokenizers import Tokenizer, models, pre_tokenizers

from canopy_rag.core.errors import LLMError, MissingDependencyError
from canopy_rag.core.protocols import Completion
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
from canopy_rag.testing.llm_contract import ask

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
    with pytest.raises(MissingDependencyError, match=r"`openai`.*pip install 'canopy-rag\[llm\]'"):
        OpenAIChat("http://a.example")


def test_the_sdk_is_not_loaded_before_the_first_call() -> None:
    code = (
        "import sys; from canopy_rag.llms.registry import llm; llm('http://a.example'); "
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2', 'tenacity')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
