"""An oracle in the place of the chat model: every kind of prompt is answered by the gold."""

import json

import pytest
from tests.unit.evaluation.evaluations import passage

from canopy_rag.core.errors import LLMError, UnknownNameError
from canopy_rag.core.prompts import (
    aggregate_messages,
    critic_messages,
    evidence_messages,
    reader_messages,
    router_messages,
)
from canopy_rag.core.protocols import ChatRequest
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.evaluation.oracle import OracleLLM

JUDO = passage("Judo", "Judo was created by Kano Jigoro.", "Its uniform is white.")
KANO = passage("Kano Jigoro", "He was a teacher of many.", "He was born in the town of Mikage.")
ITEMS = {each.id: each for each in (JUDO, KANO)}


def whole(item, sentence):
    start = item.payload.text.index(sentence)
    return GoldSpan(item_id=item.id, start=start, stop=start + len(sentence))


GOLD = (whole(JUDO, "Judo was created"), whole(KANO, "born in the town of Mikage"))
BORN = Question(
    id="1",
    text="Where was the one who created judo born?",
    answers=("Mikage", "Mikage-cho"),
    kind="",
    gold=GOLD,
    follow_ups=("Who created judo?", "Where was Kano Jigoro born?"),
)
YES = Question(id="2", text="Was Kano a teacher?", answers=("yes",), kind="", gold=GOLD[1:])
CHOICE = Question(
    id="3", text="Who made judo?", answers=("B",), kind="", gold=GOLD[:1], options=("Ann", "Kano")
)


@pytest.fixture
def oracle():
    return OracleLLM([BORN, YES, CHOICE], lambda ids: [ITEMS[each] for each in ids])


async def says(oracle, messages, name=None):
    request = ChatRequest(messages=tuple(messages), max_tokens=64, schema_name=name)
    return (await oracle.complete(request)).text


async def read(oracle, question, *evidence):
    return await says(oracle, reader_messages(question, evidence, "short"))


@pytest.mark.parametrize(
    ("question", "evidence", "answer"),
    [
        (BORN.text, KANO.payload.text, "Mikage"),
        (BORN.text, JUDO.payload.text, "unknown"),
        (BORN.text, "the town of Mikagecho", "unknown"),
        (BORN.text, "", "unknown"),
        (YES.text, KANO.payload.text, "yes"),
        (YES.text, "yes", "unknown"),
        (f"{CHOICE.text}\nA. Ann\nB. Kano", JUDO.payload.text, "B"),
        (f"{CHOICE.text}\nA. Ann\nB. Kano", "B", "unknown"),
    ],
)
async def test_the_reader_answers_what_stands_in_the_evidence(oracle, question, evidence, answer):
    assert await read(oracle, question, evidence) == answer


async def judged(oracle, evidence, *queries):
    messages = critic_messages(BORN.text, [evidence], [BORN.text, *queries])
    return json.loads(await says(oracle, messages, "critic"))


async def test_the_critic_asks_for_the_title_of_what_is_missing(oracle):
    verdict = await judged(oracle, f"Judo\n{JUDO.payload.text}")
    assert verdict == {"sufficient": False, "follow_up": "Kano Jigoro"}


async def test_a_title_that_is_only_mentioned_is_missing_all_the_same(oracle):
    assert (await judged(oracle, "Kano Jigoro, see Judo."))["follow_up"] == "Judo"


async def test_the_critic_does_not_repeat_itself(oracle):
    verdict = await judged(oracle, JUDO.payload.text, "kano jigoro")
    assert verdict == {"sufficient": False, "follow_up": ""}


async def test_the_critic_is_content_when_something_of_every_gold_item_is_there(oracle):
    verdict = await judged(oracle, "Its uniform is white. … He was a teacher of many.")
    assert verdict == {"sufficient": True, "follow_up": ""}


async def test_hops_are_the_benchmarks_own_questions_in_turn():
    hops = OracleLLM([BORN], lambda ids: [ITEMS[each] for each in ids], "hops")
    assert (await judged(hops, "nothing"))["follow_up"] == "Who created judo?"
    later = await judged(hops, "nothing", "Who created judo?")
    assert later["follow_up"] == "Where was Kano Jigoro born?"


async def test_router_and_classifier_know_where_the_gold_lies(oracle):
    routed = await says(oracle, router_messages(BORN.text), "router")
    assert json.loads(routed) == {"modalities": ["text"]}
    other = json.loads(await says(oracle, router_messages("Kano Jigoro"), "router"))
    assert other["modalities"] == ["text", "table", "image", "video"]
    assert await says(oracle, aggregate_messages(BORN.text), "aggregate") == '{"aggregate": false}'


async def test_a_thought_is_the_answer_or_what_is_to_be_found(oracle):
    def thought(evidence):
        return evidence_messages("ircot_thought", [evidence], question=BORN.text, thoughts="")

    assert await says(oracle, thought(KANO.payload.text)) == "So the answer is: Mikage."
    assert await says(oracle, thought(JUDO.payload.text)) == "Kano Jigoro."


async def test_the_judge_names_a_gap_and_the_extractor_the_sentences_with_gold(oracle):
    judge = evidence_messages("s2g_judge", [JUDO.payload.text], question=BORN.text)
    found = json.loads(await says(oracle, judge, "judge"))
    assert (found["sufficient"], found["gap_items"][0]["target"]) == (False, "Kano Jigoro")
    listed = "Judo\n[1] Judo was created by Kano Jigoro.\n[2] Its uniform is white."
    extract = evidence_messages("s2g_extract", [listed], question=BORN.text, gaps="")
    assert json.loads(await says(oracle, extract, "extract")) == {"ids": [1]}


async def test_its_name_says_what_it_is_and_it_counts_nothing_as_exact(oracle):
    assert oracle.name == "oracle:titles"
    assert await oracle.count_tokens("a b") is None


async def test_a_question_that_it_does_not_know_is_an_error(oracle):
    with pytest.raises(LLMError, match="benchmarks alone"):
        await read(oracle, "Who else?", "x")


def test_other_decisions_are_refused():
    with pytest.raises(UnknownNameError, match="hops"):
        OracleLLM([], lambda ids: [], "hop")
