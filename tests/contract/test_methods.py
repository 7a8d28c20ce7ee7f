"""Every method of a comparison passes the suite."""

from __future__ import annotations

import json

import pytest
from tests.unit.baselines.conftest import ITEMS, SPORT, YEAR, parts_of
from tests.unit.pipeline.conftest import text_item

from canopy_rag.baselines.registry import build, methods
from canopy_rag.core.protocols import ChatRequest
from canopy_rag.core.questions import Question
from canopy_rag.testing.method_contract import MethodContract
from canopy_rag.testing.scripted import FunctionLLM, prompt_text

LONG = text_item(
    "long.txt",
    *(f"The champion Douillet won the fight number {n} of his long career." for n in range(80)),
    title="Douillet, the champion",
)
POOL = (*ITEMS, LONG)
PEERS = {"llmlingua2"}
QUESTIONS = (
    SPORT,
    Question(
        id="2",
        text="What colour is the uniform of judo?",
        answers=("A",),
        kind="",
        gold=(),
        options=("white", "green"),
    ),
    Question(id="3", text="Where is green tea steamed?", answers=("Japan",), kind="", gold=()),
)


def reply(request: ChatRequest) -> str:
    prompt = prompt_text(request)
    match request.schema_name:
        case "critic":
            again = f"- {YEAR}" not in prompt
            return json.dumps({"sufficient": not again, "follow_up": YEAR if again else ""})
        case "aggregate":
            return json.dumps({"aggregate": False})
        case "router":
            return json.dumps({"modalities": ["text", "table"]})
        case "judge":
            gap = {"category": "attribute", "target": "judo", "slot": "year", "description": ""}
            found = "1882" in prompt
            return json.dumps({"sufficient": found, "gap_items": [] if found else [gap]})
        case "extract":
            return json.dumps({"ids": [1, 4]})
        case "choice":
            return json.dumps({"answer": "A"})
    if "Reasoning so far" in prompt:
        done = "judo was invented" in prompt.partition("Reasoning so far")[2]
        return "So the answer is: judo." if done else "In which year judo was invented matters."
    return "A" if "Tea" in prompt else "judo"


@pytest.mark.parametrize("name", [*(name for name in methods() if name not in PEERS), "flat:m=1"])
class TestMethods(MethodContract):
    @pytest.fixture
    def items(self):
        return POOL

    @pytest.fixture
    def questions(self):
        return QUESTIONS

    @pytest.fixture
    def make_method(self, name):
        def make(budget):
            llm = FunctionLLM(reply)
            return build(name, parts_of(llm, items=POOL, budget=budget)), llm

        return make
