"""What every method of a comparison has to do, as tests: derive a class, give it fixtures.

```python
class TestMyMethod(MethodContract):
    @pytest.fixture
    def make_method(self):
        def make(budget: int | None) -> tuple[Method, FunctionLLM]: ...
        return make
```

`make_method` returns a new method over `items` each time, whose calls all go to the `FunctionLLM`
that comes with it, and whose evidence is held to `budget` tokens. `items` and `questions` are
fixtures too: what is in the store, with a long text that the first question finds, and at least two
questions about it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from canopy_rag.core.answer import Answer
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.render import node_body
from canopy_rag.core.types import Item
from canopy_rag.testing.scripted import FunctionLLM, prompt_text

STAGES = frozenset(
    (
        *("retrieve", "search", "refine", "compress", "read"),
        *("route", "classify", "critic", "judge", "extract", "think"),
    )
)
STOPS = frozenset(
    ("sufficient", "last_round", "repeated_query", "nothing_new", "no_critic", "deadline")
)
BUDGET = 24
"""Smaller than the items whole, larger than a sentence with its title."""
WINDOW = 1_000
"""Of a model; smaller than the items whole with a prompt and a long answer."""


class AnsweringMethod(Protocol):
    """What the suite needs of a method."""

    @property
    def name(self) -> str: ...
    @property
    def verbatim(self) -> bool: ...
    async def answer(self, question: Question) -> Answer: ...


Making = Callable[[int | None], tuple[AnsweringMethod, FunctionLLM]]


def trace(answer: Answer) -> dict[str, Any]:
    """Return an answer without what differs between equal runs: the seconds."""
    found = answer.to_dict()
    del found["usage"]["seconds"]
    return found


class MethodContract:
    """The suite.

    Fixtures of the deriving class: `make_method`, `items`, `questions`.
    """

    def test_it_has_a_name(self, make_method: Making) -> None:
        method, _ = make_method(None)
        assert method.name
        assert isinstance(method.verbatim, bool)

    async def test_an_answer_is_its_own_trace(
        self, make_method: Making, items: Sequence[Item], questions: Sequence[Question]
    ) -> None:
        method, _ = make_method(None)
        answer = await method.answer(questions[0])
        assert json.loads(json.dumps(answer.to_dict()))["text"] == answer.text
        assert answer.question.startswith(questions[0].text)
        assert answer.stop in STOPS
        assert [each.number for each in answer.rounds] == list(range(1, len(answer.rounds) + 1))
        found = {hit.item_id for each in answer.rounds for hit in each.hits}
        assert answer.evidence.held <= found <= {item.id for item in items}
        for each in answer.rounds:
            assert [hit.rank for hit in each.hits] == list(range(1, len(each.hits) + 1))

    async def test_evidence_stands_in_the_items_word_for_word(
        self, make_method: Making, items: Sequence[Item], questions: Sequence[Question]
    ) -> None:
        method, _ = make_method(None)
        by_id = {item.id: item for item in items}
        for question in questions:
            fragments = (await method.answer(question)).evidence.fragments
            for each in fragments if method.verbatim else ():
                item = by_id[each.item_id]
                assert (each.text or "") == node_body(item, each.start, each.stop)
                assert each.text is None or each.text in node_body(
                    item, item.nodes[0].start, item.nodes[0].stop
                )

    async def test_evidence_is_in_the_answers_prompt(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        method, llm = make_method(None)
        answer = await method.answer(questions[0])
        prompt = prompt_text(llm.calls[-1][0])
        assert questions[0].text in prompt
        assert all(part in prompt for part in answer.evidence.parts() if isinstance(part, str))

    async def test_the_cap_holds(self, make_method: Making, questions: Sequence[Question]) -> None:
        method, llm = make_method(BUDGET)
        for question in questions:
            answer = await method.answer(question)
            text = "\n\n".join(each for each in answer.evidence.parts() if isinstance(each, str))
            assert answer.evidence.tokens <= BUDGET
            assert answer.evidence.tokens == await llm.count_tokens(text)

    async def test_no_prompt_is_longer_than_the_models_window(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        method, llm = make_method(None)
        llm.context_tokens = WINDOW
        await method.answer(questions[0])
        for request, completion in llm.calls:
            assert completion.prompt_tokens + request.max_tokens <= WINDOW

    async def test_all_calls_and_their_tokens_are_counted(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        method, llm = make_method(None)
        usage = (await method.answer(questions[0])).usage
        replies = [completion for _, completion in llm.calls]
        assert usage.llm_calls == len(replies) > 0
        assert usage.prompt_tokens == sum(each.prompt_tokens for each in replies)
        assert usage.completion_tokens == sum(each.completion_tokens for each in replies)

    async def test_the_seconds_of_the_stages_are_recorded(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        method, llm = make_method(None)
        seconds = (await method.answer(questions[0])).usage.seconds
        assert {"retrieve", "search"} <= set(seconds) <= STAGES
        assert all(value >= 0 for value in seconds.values())
        structured = {request.schema_name for request, _ in llm.calls} - {None, "choice"}
        stage_of = {"router": "route", "aggregate": "classify"}
        assert {stage_of.get(str(name), name) for name in structured} <= set(seconds)

    async def test_the_same_question_gets_the_same_answer(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        first, second = make_method(None)[0], make_method(None)[0]
        for question in questions:
            once = trace(await first.answer(question))
            assert once == trace(await first.answer(question))
            assert once == trace(await second.answer(question))

    async def test_questions_at_the_same_time_do_not_mix(
        self, make_method: Making, questions: Sequence[Question]
    ) -> None:
        method, _ = make_method(None)
        alone = [trace(await method.answer(question)) for question in questions]
        together = await asyncio.gather(*map(method.answer, [*questions, *questions]))
        assert [trace(answer) for answer in together] == alone + alone

    async def test_it_does_not_look_at_the_known_answer(
        self, make_method: Making, items: Sequence[Item], questions: Sequence[Question]
    ) -> None:
        method, _ = make_method(None)
        gold = (GoldSpan(item_id=items[-1].id, start=0, stop=1),)
        other = replace(questions[0], id="x", answers=("elsewhere",), kind="other", gold=gold)
        assert trace(await method.answer(questions[0])) == trace(await method.answer(other))
