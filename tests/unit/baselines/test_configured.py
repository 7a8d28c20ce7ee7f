"""Methods that are the loop, configured: Canopy, its ablations, Vanilla RAG, flat, RECOMP."""

import dataclasses
import json

import pytest

from canopy_rag.baselines.base import asked
from canopy_rag.baselines.registry import build
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.questions import Question
from canopy_rag.pipeline.retrieve import Retrieved, Retriever
from canopy_rag.testing.scripted import ScriptedLLM, prompt_text
from tests.unit.baselines.conftest import (
    ENOUGH,
    ITEMS,
    NOT_AGGREGATE,
    SPORT,
    YEAR,
    item_id_of,
    missing,
    parts_of,
    texts,
)
from tests.unit.pipeline.conftest import text_item

COLOUR = "the white uniform of judo"


async def answered(name, *replies, question=SPORT, **settings):
    llm = ScriptedLLM(*(("", reply) if isinstance(reply, str) else reply for reply in replies))
    answer = await build(name, parts_of(llm, **settings)).answer(question)
    llm.assert_done()
    assert answer.usage.llm_calls == len(llm.calls)
    return answer, llm


async def test_vanilla_reads_the_items_whole_in_rank_order_with_one_call():
    answer, llm = await answered("vanilla", "judo")
    assert [each.why for each in answer.evidence.entries] == ["whole", "whole"]
    assert answer.evidence.tokens == answer.evidence.tokens_full
    assert [each.item.id for each in answer.evidence.entries] == [
        hit.item_id for hit in answer.rounds[0].hits
    ]
    assert answer.text == "judo"
    assert answer.stop == "last_round"
    assert llm.calls[0].schema is None


async def test_over_the_cap_vanilla_drops_the_latest_retrieved_first():
    answer, _ = await answered("vanilla", "judo", k=3, budget=30)
    whole, _ = await answered("vanilla", "judo", k=3)
    first = [each.item.id for each in whole.evidence.entries]
    assert answer.evidence.tokens <= 30 < whole.evidence.tokens
    kept = [each.item.id for each in answer.evidence.entries]
    assert 0 < len(kept) <= len(first)
    assert kept == first[: len(kept)]


async def test_a_single_item_over_the_cap_is_cut_and_not_dropped():
    long = text_item("long.txt", *(f"Douillet won fight {n}." for n in range(90)))
    answer, _ = await answered("vanilla", "x", items=(long,), budget=20)
    assert 0 < answer.evidence.tokens <= 20
    assert texts(answer)[0].startswith("Douillet won fight 0.")


async def test_canopy_goes_through_three_rounds_and_the_critic_is_not_asked_after_the_last():
    answer, llm = await answered(
        "canopy",
        *(NOT_AGGREGATE, missing(YEAR), missing(COLOUR), "white"),
        k=1,
    )
    assert [each.query for each in answer.rounds] == [SPORT.text, YEAR, COLOUR]
    assert answer.stop in {"nothing_new", "last_round"}
    assert [each.schema_name for each in llm.calls] == ["aggregate", "critic", "critic", None]


async def test_without_refinement_items_are_whole_and_no_table_is_classified():
    answer, llm = await answered("canopy-norefine", missing(YEAR), ENOUGH, "1882", k=1)
    assert [each.schema_name for each in llm.calls] == ["critic", "critic", None]
    assert {each.why for each in answer.evidence.entries} == {"whole"}
    assert answer.evidence.tokens == answer.evidence.tokens_full
    assert answer.stop == "sufficient"


async def test_without_iteration_no_critic_is_asked():
    answer, llm = await answered("canopy-oneround", NOT_AGGREGATE, "judo", k=2)
    assert [each.schema_name for each in llm.calls] == ["aggregate", None]
    assert (answer.stop, len(answer.rounds)) == ("last_round", 1)
    assert answer.evidence.tokens < answer.evidence.tokens_full


async def test_the_router_of_canopy_routed_is_asked_for_every_query():
    table, text = (json.dumps({"modalities": [name]}) for name in ("table", "text"))
    answer, llm = await answered(
        "canopy-routed", table, NOT_AGGREGATE, missing(YEAR), text, ENOUGH, "1882", k=1
    )
    assert [each.routed for each in answer.rounds] == [("table",), ("text",)]
    names = ["router", "aggregate", "critic", "router", "critic", None]
    assert [each.schema_name for each in llm.calls] == names


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reversed(Retriever):
    """Compares nodes the other way round, so that one sees whose node vectors were used."""

    def retrieve(self, query, k, modalities=None):
        found, node_query = Retriever.retrieve(self, query, k, modalities)
        return Retrieved(found, node_query._replace(vector=-node_query.vector))


@pytest.mark.parametrize("name", ["canopy-f0", "flat:m=1,encoder=f0", "recomp:n=1"])
async def test_with_f0_nodes_are_compared_by_the_frozen_encoder(name):
    parts = parts_of(ScriptedLLM(), items=ITEMS[1:2], k=1, rounds=1)
    own = parts.frozen
    other = dataclasses.replace(parts, frozen=Reversed(encoder=own.encoder, store=own.store))
    question = Question(id="1", text=YEAR, answers=(), kind="", gold=())
    kept = {}
    for label, each in {"own": parts, "other": other}.items():
        llm = ScriptedLLM(("", "1882"))
        loop = dataclasses.replace(
            each.loop, reader=dataclasses.replace(each.loop.reader, llm=llm), classifier=None
        )
        kept[label] = texts(
            await build(name, dataclasses.replace(each, loop=loop)).answer(question)
        )
    assert any("1882" in text for text in kept["own"])
    assert kept["own"] != kept["other"]


async def test_flat_keeps_the_best_leaves_of_each_item_in_their_order():
    answer, _ = await answered("flat:m=2", NOT_AGGREGATE, ENOUGH, "judo", k=3)
    for entry in answer.evidence.entries:
        leaves = [node.index for node in entry.item.nodes if not node.children]
        if entry.why == "refined":
            best = sorted(leaves, key=lambda leaf: (-entry.value(leaf), leaf))[:2]
            assert entry.kept == tuple(sorted(best))
    assert any(entry.why == "refined" for entry in answer.evidence.entries)


async def test_flat_goes_through_rounds_and_passes_tables_whole_to_who_counts():
    aggregate = json.dumps({"aggregate": True})
    answer, _ = await answered("flat:m=1", aggregate, missing(YEAR), ENOUGH, "3", k=1)
    table, text = answer.evidence.entries
    assert (table.why, table.kept) == ("aggregate", (0,))
    assert texts(answer)[1] == "Judo was invented in the year 1882."
    assert (text.round, answer.stop) == (2, "sufficient")


async def test_recomp_keeps_the_best_sentences_of_all_items_in_the_order_of_the_documents():
    answer, llm = await answered("recomp:n=3", "judo", k=4)
    assert len(llm.calls) == 1
    cut = [each for each in answer.evidence.entries if each.why == "refined"]
    n_kept = sum(len(each.kept) for each in cut)
    assert 0 < n_kept <= 3
    pool = sorted(
        (-entry.value(node.index), entry.rank, node.index)
        for entry in answer.evidence.entries
        if entry.item.modality != "image"
        for node in entry.item.nodes
        if not node.children
    )
    assert {(entry.rank, leaf) for entry in cut for leaf in entry.kept} <= {
        each[1:] for each in pool[:3]
    }
    for entry in cut:
        assert entry.kept == tuple(sorted(entry.kept))
    (picture,) = (each for each in answer.evidence.entries if each.item.modality == "image")
    assert picture.kept == (0,)


async def test_recomp_leaves_out_items_without_a_chosen_sentence():
    answer, _ = await answered("recomp:n=1", "judo", items=ITEMS[:3], k=3)
    assert [each.item.id for each in answer.evidence.entries] == [item_id_of("champions.csv")]
    assert texts(answer) == ["Douillet | judo"]
    left_out = answer.evidence.left_out
    assert {each.item.source.uri for each in left_out} == {"judo.txt", "tea.txt"}
    assert len(answer.evidence.left_out) == 2


@pytest.mark.parametrize("name", ["canopy", "canopy-norefine", "flat", "vanilla", "recomp"])
async def test_nothing_retrieved_is_read_as_nothing(name):
    replies = ["unknown"] if name in ("vanilla", "recomp") else [ENOUGH, "unknown"]
    answer, _ = await answered(name, *replies, items=())
    assert answer.evidence.entries == ()
    assert (answer.text, answer.rounds[0].hits) == ("unknown", ())


async def test_options_are_told_to_the_reader_and_not_searched():
    question = dataclasses.replace(SPORT, options=("tea", "judo"))
    answer, llm = await answered("vanilla", "B", question=question)
    assert answer.rounds[0].query == SPORT.text
    assert f"{SPORT.text}\nA. tea\nB. judo" in prompt_text(llm.calls[0])
    assert answer.question == asked(question)


def test_more_options_than_letters_are_refused():
    question = dataclasses.replace(SPORT, options=("x",) * 27)
    with pytest.raises(ConfigError, match="27 options"):
        asked(question)
