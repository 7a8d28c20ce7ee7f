"""The scripted model fails on every surprise."""

from __future__ import annotations

import pytest

from canopy_rag.testing.llm_contract import ask
from canopy_rag.testing.scripted import ScriptedLLM


async def test_replies_come_in_order_and_calls_are_kept() -> None:
    with ScriptedLLM(("one", "1"), ("two", "2")) as llm:
        assert (await llm.complete(ask("say one"))).text == "1"
        assert [piece async for piece in llm.stream(ask("say two"))] == ["2"]
    assert [call.messages[0].content for call in llm.calls] == [("say one",), ("say two",)]


async def test_an_unexpected_prompt_fails_with_the_prompt() -> None:
    with pytest.raises(AssertionError, match=r"(?s)none of \['two'\].*say one"):
        await ScriptedLLM(("two", "2"), ("one", "1")).complete(ask("say one"))


async def test_a_call_too_many_fails_with_the_prompt() -> None:
    with pytest.raises(AssertionError, match=r"(?s)extra call.*say one"):
        await ScriptedLLM().complete(ask("say one"))


def test_replies_never_used_fail() -> None:
    with (
        pytest.raises(AssertionError, match=r"1 scripted replies .*\['one'\]"),
        ScriptedLLM(("one", "1")),
    ):
        pass


async def test_in_any_order_the_first_step_that_fits_is_taken() -> None:
    with ScriptedLLM(("one", "1"), ("two", "2"), ("one", "3"), any_order=True) as llm:
        replies = [(await llm.complete(ask(word))).text for word in ("two", "one", "one")]
    assert replies == ["2", "1", "3"]
