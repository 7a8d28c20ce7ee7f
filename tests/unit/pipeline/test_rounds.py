"""Rounds, their ends, held items, whole tables and routing, with a scripted model."""

import asyncio
import json
from dataclasses import replace

import pytest

from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.errors import LLMError
from canopy_rag.core.evidence import Meter
from canopy_rag.core.protocols import Entry
from canopy_rag.core.trees import leaves
from canopy_rag.pipeline.critic import LLMCritic
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.pipeline.route import ModalityRouter
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.scripted import ScriptedLLM
from tests.unit.pipeline.conftest import image_item, table_item, text_item

QUESTION = "Which sport has the name Douillet?"
FOLLOW_UP = "the year judo was invented"
COLOUR = "the colour of a judo uniform"


def missing(follow_up):
    return json.dumps({"sufficient": False, "follow_up": follow_up})


ENOUGH = json.dumps({"sufficient": True, "follow_up": ""})
NOT_AGGREGATE, AGGREGATE = json.dumps({"aggregate": False}), json.dumps({"aggregate": True})


def store_of(encoder, items):
    store = MemoryStore(encoder.fingerprint)
    vectors = encoder.encode_items(items)
    store.replace(
        [item.source.uri for item in items],
        [
            Entry(item=item, vectors=each, source_sha256="0")
            for item, each in zip(items, vectors, strict=True)
        ],
    )
    return store


ITEMS = (
    table_item("champions.csv", ("name", "sport"), (("Douillet", "judo"), ("Bolt", "running"))),
    text_item(
        "judo.txt",
        "The year judo was invented: 1882.",
        "The colour of a judo uniform is white.",
        "Many people practise.",
    ),
    text_item("tea.txt", "Tea is a drink.", "Green tea is steamed."),
    image_item("cat.png", "a cat asleep"),
)


@pytest.fixture
def looping(encoder):
    def make(llm, *, items=ITEMS, k=1, rounds=3, selection=None, router=False, **retrieval):
        return Loop(
            retriever=Retriever(encoder=encoder, store=store_of(encoder, items)),
            reader=LLMReader(llm=llm),
            critic=LLMCritic(llm=llm),
            router=ModalityRouter(llm=llm) if router else None,
            classifier=llm,
            retrieval=RetrievalConfig(k=k, rounds=rounds, **retrieval),
            selection=selection or SelectConfig(min_tokens=0, select="paper"),
            meter=Meter(count=encoder.count_tokens),
        )

    return make


def script(*replies):
    """Replies in the order of the calls, whatever the prompts."""
    return ScriptedLLM(*(("", reply) for reply in replies))


def names(llm):
    return [call.schema_name or "reader" for call in llm.calls]


async def test_a_sufficient_first_round_ends_the_loop(looping):
    llm = script(NOT_AGGREGATE, ENOUGH, "In 1882 [1].")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert names(llm) == ["aggregate", "critic", "reader"]
    assert answer.stop == "sufficient"
    assert len(answer.rounds) == 1
    assert answer.rounds[0].verdict.sufficient
    assert answer.usage.llm_calls == 3


async def test_a_second_round_searches_and_refines_with_the_follow_up(looping):
    llm = script(NOT_AGGREGATE, missing(FOLLOW_UP), ENOUGH, "In 1882 [2].")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert [each.query for each in answer.rounds] == [QUESTION, FOLLOW_UP]
    table, judo = answer.evidence.entries
    assert (table.round, judo.round) == (1, 2)
    assert judo.query == FOLLOW_UP
    assert answer.evidence.fragments[1].text == "The year judo was invented: 1882."
    assert [each.n_new for each in answer.rounds] == [1, 1]
    assert answer.stop == "sufficient"


async def test_no_critic_is_asked_after_the_last_round(looping):
    llm = script(NOT_AGGREGATE, missing(FOLLOW_UP), missing("tea drink steamed"), "No idea.")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert names(llm) == ["aggregate", "critic", "critic", "reader"]
    assert [each.number for each in answer.rounds] == [1, 2, 3]
    assert answer.stop == "last_round"
    assert answer.rounds[-1].verdict is None


async def test_one_allowed_round_asks_no_critic(looping):
    llm = script(NOT_AGGREGATE, "No idea.")
    answer = await looping(llm, rounds=1).answer(QUESTION)
    llm.assert_done()
    assert answer.stop == "last_round"


@pytest.mark.parametrize("follow_up", ["", "  which SPORT has the name, Douillet "])
async def test_an_empty_or_repeated_follow_up_ends_the_loop(looping, follow_up):
    llm = script(NOT_AGGREGATE, missing(follow_up), "No idea.")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert answer.stop == "repeated_query"
    assert len(answer.rounds) == 1


async def test_a_round_that_brings_nothing_new_ends_the_loop(looping):
    llm = script(NOT_AGGREGATE, missing("sport of Douillet, name"), "Judo [1].")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert answer.stop == "nothing_new"
    assert answer.rounds[1].hits[0].held
    assert answer.rounds[1].n_new == 0


async def test_held_items_keep_their_regions_or_gain_new_ones(looping):
    replies = (NOT_AGGREGATE, missing(FOLLOW_UP), missing(COLOUR), "White.")
    kept = await looping(script(*replies)).answer(QUESTION)
    assert kept.stop == "nothing_new"
    assert "uniform is white" not in kept.evidence.text
    selection = SelectConfig(min_tokens=0, select="paper", repeat="union")
    united = await looping(script(*replies), selection=selection).answer(QUESTION)
    assert united.stop == "last_round"
    assert "1882" in united.evidence.text
    assert "uniform is white" in united.evidence.text


async def test_an_aggregate_question_gets_its_tables_whole_and_is_classified_once(looping):
    second = table_item(
        "runners.csv", ("name", "sport"), (("Douillet", "judo"), ("Ali", "boxing"), ("Li", "golf"))
    )
    llm = script(AGGREGATE, missing(FOLLOW_UP), ENOUGH, "Two.")
    answer = await looping(llm, items=(*ITEMS, second), k=3).answer(QUESTION)
    assert names(llm).count("aggregate") == 1
    tables = [each for each in answer.evidence.entries if each.item.modality == "table"]
    assert len(tables) == 2
    assert {(each.why, each.kept) for each in tables} == {("aggregate", (0,))}


async def test_a_table_that_first_appears_in_round_two_is_classified_then(looping):
    llm = script(missing("name of the sport: Douillet"), AGGREGATE, ENOUGH, "Two.")
    answer = await looping(llm).answer(FOLLOW_UP)
    llm.assert_done()
    assert names(llm) == ["critic", "aggregate", "critic", "reader"]
    assert answer.evidence.entries[1].why == "aggregate"


async def test_every_query_is_routed_and_each_corpus_gives_k_items(looping):
    route = json.dumps({"modalities": ["text", "image"]})
    table_only = json.dumps({"modalities": ["table"]})
    llm = script(
        route,
        missing("name of the sport: Douillet"),
        table_only,
        NOT_AGGREGATE,
        ENOUGH,
        "Judo [3].",
    )
    answer = await looping(llm, router=True).answer(QUESTION)
    llm.assert_done()
    assert names(llm) == ["router", "critic", "router", "aggregate", "critic", "reader"]
    assert [each.routed for each in answer.rounds] == [("text", "image"), ("table",)]
    assert [len(each.hits) for each in answer.rounds] == [2, 1]
    assert [hit.rank for hit in answer.rounds[0].hits] == [1, 2]


async def test_none_searches_everything_or_answers_without_evidence(looping):
    none = json.dumps({"modalities": ["none"]})
    llm = script(none, NOT_AGGREGATE, "Yes.")
    searched = await looping(llm, router=True, rounds=1).answer(QUESTION)
    assert len(searched.rounds[0].hits) == 1
    llm = script(none, "Yes.")
    answered = await looping(llm, router=True, rounds=1, none="answer").answer(QUESTION)
    assert answered.rounds[0].hits == ()
    assert answered.evidence.entries == ()


async def test_soft_routing_keeps_a_place_for_every_modality_without_a_model(looping):
    llm = script(NOT_AGGREGATE, "Yes.")
    answer = await looping(llm, k=3, rounds=1, route="soft").answer(QUESTION)
    assert {entry.item.modality for entry in answer.evidence.entries} == {"text", "table", "image"}


async def test_a_failing_critic_stops_retrieval_and_the_reader_answers(looping):
    llm = script(NOT_AGGREGATE, LLMError("the server is down", status=500), "In 1882 [1].")
    answer = await looping(llm).answer(QUESTION)
    llm.assert_done()
    assert answer.stop == "no_critic"
    assert answer.text == "In 1882 [1]."
    assert [note.stage for note in answer.rounds[0].fallbacks] == ["critic"]


async def test_a_budget_holds_over_all_rounds_and_what_it_leaves_out_is_not_held(looping):
    llm = script(NOT_AGGREGATE, missing(FOLLOW_UP), missing(COLOUR), "White.")
    loop = looping(
        llm, selection=SelectConfig(min_tokens=0, select="paper", budget=16, repeat="union"), k=2
    )
    answer = await loop.answer(QUESTION)
    assert 0 < answer.evidence.tokens <= 16
    for entry in answer.evidence.entries:
        assert leaves(entry.item.nodes, entry.kept[0])
    shown = {entry.item.id for entry in answer.evidence.entries}
    assert shown.isdisjoint(each.item_id for each in answer.evidence.left_out)


async def test_a_deadline_ends_the_rounds_and_what_was_found_is_read(looping):
    asked = asyncio.Event()

    class Silent(LLMCritic):
        async def judge(self, question, evidence, queries):
            asked.set()
            await asyncio.Event().wait()

    llm = script(NOT_AGGREGATE, "Judo [1].")
    loop = looping(llm, deadline_s=0.2)
    answer = await replace(loop, critic=Silent(llm=llm)).answer(QUESTION)
    assert asked.is_set()
    assert answer.stop == "deadline"
    assert answer.text == "Judo [1]."
    assert len(answer.rounds) == 1


async def test_a_cancelled_question_ends_at_once_and_leaves_others_alone(looping):
    started = asyncio.Event()

    class Hanging(ScriptedLLM):
        async def complete(self, request):
            started.set()
            await asyncio.Event().wait()

    hanging = asyncio.create_task(looping(Hanging()).answer(QUESTION))
    await started.wait()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    llm = script(NOT_AGGREGATE, ENOUGH, "In 1882 [1].")
    assert (await looping(llm).answer(QUESTION)).stop == "sufficient"


async def test_the_stages_of_all_rounds_are_timed(looping):
    llm = script(NOT_AGGREGATE, missing(FOLLOW_UP), ENOUGH, "In 1882 [2].")
    answer = await looping(llm).answer(QUESTION)
    stages = {"retrieve", "search", "classify", "refine", "critic", "read"}
    assert set(answer.usage.seconds) == stages
    assert answer.usage.prompt_tokens == sum(
        [await llm.count_tokens(text) for text in map(_prompt, llm.calls)]
    )


def _prompt(request):
    from canopy_rag.testing.scripted import prompt_text

    return prompt_text(request)
