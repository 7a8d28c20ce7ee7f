"""Replies that were had before are not asked for again."""

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.protocols import ChatRequest, Completion, Message
from canopy_rag.evaluation.replies import RememberingLLM, Replies, request_key
from canopy_rag.testing.scripted import ScriptedLLM


def request(text, **changes):
    message = Message(role="user", content=(text,))
    return ChatRequest(messages=(message,), max_tokens=8, **changes)


@pytest.fixture
def replies(tmp_path):
    opened = Replies(tmp_path / "cache" / "replies.sqlite")
    yield opened
    opened.close()


async def test_an_identical_request_is_answered_from_the_cache_in_another_process_too(
    replies, tmp_path
):
    llm = RememberingLLM(ScriptedLLM(("hello", "hi")), replies)
    first = await llm.complete(request("hello"))
    other = Replies(tmp_path / "cache" / "replies.sqlite")
    silent = RememberingLLM(ScriptedLLM(), other)
    assert await silent.complete(request("hello")) == first
    assert (llm.n_asked, llm.n_cached, silent.n_asked, silent.n_cached) == (1, 0, 0, 1)
    other.close()


async def test_spend_counts_what_the_model_was_asked_alone(replies):
    class Priced(ScriptedLLM):
        async def complete(self, request):
            return Completion(text="hi", prompt_tokens=1, completion_tokens=1, cost=0.5)

    llm = RememberingLLM(Priced(), replies)
    for _ in range(3):
        assert (await llm.complete(request("hello"))).cost == 0.5
    assert llm.spent == 0.5


async def test_without_a_cache_every_request_is_sent():
    llm = RememberingLLM(ScriptedLLM(("a", "1"), ("a", "2")))
    texts = [(await llm.complete(request("a"))).text for _ in range(2)]
    assert (texts, llm.n_asked) == (["1", "2"], 2)


async def test_a_stream_gives_the_whole_reply(replies):
    llm = RememberingLLM(ScriptedLLM(("a", "one two")), replies)
    ended = []
    pieces = [piece async for piece in llm.stream(request("a"), ended.append)]
    assert (pieces, ended[0].text) == (["one two"], "one two")


@pytest.mark.parametrize(
    "other",
    [
        ("m2", request("a")),
        ("m", request("b")),
        ("m", request("a", schema_name="critic")),
        ("m", request("a", schema={"type": "object"})),
    ],
)
def test_another_model_prompt_or_schema_is_another_request(other):
    assert request_key(*other) != request_key("m", request("a"))


def test_a_file_that_is_no_cache_is_an_error(tmp_path):
    path = tmp_path / "replies.sqlite"
    path.write_text("this is no database, and long enough to be told apart from an empty one" * 20)
    with pytest.raises(DataError, match="cannot be used as a cache"):
        Replies(path)
