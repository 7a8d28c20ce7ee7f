from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import LLMError
from canopy_rag.testing.scripted import ScriptedLLM

openai = pytest.importorskip("openai", reason="needs the openai SDK")

ENOUGH = '{"sufficient": true, "follow_up": ""}'
KEY = "a-key-of-the-tests"
QUESTION = [{"role": "user", "content": "What is the harbour fee?"}]


def scripted() -> ScriptedLLM:
    return ScriptedLLM(("", ENOUGH), ("", "It is 12 pounds [1]."))


def sdk(url: str, key: str = KEY) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30)


def test_the_sdk_gets_a_completion(served: Any) -> None:
    with served(key=KEY, llm=scripted(), retrieval__aggregate=False) as url, sdk(url) as client:
        reply = client.chat.completions.create(
            model="canopy", messages=QUESTION, temperature=0.3, max_tokens=50
        )
        assert reply.choices[0].message.content == "It is 12 pounds [1]."
        assert reply.choices[0].message.role == "assistant"
        assert reply.choices[0].finish_reason == "stop"
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
        assert reply.usage.completion_tokens > 0
        trace = reply.model_extra["canopy"]
        assert trace["citations"] == [{"n": 1, "fragment": 1}]
        assert trace["evidence"]["items"]


def test_the_example_of_the_docs_runs(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/http-api.md").read_text("utf-8")
    (code,) = re.findall(r"^```python no-run\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    with served() as url:
        space: dict[str, Any] = {}
        exec(compile(code.replace("http://127.0.0.1:8377", url), "<docs>", "exec"), space)
        space["client"].close()
    assert "Closest to the question" in capsys.readouterr().out


def test_the_sdk_gets_a_stream(served: Any) -> None:
    with served(key=KEY, llm=scripted(), retrieval__aggregate=False) as url, sdk(url) as client:
        chunks = list(
            client.chat.completions.create(
                model="canopy",
                messages=QUESTION,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        pieces = [c.choices[0].delta.content for c in chunks if c.choices]
        assert len([piece for piece in pieces if piece]) > 1
        assert "".join(piece or "" for piece in pieces) == "It is 12 pounds [1]."
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-1].choices == []
        assert chunks[-1].usage.total_tokens > 0
        assert len({c.id for c in chunks}) == 1
        assert chunks[-2].model_extra["canopy"]["citations"] == [{"n": 1, "fragment": 1}]


def test_the_sdk_gets_the_models(served: Any) -> None:
    with served(key=KEY) as url, sdk(url) as client:
        assert [each.id for each in client.models.list()] == ["canopy"]
        assert client.models.retrieve("canopy").owned_by == "canopy-rag"
        with pytest.raises(openai.NotFoundError, match="gpt-9"):
            client.models.retrieve("gpt-9")


def test_the_sdk_gets_errors_as_its_own(served: Any) -> None:
    failed = LLMError("the chat server said no", status=500)
    llm = ScriptedLLM(("", failed), ("", failed))
    with served(key=KEY, llm=llm, retrieval__rounds=1, retrieval__aggregate=False) as url:
        with sdk(url, "wrong") as client, pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="canopy", messages=QUESTION)
        with sdk(url) as client:
            with pytest.raises(openai.NotFoundError, match="'canopy'"):
                client.chat.completions.create(model="gpt-9", messages=QUESTION)
            with pytest.raises(openai.BadRequestError, match="no user message"):
                client.chat.completions.create(
                    model="canopy", messages=[{"role": "system", "content": "x"}]
                )
            for stream in (False, True):
                with pytest.raises(openai.InternalServerError) as caught:
                    client.chat.completions.create(model="canopy", messages=QUESTION, stream=stream)
                assert caught.value.status_code == 502
                assert caught.value.type == "model_error"


class Breaking(ScriptedLLM):
    """Says a little, then breaks."""

    async def stream(self, request: Any, ended: Any = None) -> Any:
        yield "It is"
        raise LLMError("the stream broke")


def test_the_sdk_is_told_of_a_stream_that_breaks(served: Any) -> None:
    options = {"retrieval__rounds": 1, "retrieval__aggregate": False}
    with served(key=KEY, llm=Breaking(), **options) as url, sdk(url) as client:
        stream = client.chat.completions.create(model="canopy", messages=QUESTION, stream=True)
        assert next(iter(stream)).choices[0].delta.content == "It is"
        with pytest.raises(openai.APIError, match="the stream broke"):
            list(stream)


async def test_the_last_user_message_is_the_question(client_of: Any) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is a lighthouse?"},
        {"role": "assistant", "content": "A tower."},
        {"role": "user", "content": [{"type": "text", "text": "And the"},
                                     {"type": "text", "text": "harbour fee?"}]},
        {"role": "assistant", "content": None},
    ]  # fmt: skip
    async with client_of() as client:
        body = {"model": "canopy", "messages": messages, "user": "someone", "tools": []}
        reply = await client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200
    assert reply.json()["canopy"]["question"] == "And the\nharbour fee?"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"n": 2}, "`n`"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "empty"),
        ({"messages": [{"role": "user", "content": "x" * 20_001}]}, "longer"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}
                        ],
                    }
                ]
            },
            "not opened",
        ),
    ],
)
async def test_what_there_is_not_is_refused(
    client_of: Any, said: Any, change: dict[str, Any], word: str
) -> None:
    async with client_of() as client:
        body = {"model": "canopy", "messages": QUESTION, **change}
        reply = await client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 400
    assert word in said(reply)["message"]


@pytest.mark.parametrize(
    "content", ['"\\ud800"', '[{"type": "text", "text": "\\ud800"}]'], ids=["text", "parts"]
)
@pytest.mark.parametrize("stream", ["true", "false"])
async def test_half_of_a_surrogate_pair_is_refused(
    client_of: Any, said: Any, content: str, stream: str
) -> None:
    message = f'{{"role": "user", "content": {content}}}'
    body = f'{{"model": "canopy", "stream": {stream}, "messages": [{message}]}}'
    async with client_of(headers={"Content-Type": "application/json"}) as client:
        reply = await client.post("/v1/chat/completions", content=body.encode())
    assert reply.status_code == 400
    assert "last user message" in said(reply)["message"]


async def test_a_stream_ends_with_done(client_of: Any) -> None:
    async with client_of() as client:
        body = {"model": "canopy", "messages": QUESTION, "stream": True}
        reply = await client.post("/v1/chat/completions", json=body)
    blocks = [block for block in reply.text.split("\n\n") if block]
    assert blocks[-1] == "data: [DONE]"
    assert all(json.loads(block.removeprefix("data: ")) for block in blocks[:-1])
