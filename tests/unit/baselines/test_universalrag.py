"""UniversalRAG: one routed round over whole items, or none."""

import json

import pytest

from canopy_rag.baselines.registry import build
from canopy_rag.testing.scripted import ScriptedLLM, prompt_text
from tests.unit.baselines.conftest import ITEMS, SPORT, parts_of


def routed(*names):
    return json.dumps({"modalities": list(names)})


async def answered(*replies, **settings):
    llm = ScriptedLLM(*(("", reply) for reply in replies))
    answer = await build("universalrag", parts_of(llm, **settings)).answer(SPORT)
    llm.assert_done()
    return answer, llm


async def test_a_routed_question_takes_two_calls_and_whole_items():
    answer, llm = await answered(routed("table"), "judo", k=1)
    assert [each.schema_name for each in llm.calls] == ["router", None]
    assert answer.rounds[0].routed == ("table",)
    assert [each.why for each in answer.evidence.entries] == ["whole"]
    assert (answer.usage.llm_calls, answer.stop) == (2, "last_round")


async def test_corpora_come_one_after_the_other_with_k_items_each():
    answer, _ = await answered(routed("image", "table", "text"), "judo", k=1)
    entries = answer.evidence.entries
    assert [each.item.modality for each in entries] == ["text", "table", "image"]
    assert [each.rank for each in entries] == [1, 2, 3]
    assert entries[1].similarity > entries[0].similarity


async def test_no_retrieval_means_an_answer_from_the_question_alone():
    answer, llm = await answered(routed("none"), "judo")
    assert answer.text == "judo"
    assert answer.evidence.entries == ()
    assert (answer.rounds[0].routed, answer.rounds[0].hits) == (("none",), ())
    prompt = prompt_text(llm.calls[1])
    assert "from what you know" in prompt
    assert SPORT.text in prompt
    assert "evidence" not in prompt


@pytest.mark.parametrize("reply", ["somewhere", '{"modalities": ["music"]}'])
async def test_without_a_decision_everything_is_searched_and_it_says_so(reply):
    answer, _ = await answered(reply, "still nothing", "judo", k=len(ITEMS))
    assert len(answer.evidence.entries) == len(ITEMS)
    assert answer.rounds[0].routed == ()
    (note,) = answer.rounds[0].fallbacks
    assert note.stage == "router"
    assert answer.usage.llm_calls == 3


async def test_an_empty_corpus_is_read_as_nothing():
    answer, llm = await answered(routed("video"), "unknown")
    assert answer.evidence.entries == ()
    assert answer.rounds[0].routed == ("video",)
    assert "evidence" in prompt_text(llm.calls[1])
