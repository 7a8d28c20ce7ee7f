"""What every `LLM` has to do, as tests: derive a class, give it the two fixtures, run pytest.

```python
class TestMyModel(LLMContract):
    @pytest.fixture
    async def llm(self): ...

    @pytest.fixture
    async def failing_llm(self): ...
```
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import LLM, ChatRequest, Completion, Message

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"sufficient": {"type": "boolean"}},
    "required": ["sufficient"],
    "additionalProperties": False,
}
PROMPTS = ("What color is the sky?", "Name a tree.", "Count from one to five.")
"""What the fixture `llm` is asked in plain calls; each up to three times, in any order."""
STRUCTURED = "Is it enough? Reply in JSON."
"""What it is asked in the structured call, once."""


def ask(prompt: str, **fields: Any) -> ChatRequest:
    """Return a short request with one user message."""
    message = Message(role="user", content=(prompt,))
    return ChatRequest(messages=(message,), **({"max_tokens": 12} | fields))


class LLMContract:
    """The suite.

    Fixtures of the deriving class: `llm`, which answers; `failing_llm`, whose calls fail.
    """

    async def test_it_is_an_llm(self, llm: LLM) -> None:
        assert isinstance(llm, LLM)
        assert llm.name
        assert isinstance(llm.vision, bool)

    async def test_a_completion_has_a_text_and_its_cost(self, llm: LLM) -> None:
        completion = await llm.complete(ask(PROMPTS[0]))
        assert isinstance(completion, Completion)
        assert completion.text.strip()
        assert completion.prompt_tokens > 0
        assert completion.completion_tokens > 0
        assert completion.tokens_are in {"exact", "estimated"}

    async def test_concurrent_calls_get_their_own_replies(self, llm: LLM) -> None:
        requests = [ask(prompt) for prompt in PROMPTS]
        alone = [(await llm.complete(request)).text for request in requests]
        together = await asyncio.gather(*(llm.complete(request) for request in requests))
        assert [completion.text for completion in together] == alone
        assert len(set(alone)) == len(PROMPTS)

    async def test_the_pieces_of_a_stream_make_up_the_text(self, llm: LLM) -> None:
        whole = (await llm.complete(ask(PROMPTS[1]))).text
        pieces = [piece async for piece in llm.stream(ask(PROMPTS[1]))]
        assert all(pieces)
        assert len(pieces) > 1
        assert "".join(pieces) == whole

    async def test_a_stream_tells_the_whole_reply_and_its_cost_at_its_end(self, llm: LLM) -> None:
        told: list[Completion] = []
        pieces = []
        async for piece in llm.stream(ask(PROMPTS[1]), told.append):
            assert not told
            pieces.append(piece)
        assert [each.text for each in told] == ["".join(pieces)]
        assert told[0].prompt_tokens > 0
        assert told[0].completion_tokens > 0

    async def test_a_stream_left_early_leaves_the_model_usable(self, llm: LLM) -> None:
        stream = llm.stream(ask(PROMPTS[1]))
        assert await anext(stream)
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
        assert (await llm.complete(ask(PROMPTS[0]))).text.strip()

    async def test_a_structured_call_returns_an_object_of_the_schema(self, llm: LLM) -> None:
        request = ask(STRUCTURED, max_tokens=40, schema_name="critic", schema=SCHEMA)
        reply = json.loads((await llm.complete(request)).text)
        assert list(reply) == ["sufficient"]
        assert isinstance(reply["sufficient"], bool)

    async def test_token_counts_are_none_or_grow_with_the_text(self, llm: LLM) -> None:
        short, long = await llm.count_tokens("One tree."), await llm.count_tokens("One tree. " * 9)
        if short is None:
            assert long is None
        else:
            assert long is not None
            assert 0 < short < long

    async def test_a_picture_costs_tokens_or_nobody_can_tell(self, llm: LLM) -> None:
        tokens = await llm.media_tokens(640, 480)
        assert tokens is None or tokens > 0

    async def test_a_call_that_fails_is_an_llm_error(self, failing_llm: LLM) -> None:
        error = await _error_of(failing_llm, streamed=False)
        assert str(error)

    async def test_a_stream_that_fails_is_an_llm_error(self, failing_llm: LLM) -> None:
        error = await _error_of(failing_llm, streamed=True)
        assert str(error)

    async def test_it_can_be_closed_twice(self, llm: LLM) -> None:
        await llm.aclose()
        await llm.aclose()


async def _error_of(llm: LLM, *, streamed: bool) -> LLMError:
    request = ask("Fail. " * 9000)
    try:
        if streamed:
            async for _ in llm.stream(request):
                pass
        else:
            await llm.complete(request)
    except LLMError as error:
        return error
    raise AssertionError("the call did not fail")
