"""Tables of selections against what the diagnosis measures, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.evaluation.items import text_item

from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.trees import leaves
from canopy_rag.evaluation import marks
from canopy_rag.evaluation.diagnostics import keep, whole_size
from canopy_rag.evaluation.judged import encode_pool, judge
from canopy_rag.evaluation.quality import (
    FAMILIES,
    N_LEAVES,
    Sizes,
    fixed_thresholds,
    measure,
    rivals,
)
from canopy_rag.testing.hashing import HashingEncoder

TOPICS = ("judo", "kano", "tea", "rice", "iron", "moss")
K = 3


def topic_item(topic):
    return text_item(topic, *(f"The {topic} is number {n} of {topic} {'x' * n}." for n in range(5)))


ITEMS = [topic_item(topic) for topic in TOPICS]


def question(topic, number):
    item = ITEMS[TOPICS.index(topic)]
    leaf = item.nodes[leaves(item.nodes)[number]]
    return Question(
        id=f"{topic}-{number}",
        text=f"which {topic} is number {number}",
        answers=(str(number),),
        kind="",
        gold=(GoldSpan(item_id=item.id, start=leaf.start, stop=leaf.stop),),
    )


@pytest.fixture(scope="module")
def judged():
    encoder = HashingEncoder()
    pool = encode_pool(ITEMS, encoder)
    asked = {"nq": ("judo", "kano", "tea"), "musique": ("rice", "iron")}
    return [
        each
        for name, topics in asked.items()
        for each in judge(
            name, [question(t, n) for t in topics for n in range(4)], pool, encoder, K
        )
    ]


def count(text):
    return len(text.split())


@pytest.fixture(scope="module")
def measured(judged):
    return measure(judged, rivals(fixed_thresholds(judged)), Sizes(count))


def test_every_figure_is_that_of_the_diagnosis(judged, measured):
    for row, each in enumerate(judged):
        full = whole_size(each, retrieved=True, count=count)
        assert measured.tokens_full[row] == full.tokens
        for column, method in enumerate(measured.methods):
            one = keep(each, method.select, full, retrieved=True, count=count)
            assert measured.recall[row, column] == one.recall
            assert measured.tokens[row, column] == one.tokens


def test_showing_nothing_is_in_every_family_and_costs_nothing(measured):
    for family in FAMILIES:
        first, *others = measured.family(family)
        assert measured.tokens[:, first].sum() == measured.kept[:, first].sum() == 0
        assert len(others) > 3


def test_all_items_whole_keep_all_that_retrieval_brought(measured):
    column = measured.column("whole-10")
    assert (measured.kept[:, column] == measured.n_found).all()
    assert (measured.tokens[:, column] == measured.tokens_full).all()


def test_fixed_thresholds_keep_so_many_leaves_in_the_mean(judged):
    for n, bound in zip(N_LEAVES[:5], fixed_thresholds(judged)[:5], strict=True):
        values = [
            float(values[leaf])
            for each in judged
            for nodes, values in each.found_scored
            for leaf in leaves(nodes)
        ]
        assert sum(value >= bound for value in values) >= n * len(judged)
        assert sum(value > bound for value in values) < n * len(judged)


def test_some_benchmarks_are_some_rows(measured):
    own = measured.of(("musique",))
    assert set(own.benchmarks) == {"musique"}
    assert len(own.ids) == 8
    assert (own.tokens == measured.tokens[-8:]).all()
    assert measured.has(("musique", "ottqa"))
    assert not measured.has(("ottqa",))


def test_nothing_to_measure_is_refused(measured):
    with pytest.raises(ValueError, match="no question"):
        measure([], measured.methods, Sizes(count))


def test_words_are_counted_once():
    asked = []

    def counting(text):
        asked.append(text)
        return 2

    sizes = Sizes(counting)
    assert sizes.words("tea tea rice") == 6
    assert asked == ["tea", "rice"]


@pytest.fixture(scope="module")
def reported(measured):
    return marks.selections(measured, measured, resamples=200)


def test_scopes_without_a_question_are_left_out(reported):
    assert set(reported) == {"all", "nq", "musique", "one-hop", "multi-hop"}
    assert (reported["all"]["n"], reported["one-hop"]["n"], reported["multi-hop"]["n"]) == (
        20,
        12,
        8,
    )


def test_a_rival_chosen_on_the_same_questions_has_the_tokens_of_the_selection(reported):
    for scope in reported.values():
        for rival in scope["rivals"]["set"].values():
            if sum(rival["settings"].values()) == pytest.approx(1) and len(rival["settings"]) == 2:
                assert rival["tokens"] == pytest.approx(scope["rules"]["set"]["tokens"], abs=0.1)
                assert rival["difference"]["value"] == pytest.approx(
                    rival["at_equal_tokens"]["value"], abs=1e-3
                )


def test_the_envelope_of_all_families_is_the_strongest_rival(reported):
    for scope in reported.values():
        rivals_of_set = scope["rivals"]["set"]
        strongest = rivals_of_set["envelope"]["at_equal_tokens"]["value"]
        for family in FAMILIES:
            assert strongest <= rivals_of_set[family]["at_equal_tokens"]["value"] + 1e-4


def test_right_decisions_are_shares_of_decisions_not_of_questions(measured):
    found = marks.decision_accuracy(measured, resamples=200)["all"]
    right, total = measured.decided.sum(axis=0)
    assert found["n_decisions"] == total > found["n"]
    assert found["value"] == pytest.approx(right / total, abs=1e-4)


def test_an_encoder_does_not_differ_from_itself(measured):
    found = marks.against((measured, measured), (measured, measured), ("all",), resamples=200)
    for name in ("recall", "tokens", "items_retrieved", "decisions"):
        assert found["all"][name] == {"value": 0.0, "low": 0.0, "high": 0.0, "n": 20}


def test_encoders_on_different_questions_are_not_compared(measured):
    own = measured.of(("nq",))
    with pytest.raises(ValueError, match="different questions"):
        marks.against((own, measured), (own, measured), ("all",))


def test_the_share_of_what_retrieval_brought_leaves_out_what_it_did_not(measured, reported):
    rule = reported["all"]["rules"]["set"]
    column = measured.column("set")
    assert rule["of_retrieved"]["value"] == pytest.approx(
        measured.kept[:, column].sum() / measured.n_found.sum(), abs=1e-4
    )
    assert np.isfinite(rule["recall"]["value"])
