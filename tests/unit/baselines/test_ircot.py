"""IRCoT: one sentence at a time, each one the next query, until it says the phrase."""

import dataclasses
import json

import pytest

from canopy_rag.baselines.ircot import first_thought
from canopy_rag.baselines.registry import build
from canopy_rag.core.errors import LLMError
from canopy_rag.testing.scripted import ScriptedLLM, prompt_text
from canopy_rag.text import DefaultSplitter
from tests.unit.baselines.conftest import SPORT, YEAR, parts_of
from tests.unit.pipeline.conftest import text_item

FIRST = "The champion Douillet is known for judo."
SECOND = "In the year judo was invented it was 1882."
THIRD = "The uniform of judo is white."
DONE = "So the answer is: judo."
CHOICE = dataclasses.replace(SPORT, options=("tea", "judo", "running"))


async def answered(*replies, name="ircot", question=SPORT, k=1, **settings):
    llm = ScriptedLLM(*(("", reply) for reply in replies))
    answer = await build(name, parts_of(llm, k=k, **settings)).answer(question)
    llm.assert_done()
    assert answer.usage.llm_calls == len(llm.calls)
    return answer, llm


def reasons(answer):
    return [note.reason for each in answer.rounds for note in each.fallbacks]


def is_thought(request):
    return "Reasoning so far" in prompt_text(request)


async def test_a_chain_that_finishes_at_once_takes_one_call_and_is_its_own_answer():
    answer, llm = await answered(DONE)
    assert answer.text == "judo"
    assert [each.query for each in answer.rounds] == [SPORT.text]
    assert answer.stop == "sufficient"
    assert "(nothing yet)" in prompt_text(llm.calls[0])
    assert llm.calls[0].schema is None
    assert answer.rounds[0].verdict.sufficient
    assert "think" in answer.usage.seconds
    assert "read" not in answer.usage.seconds


async def test_each_sentence_is_the_next_query_and_items_gather_whole():
    answer, llm = await answered(YEAR, "So the answer is: 1882.")
    assert [each.query for each in answer.rounds] == [SPORT.text, YEAR]
    assert [each.n_new for each in answer.rounds] == [1, 1]
    assert {each.why for each in answer.evidence.entries} == {"whole"}
    assert answer.rounds[0].verdict.follow_up == YEAR
    second = prompt_text(llm.calls[1])
    assert "Douillet | judo" in second
    assert "invented in the year 1882" in second
    assert f"Reasoning so far:\n{YEAR}" in second
    assert answer.text == "1882"


async def test_a_third_sentence_may_still_finish():
    answer, llm = await answered(FIRST, SECOND, DONE)
    assert len(llm.calls) == 3
    assert (answer.text, answer.stop, len(answer.rounds)) == ("judo", "sufficient", 3)


async def test_after_three_unfinished_sentences_the_reader_answers_over_everything():
    answer, llm = await answered(FIRST, SECOND, THIRD, "white")
    assert [is_thought(each) for each in llm.calls] == [True, True, True, False]
    assert [each.query for each in answer.rounds] == [SPORT.text, FIRST, SECOND, THIRD]
    assert (answer.text, answer.stop) == ("white", "last_round")
    found = {hit.item_id for each in answer.rounds for hit in each.hits}
    assert answer.evidence.held == found
    assert "Reasoning" not in prompt_text(llm.calls[-1])


async def test_the_last_sentence_need_not_be_searched():
    answer, llm = await answered(FIRST, SECOND, THIRD, "x", name="ircot:last=false")
    assert (len(answer.rounds), len(llm.calls)) == (3, 4)


async def test_fewer_sentences_may_be_allowed():
    answer, _ = await answered(FIRST, "x", name="ircot:iterations=1")
    assert (len(answer.rounds), answer.stop) == (2, "last_round")


@pytest.mark.parametrize(
    ("reply", "thought", "answer"),
    [
        ("So the answer is: judo.", "So the answer is: judo.", "judo"),
        ("so THE answer is: judo", "so THE answer is: judo", "judo"),
        ("Thus, so the answer is: 3.5 m.", "Thus, so the answer is: 3.5 m.", "3.5 m"),
        ("So the answer is: St. Louis, Mo.", "So the answer is: St. Louis, Mo.", "St. Louis, Mo"),
        ("So the answer is:\n\nJudo.\nIt is old.", "So the answer is: Judo.", "Judo"),
        ("So the answer is: judo. It is old.", "So the answer is: judo.", "judo"),
        ("So the answer is:", "So the answer is:", None),
        ("So the answer is judo.", "So the answer is judo.", None),
        ("The answer is: judo.", "The answer is: judo.", None),
        ("Judo is old. So the answer is: judo.", "Judo is old.", None),
        ("Dr. Kano made 3.5 rules. Others came.", "Dr. Kano made 3.5 rules.", None),
        ("\n \n", "", None),
    ],
)
def test_the_first_sentence_counts_and_only_the_exact_phrase_ends(reply, thought, answer):
    assert first_thought(reply, DefaultSplitter()) == (thought, answer)


async def test_sentences_after_the_first_are_no_part_of_the_chain():
    answer, llm = await answered(f"{FIRST} So the answer is: tea.", DONE)
    assert answer.rounds[1].query == FIRST
    assert "tea" not in prompt_text(llm.calls[1]).partition("Reasoning so far")[2]


async def test_an_empty_reply_ends_the_chain_and_the_reader_answers():
    answer, llm = await answered(FIRST, "  \n", "judo")
    assert (len(answer.rounds), answer.stop, answer.text) == (2, "repeated_query", "judo")
    assert any("empty reply" in reason for reason in reasons(answer))
    assert not is_thought(llm.calls[-1])


async def test_the_phrase_with_nothing_after_it_ends_the_chain_and_the_reader_answers():
    answer, _ = await answered("So the answer is:", "judo")
    assert (len(answer.rounds), answer.stop, answer.text) == (1, "sufficient", "judo")
    assert any("nothing follows" in reason for reason in reasons(answer))


async def test_a_sentence_that_comes_again_is_searched_again_and_brings_nothing_new():
    answer, _ = await answered(FIRST, FIRST, FIRST, "judo")
    assert [each.query for each in answer.rounds[1:]] == [FIRST, FIRST, FIRST]
    assert [each.n_new for each in answer.rounds[2:]] == [0, 0]
    assert all(hit.held for each in answer.rounds[2:] for hit in each.hits)


async def test_nothing_retrieved_is_still_thought_about():
    answer, _ = await answered(FIRST, DONE, items=())
    assert answer.evidence.entries == ()
    assert answer.text == "judo"


async def test_thoughts_and_reader_get_no_more_than_the_cap_latest_dropped_first():
    long = tuple(
        text_item(f"{n}.txt", *(f"Douillet won fight {n} {m}." for m in range(20)))
        for n in range(4)
    )
    answer, llm = await answered(FIRST, DONE, items=long, k=4, budget=60)
    assert answer.evidence.tokens <= 60
    first = answer.rounds[0].hits[0].item_id
    assert answer.evidence.entries[0].item.id == first
    assert all("fight" in prompt_text(each) for each in llm.calls)


async def test_a_choice_is_asked_for_where_there_are_options():
    letter = json.dumps({"answer": "B"})
    answer, llm = await answered(FIRST, DONE, letter, name="ircot:choice=true", question=CHOICE)
    assert answer.text == "B"
    assert llm.calls[-1].schema_name == "choice"
    assert llm.calls[-1].schema["properties"]["answer"]["enum"] == ["A", "B", "C"]
    assert "A. tea" in prompt_text(llm.calls[0])
    assert f"Reasoning:\n{FIRST}" in prompt_text(llm.calls[-1])


async def test_an_unfinished_chain_ends_with_the_choice_in_the_place_of_the_reader():
    letter = json.dumps({"answer": "C"})
    answer, llm = await answered(
        FIRST, letter, name="ircot:iterations=1,choice=true", question=CHOICE
    )
    assert (answer.text, len(llm.calls)) == ("C", 2)


@pytest.mark.parametrize("reply", ["(b)", "B."])
async def test_a_bare_letter_is_understood_and_recorded(reply):
    answer, _ = await answered(DONE, reply, name="ircot:choice=true", question=CHOICE)
    assert answer.text == "B"
    assert any("not of the schema" in reason for reason in reasons(answer))


async def test_without_a_choice_the_chains_answer_stands_and_it_says_so():
    answer, _ = await answered(
        DONE, "perhaps", '{"answer": "Z"}', name="ircot:choice=true", question=CHOICE
    )
    assert answer.text == "judo"
    assert any("not held to a letter" in reason for reason in reasons(answer))


async def test_without_options_no_choice_is_asked_for():
    answer, llm = await answered(DONE, name="ircot:choice=true")
    assert (answer.text, len(llm.calls)) == ("judo", 1)


async def test_a_model_that_fails_is_an_error_and_no_answer():
    with pytest.raises(LLMError, match="down"):
        await answered(FIRST, LLMError("the server is down", status=500))


async def test_a_deadline_ends_the_chain_and_the_reader_answers(monkeypatch):
    class Slow(ScriptedLLM):
        async def complete(self, request):
            if is_thought(request) and len(self.calls) == 1:
                raise TimeoutError  # what asyncio.timeout makes of a deadline that passes
            return await super().complete(request)

    llm = Slow(("", FIRST), ("", "judo"))
    method = build("ircot", parts_of(llm, k=1, deadline_s=60.0))
    answer = await method.answer(SPORT)
    assert (answer.text, answer.stop, len(answer.rounds)) == ("judo", "deadline", 2)
