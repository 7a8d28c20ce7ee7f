"""From hits to evidence: selection, pass-through, budget, what is left out."""

from dataclasses import replace

import pytest

from canopy_rag.config import SelectConfig
from canopy_rag.core.budget import fit
from canopy_rag.core.evidence import Evidence, Meter
from canopy_rag.core.refine import Refinement
from canopy_rag.pipeline.compressor import add_round, explain
from canopy_rag.pipeline.retrieve import Retriever
from tests.unit.pipeline.conftest import ITEMS

QUERY = "who created judo in 1882"
REFINED = SelectConfig(min_tokens=0, select="paper")


@pytest.fixture
def explained(encoder, store):
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(QUERY, 4)
    return explain(found, node_query, "paper")


def fitted(evidence, settings):
    return fit(evidence, settings.budget, settings.cap)


def shown(evidence):
    return {entry.item.source.uri: entry for entry in evidence.entries}


def test_the_part_that_answers_is_kept_and_the_rest_dropped(explained):
    evidence = add_round(Evidence(), explained, QUERY, REFINED)
    judo = shown(evidence)["judo.txt"]
    assert judo.why == "refined"
    assert "Judo was created in 1882 by Kano." in evidence.text
    assert "The uniform is white." not in evidence.text
    assert judo.query == QUERY
    assert (judo.round, judo.rank) == (1, 1)


def test_every_item_keeps_something_item_by_item(explained):
    evidence = add_round(Evidence(), explained, QUERY, REFINED)
    assert set(shown(evidence)) == {item.source.uri for item in ITEMS}
    assert evidence.left_out == ()


def test_over_the_set_an_item_may_be_left_out_and_is_named(encoder, store):
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(QUERY, 4)
    settings = replace(REFINED, select="set")
    evidence = add_round(Evidence(), explain(found, node_query, "set"), QUERY, settings)
    assert "judo.txt" in shown(evidence)
    names = {each.item_id: each.reason for each in evidence.left_out}
    assert set(names.values()) == {"nothing stands out"}
    assert len(evidence.entries) + len(evidence.left_out) == 4


def test_an_image_is_shown_whole_and_says_so(explained):
    evidence = add_round(Evidence(), explained, QUERY, REFINED)
    assert shown(evidence)["cat.png"].why == "image"
    assert shown(evidence)["cat.png"].kept == (0,)


def test_a_table_that_the_question_needs_whole_is_not_split(explained):
    table = next(item.id for item in ITEMS if item.modality == "table")
    evidence = add_round(Evidence(), explained, QUERY, REFINED, aggregate={table})
    assert shown(evidence)["medals.csv"].why == "aggregate"
    assert shown(evidence)["medals.csv"].kept == (0,)


def test_little_evidence_is_passed_through_whole(explained):
    evidence = add_round(Evidence(), explained, QUERY, SelectConfig(min_tokens=1000))
    assert {entry.why for entry in evidence.entries} == {"whole", "image"}
    assert evidence.tokens == evidence.tokens_full


def test_only_what_does_not_fit_is_refined_when_needed(explained):
    loose = replace(REFINED, when="needed", budget=1000)
    whole = fitted(add_round(Evidence(), explained, QUERY, loose), loose)
    assert whole.tokens == whole.tokens_full
    narrow = replace(REFINED, when="needed", budget=40)
    tight = fitted(add_round(Evidence(), explained, QUERY, narrow), narrow)
    assert tight.tokens <= 40
    assert "1882" in tight.text


@pytest.mark.parametrize("cap", ["margin", "tail"])
@pytest.mark.parametrize("budget", [1, 3, 10, 25, 60])
@pytest.mark.parametrize("numbered", [False, True])
def test_the_budget_holds_and_never_empties(explained, cap, budget, numbered):
    settings = replace(REFINED, cap=cap, budget=budget)
    start = Evidence(meter=Meter(numbered=numbered))
    evidence = fitted(add_round(start, explained, QUERY, settings), settings)
    assert 0 < evidence.tokens <= budget


def test_held_items_keep_their_first_regions_or_gain_the_new_ones(encoder, store, explained):
    first = add_round(Evidence(), explained, QUERY, REFINED)
    follow_up = "what colour is the uniform"
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(follow_up, 4)
    again = explain(found, node_query, "paper")
    kept = add_round(first, again, follow_up, REFINED, number=2)
    assert kept.text == first.text
    united = add_round(first, again, follow_up, replace(REFINED, repeat="union"), number=2)
    assert "The uniform is white." in united.text
    assert "Judo was created in 1882 by Kano." in united.text


def test_retrieval_can_be_held_to_modalities(encoder, store):
    retriever = Retriever(encoder=encoder, store=store)
    found, _ = retriever.retrieve("judo", 4, ["table"])
    assert [each.item.modality for each in found] == ["table"]


def test_a_table_needed_whole_is_shown_even_if_nothing_in_it_stands_out(encoder, store):
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(QUERY, 4)
    explained = explain(found, node_query, "set")
    table = next(each for each in explained if each.found.item.modality == "table")
    nothing = replace(table, refinement=Refinement((), {0: "drop"}))
    rest = [nothing if each is table else each for each in explained]
    evidence = add_round(
        Evidence(), rest, QUERY, replace(REFINED, select="set"), aggregate={table.found.item.id}
    )
    assert shown(evidence)["medals.csv"].kept == (0,)
    assert table.found.item.id not in {each.item_id for each in evidence.left_out}


def test_an_item_left_out_in_two_rounds_is_named_once(encoder, store):
    settings = replace(REFINED, select="set")
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(QUERY, 4)
    explained = explain(found, node_query, "set")
    first = add_round(Evidence(), explained, QUERY, settings)
    second = add_round(first, explained, QUERY, settings, number=2)
    assert second.left_out == first.left_out != ()


def test_items_are_shown_whole_if_only_a_text_without_words_stands_out(encoder, store):
    found, node_query = Retriever(encoder=encoder, store=store).retrieve(QUERY, 4)
    explained = explain(found, node_query, "paper")
    texts = [each for each in explained if each.found.item.modality in ("text", "table")]
    item = texts[0].found.item
    blank = replace(item, payload=replace(item.payload, text=" " * 500))
    first = replace(texts[0], found=replace(texts[0].found, item=blank))
    rest = [replace(each, refinement=Refinement((), {0: "drop"})) for each in texts[1:]]
    evidence = add_round(Evidence(), [first, *rest], QUERY, replace(REFINED, select="set"))
    assert [entry.why for entry in evidence.entries] == ["whole"] * len(texts)
    assert fit(evidence, 3).text.strip()
