"""S2G-RAG: a judge names gaps, an extractor takes sentences for them."""

import json

import pytest

from canopy_rag.baselines._gaps import JUDGE, Gap, gap_query
from canopy_rag.baselines._sentences import EXTRACT, listed
from canopy_rag.baselines.registry import build
from canopy_rag.core.errors import LLMError, OutputParseError
from canopy_rag.testing.scripted import ScriptedLLM, prompt_text
from tests.unit.baselines.conftest import ITEMS, SPORT, parts_of, texts
from tests.unit.pipeline.conftest import table_item, text_item

SUFFICIENT = json.dumps({"sufficient": True, "gap_items": []})


def lacks(*gaps):
    items = [
        {"category": "attribute", "target": target, "slot": slot, "description": description}
        for target, slot, description in gaps
    ]
    return json.dumps({"sufficient": False, "gap_items": items})


def takes(*ids):
    return json.dumps({"ids": list(ids)})


SPORT_GAP = lacks(("Douillet", "sport", "What sport Douillet does."))
YEAR_GAP = lacks(("judo", "year invented", ""))


async def answered(*replies, name="s2g-rag", k=1, question=SPORT, **settings):
    llm = ScriptedLLM(*(("", reply) for reply in replies))
    answer = await build(name, parts_of(llm, k=k, **settings)).answer(question)
    llm.assert_done()
    assert answer.usage.llm_calls == len(llm.calls)
    return answer, llm


def names(llm):
    return [each.schema_name for each in llm.calls]


def notes(answer):
    return [(note.stage, note.reason) for each in answer.rounds for note in each.fallbacks]


async def test_one_round_is_judge_extractor_judge_answer():
    answer, llm = await answered(SPORT_GAP, takes(1), SUFFICIENT, "judo")
    assert names(llm) == ["judge", "extract", "judge", None]
    assert answer.rounds[0].query == f"{SPORT.text} Douillet sport"
    assert texts(answer) == ["Douillet | judo"]
    assert (answer.text, answer.stop) == ("judo", "sufficient")
    assert answer.rounds[0].verdict.sufficient
    assert {"judge", "extract", "retrieve", "read"} <= set(answer.usage.seconds)


async def test_the_judge_sees_the_sentences_taken_and_never_the_documents():
    _, llm = await answered(SPORT_GAP, takes(1), SUFFICIENT, "judo")
    first, extractor, second, reader = map(prompt_text, llm.calls)
    assert "Douillet | judo" not in first
    assert "[1] Champions (1): name: Douillet; sport: judo" in extractor
    assert "- Douillet sport" in extractor
    assert "Douillet | judo" in second
    assert "Bolt" not in second + reader


async def test_gaps_lead_to_a_second_round_and_sentences_add_up():
    answer, llm = await answered(SPORT_GAP, takes(1), YEAR_GAP, takes(1), SUFFICIENT, "1882")
    assert names(llm) == ["judge", "extract", "judge", "extract", "judge", None]
    assert [each.query for each in answer.rounds] == [
        f"{SPORT.text} Douillet sport",
        f"{SPORT.text} judo year invented",
    ]
    assert answer.rounds[0].verdict.follow_up == answer.rounds[1].query
    assert len(answer.evidence.fragments) >= 1


async def test_after_three_rounds_the_judge_is_asked_once_more_and_its_reply_changes_nothing():
    rounds = (takes(1), YEAR_GAP) * 3
    answer, llm = await answered(SPORT_GAP, *rounds, "1882")
    assert names(llm) == ["judge", *("extract", "judge") * 3, None]
    assert (len(answer.rounds), answer.stop) == (3, "last_round")


async def test_fewer_rounds_may_be_allowed():
    answer, llm = await answered(SPORT_GAP, takes(1), YEAR_GAP, "x", name="s2g-rag:rounds=1")
    assert (len(answer.rounds), len(llm.calls)) == (1, 4)


async def test_a_judge_that_is_content_with_nothing_is_overruled():
    answer, llm = await answered(SUFFICIENT, takes(1), SUFFICIENT, "judo")
    assert answer.rounds[0].query == SPORT.text
    assert "(none named)" in prompt_text(llm.calls[1])


async def test_a_judge_that_names_no_gap_searches_the_question_again():
    answer, _ = await answered(SPORT_GAP, takes(1), lacks(), takes(2), SUFFICIENT, "judo")
    assert answer.rounds[1].query == SPORT.text
    assert all(hit.held for hit in answer.rounds[1].hits)
    assert texts(answer) == ["Douillet | judo", "Bolt | running"]
    assert answer.rounds[1].n_new == 0


async def test_broken_json_of_the_judge_is_repaired_once():
    answer, llm = await answered("Not yet!", SPORT_GAP, takes(1), SUFFICIENT, "judo")
    assert names(llm) == ["judge", "judge", "extract", "judge", None]
    assert answer.rounds[0].query.endswith("Douillet sport")
    assert ("judge", "repaired") in [(stage, reason[-8:]) for stage, reason in notes(answer)]


async def test_a_judge_that_cannot_be_understood_means_that_evidence_is_missing():
    answer, _ = await answered(
        "Not yet!", "{", takes(1), "still", "nothing", takes(2), SUFFICIENT, "judo"
    )
    assert [each.query for each in answer.rounds] == [SPORT.text, SPORT.text]
    assert answer.rounds[0].verdict is None
    assert sum("taken to be missing" in reason for _, reason in notes(answer)) == 2


async def test_a_judge_that_does_not_answer_means_that_evidence_is_missing():
    down = LLMError("the server is down", status=500)
    llm = ScriptedLLM(("", down), ("", takes(1)), ("", SUFFICIENT), ("", "judo"))
    answer = await build("s2g-rag", parts_of(llm, k=1)).answer(SPORT)
    assert answer.rounds[0].query == SPORT.text
    assert any("no reply" in reason for _, reason in notes(answer))


async def test_numbers_of_no_sentence_are_dropped_and_recorded():
    answer, _ = await answered(SPORT_GAP, takes(2, 99, 0), SUFFICIENT, "x")
    assert texts(answer) == ["Bolt | running"]
    assert any("99, 0" in reason for stage, reason in notes(answer) if stage == "extract")


async def test_no_more_than_six_sentences_are_taken():
    long = text_item("long.txt", *(f"Douillet won fight {n}." for n in range(9)))
    answer, _ = await answered(SPORT_GAP, takes(*range(9, 0, -1)), SUFFICIENT, "x", items=(long,))
    (entry,) = answer.evidence.entries
    leaves = [node.index for node in long.nodes if not node.children]
    assert entry.kept == tuple(leaves[3:9])


async def test_chosen_sentences_stand_in_the_order_of_the_documents():
    answer, _ = await answered(SPORT_GAP, takes(5, 1, 2), SUFFICIENT, "x", k=2)
    ranks = [each.rank for each in answer.evidence.entries]
    assert ranks == sorted(ranks)
    assert texts(answer)[:2] == ["Douillet | judo", "Bolt | running"]


async def test_an_extractor_that_takes_nothing_leaves_the_evidence_as_it_is():
    answer, llm = await answered(SPORT_GAP, takes(), SUFFICIENT, "unknown")
    assert answer.evidence.entries == ()
    left_out = {each.item.id for each in answer.evidence.left_out}
    assert left_out == {hit.item_id for hit in answer.rounds[0].hits}
    assert answer.text == "unknown"
    assert names(llm) == ["judge", "extract", "judge", None]


async def test_an_extractor_that_cannot_be_understood_takes_nothing_and_says_so():
    answer, _ = await answered(SPORT_GAP, "all", "of them", SUFFICIENT, "unknown")
    assert answer.evidence.entries == ()
    assert any("no sentence is taken" in reason for _, reason in notes(answer))


async def test_nothing_retrieved_is_not_extracted_from():
    answer, llm = await answered(SPORT_GAP, SUFFICIENT, "unknown", items=())
    assert names(llm) == ["judge", "judge", None]
    assert answer.evidence.entries == ()


async def test_the_evidence_keeps_to_the_cap():
    long = text_item("long.txt", *(f"Douillet won fight number {n}." for n in range(9)))
    answer, _ = await answered(
        SPORT_GAP, takes(1, 2, 3, 4, 5, 6), SUFFICIENT, "x", items=(long,), budget=12
    )
    assert 0 < answer.evidence.tokens <= 12


async def test_a_list_that_does_not_fit_the_prompt_is_cut_and_it_says_so():
    long = tuple(
        text_item(f"{n}.txt", *(f"Douillet won fight {m} of {n}." for m in range(40)))
        for n in range(5)
    )
    answer, llm = await answered(SPORT_GAP, takes(1), SUFFICIENT, "x", items=long, k=5, budget=100)
    prompt = prompt_text(llm.calls[1])
    assert "[1] " in prompt
    assert "[100] " not in prompt
    assert any("of 200 sentences listed" in reason for _, reason in notes(answer))


def test_rows_carry_their_columns_pictures_their_captions_and_blank_rows_are_not_listed():
    table = table_item("t.csv", ("name", "sport"), (("Bolt", "running"), ("", "")), title="T")
    lines = [each.line for each in listed([table, ITEMS[3], ITEMS[1]])]
    assert lines[0] == "[1] T (1): name: Bolt; sport: running"
    assert lines[1] == "[2] a cat asleep (1): a cat asleep"
    assert lines[2].startswith("[3] Judo (1): Judo was invented")
    assert len(lines) == 5


def test_of_a_long_item_forty_sentences_are_listed():
    long = text_item("long.txt", *(f"Sentence {n}." for n in range(60)))
    assert len(listed([long, long])) == 80


def test_numbers_in_documents_do_not_pass_for_sentence_numbers():
    item = text_item("n.txt", "As shown [2], it is so.", title="N [9]")
    assert listed([item])[0].line == "[1] N [ 9] (1): As shown [ 2], it is so."


@pytest.mark.parametrize(
    ("reply", "ids"),
    [
        ('{"ids": [4, 17]}', (4, 17)),
        ('{"ids": ["4", 4]}', (4,)),
        ("[4, 17]", (4, 17)),
        ("4, 17", (4, 17)),
        ("[]", ()),
        ('```json\n{"ids": []}\n```', ()),
    ],
)
def test_lists_of_numbers_are_understood(reply, ids):
    assert EXTRACT.read(reply).value == ids


@pytest.mark.parametrize("reply", ["", "the first two", '{"ids": [1.5]}', '{"ids": [true]}'])
def test_what_is_no_list_of_numbers_is_not_guessed_at(reply):
    with pytest.raises(OutputParseError):
        EXTRACT.read(reply)


def test_a_query_asks_for_at_most_three_gaps_and_falls_back_to_their_description():
    said = JUDGE.read(
        lacks(("a", "b", ""), ("", "", "the  year"), ("", "", ""), ("c", "", ""), ("d", "", ""))
    ).value
    assert gap_query("Who?", said.gaps) == "Who? a b the year c"
    assert gap_query("Who?", [Gap(target="", slot="", description="")]) == "Who?"
