from __future__ import annotations

import logging

import pytest

import canopy_rag as canopy
from canopy_rag.core.errors import MissingDependencyError
from canopy_rag.integrations._refining import Given, Refiner
from canopy_rag.testing.hashing import HashingEncoder
from tests.unit.integrations.conftest import JUDO, BrokenEncoder, CrashingEncoder

DOCUMENTS = [Given(text=JUDO, title="Judo", uri="judo.txt"), Given(text="Tea comes from China.")]


def test_the_text_is_a_part_of_the_original_and_its_spans_say_which(compressor) -> None:
    first, second = Refiner(compressor).refine("When was judo created?", DOCUMENTS)
    assert first.text == "Judo was created in 1882 by Kano."
    assert first.record["spans"] == [[0, len(first.text)]]
    assert first.record["fragments"][0]["source"]["uri"] == "judo.txt"
    assert (second.position, second.text) == (1, DOCUMENTS[1].text)
    assert first.record["fallbacks"] == second.record["fallbacks"] == []


def test_regions_that_are_no_neighbours_have_a_mark_between(make_compressor) -> None:
    text = "Rain fell in May. Trains were late. Soup was hot. Rain fell in June."
    compressor = make_compressor(select="set")
    (refined,) = Refiner(compressor).refine("rain fell", [Given(text=text)])
    assert refined.text == "Rain fell in May. … Rain fell in June."


def test_the_title_helps_to_decide_and_is_not_shown(compressor) -> None:
    (refined,) = Refiner(compressor).refine("judo created", [Given(text=JUDO, title="A title")])
    assert "A title" not in refined.text


@pytest.mark.parametrize("query", ["", "  \n", None])
def test_without_a_query_all_stays_and_the_reason_is_told(compressor, query) -> None:
    refined = Refiner(compressor).refine(query, DOCUMENTS)
    assert [each.text for each in refined] == [each.text for each in DOCUMENTS]
    assert {each.record["fallbacks"][0]["stage"] for each in refined} == {"query"}


def test_no_documents_give_none(compressor) -> None:
    assert Refiner(compressor).refine("judo", []) == []


def test_a_blank_document_stays_as_it_is(compressor) -> None:
    refined = Refiner(compressor).refine("judo", [Given(text=" \n "), *DOCUMENTS])
    assert [each.position for each in refined] == [0, 1, 2]
    assert (refined[0].text, refined[0].record["fallbacks"]) == (" \n ", [])


def test_a_document_that_cannot_be_read_stays_and_the_others_are_refined(compressor) -> None:
    bad = Given(text="half \ud800 pair")
    first, second = Refiner(compressor).refine("When was judo created?", [bad, DOCUMENTS[0]])
    assert first.text == bad.text
    assert first.record["fallbacks"][0]["stage"] == "read"
    assert "surrogate" in first.record["fallbacks"][0]["reason"]
    assert second.text == "Judo was created in 1882 by Kano."


def test_an_encoder_that_fails_gives_all_originals_with_the_reason(make_compressor) -> None:
    refined = Refiner(make_compressor(BrokenEncoder(), budget=3)).refine("judo", DOCUMENTS)
    assert [each.text for each in refined] == [each.text for each in DOCUMENTS]
    assert {each.record["fallbacks"][0]["stage"] for each in refined} == {"encode"}
    assert "out of memory" in refined[1].record["fallbacks"][0]["reason"]


def test_a_failure_that_nobody_foresaw_is_recorded_and_logged(make_compressor, caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="canopy_rag"):
        refined = Refiner(make_compressor(CrashingEncoder())).refine("judo", DOCUMENTS)
    assert [each.text for each in refined] == [each.text for each in DOCUMENTS]
    reason = refined[0].record["fallbacks"][0]
    assert reason == {"stage": "compress", "reason": "RuntimeError: a driver went away"}
    assert "a driver went away" in caplog.text


def test_a_package_that_is_missing_is_no_accident_and_raises(make_compressor) -> None:
    class Missing(HashingEncoder):
        def encode_items(self, items):
            raise MissingDependencyError("run pip install 'canopy-rag[qwen]'")

    with pytest.raises(MissingDependencyError):
        Refiner(make_compressor(Missing())).refine("judo", DOCUMENTS)


def test_what_keeps_nothing_is_left_out_and_never_all(make_compressor) -> None:
    other = Given(text="Soup is eaten with a spoon. Trains were late again.")
    documents = [other, DOCUMENTS[0], other]
    refined = Refiner(make_compressor(select="set")).refine("judo created 1882 Kano", documents)
    assert [each.position for each in refined] == [1]


def test_a_budget_is_kept_and_something_is_always_shown(make_compressor) -> None:
    for budget in (1, 4, 9, 14):
        compressor = make_compressor(budget=budget)
        refined = Refiner(compressor).refine("When was judo created?", DOCUMENTS)
        text = "\n\n".join(each.text for each in refined)
        assert text.strip()
        assert compressor.encoder.count_tokens(text) <= budget


def test_a_cut_text_ends_in_an_ellipsis_and_its_span_where_the_text_does(make_compressor) -> None:
    long = Given(text="Judo was created in 1882 by a teacher from Kobe who loved order.")
    (refined,) = Refiner(make_compressor(budget=5)).refine("judo", [long])
    assert refined.text == "Judo was created in 1882 …"
    assert refined.record["spans"] == [[0, 24]]


def test_equal_documents_are_each_refined(compressor) -> None:
    refined = Refiner(compressor).refine("When was judo created?", [DOCUMENTS[0]] * 3)
    assert len({each.text for each in refined}) == 1
    assert len(refined) == 3


def test_a_wrong_setting_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="budget must be a whole number"):
        canopy.Compressor("hashing", budget=0)
