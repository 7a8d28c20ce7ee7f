"""The diagnosis on a tiny benchmark whose numbers can be worked out by hand."""

import json

import numpy as np
import pytest
from tests.unit.evaluation.items import text_item

from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.refine import Refinement
from canopy_rag.core.trees import image_tree, table_tree
from canopy_rag.core.types import ImagePayload, Item, Source
from canopy_rag.evaluation.diagnose import Task, diagnose
from canopy_rag.evaluation.diagnosis_plots import plot_diagnosis
from canopy_rag.evaluation.diagnostics import (
    covers_all,
    decisions,
    keep,
    outcomes,
    retrieval_recall,
    root_relative,
    visited,
    whole_size,
)
from canopy_rag.evaluation.judged import Judged, encode_pool, judge
from canopy_rag.evaluation.selections import flat, whole
from canopy_rag.testing.hashing import HashingEncoder

JUDO = text_item("judo", "Judo was created by Kano.", "It has rules.", "It is old.")
KANO = text_item("kano", "Kano was a teacher.", "Kano was born in Kobe.")
TEA = text_item("tea", "Tea is hot.", "Tea is brown.", "Tea is a drink.")
CAT = Item(
    id="cat",
    modality="image",
    title="cat",
    payload=ImagePayload(media="cat.png", width=1, height=1, caption="a cat"),
    nodes=image_tree(),
    source=Source(uri="cat.png"),
)
ITEMS = (JUDO, KANO, TEA, CAT)


def span(item, sentence, hop=None):
    start = item.payload.text.index(sentence)
    return GoldSpan(item_id=item.id, start=start, stop=start + len(sentence), hop=hop)


BOTH = Question(
    id="q1",
    text="Where was the one who created judo born?",
    answers=("Kobe",),
    kind="bridge",
    gold=(
        span(JUDO, "Judo was created by Kano.", hop=0),
        span(KANO, "Kano was born in Kobe.", hop=1),
    ),
)
ONE = Question(
    id="q2",
    text="what is brown tea",
    answers=("tea",),
    kind="comparison",
    gold=(span(TEA, "Tea is brown."),),
)
LOST = Question(
    id="q3",
    text="?",
    answers=("x",),
    kind="bridge",
    gold=(GoldSpan(item_id="absent", start=0, stop=1),),
)


@pytest.fixture
def encoder():
    return HashingEncoder(dim=256)


@pytest.fixture
def judged(encoder):
    pool = encode_pool(ITEMS, encoder)
    return judge("toy", (BOTH, ONE, LOST), pool, encoder, k=2)


def scored(item, *values):
    assert len(values) == len(item.nodes)
    return item.nodes, np.array(values, np.float32)


def made(question, gold, found):
    """A judged question with similarities that the test writes down."""
    leaves_of = {item.id: frozenset(own) for item, own, _ in gold}
    return Judged(
        benchmark="toy",
        question=question,
        gold=leaves_of,
        gold_items=tuple(item for item, _, _ in gold),
        gold_scored=tuple(values for _, _, values in gold),
        found_items=tuple(item for item, _ in found),
        found_scored=tuple(values for _, values in found),
    )


# 0 [1 [2 3] 4]: the three sentences are 2, 3 and 4
GOOD = scored(JUDO, 0.5, 0.6, 0.7, 0.1, 0.2)
BAD = scored(JUDO, 0.5, 0.4, 0.7, 0.1, 0.6)
KANO_SCORED = scored(KANO, 0.3, 0.2, 0.4)
HAND = made(
    BOTH,
    [(JUDO, {2}, GOOD), (KANO, {2}, KANO_SCORED)],
    [(JUDO, GOOD), (TEA, scored(TEA, 0.5, 0.4, 0.3, 0.2, 0.1)), (CAT, scored(CAT, 0.2))],
)


def count(text):
    return len(text.split())


def test_questions_without_gold_in_the_pool_are_left_out(judged):
    assert [each.question.id for each in judged] == ["q1", "q2"]
    assert [len(each.found_items) for each in judged] == [2, 2]


def test_the_pool_holds_an_item_once_and_searches_exactly(encoder):
    pool = encode_pool([*ITEMS, *ITEMS], encoder, batch=3)
    assert len(pool.items) == len(ITEMS)
    (each,) = judge("toy", (ONE,), pool, encoder, k=10)
    query = encoder.encode_queries([ONE.text]).retrieval[0]
    expected = sorted(range(4), key=lambda row: (-(pool.matrix[row] @ query), pool.items[row].id))
    assert [item.id for item in each.found_items] == [pool.items[row].id for row in expected]


def test_decisions_count_instances_whose_preferences_all_hold():
    found = decisions([HAND])
    assert [(each.depth, each.correct) for each in found] == [(0, True), (1, True), (0, True)]
    wrong = made(BOTH, [(JUDO, {2}, BAD)], [])
    assert [each.correct for each in decisions([wrong])] == [False, True]


def test_recall_counts_gold_that_was_not_found_as_lost_and_recall_shown_does_not():
    size = whole_size(HAND, retrieved=True, count=count)
    kept = keep(HAND, flat(1), size, retrieved=True, count=count)
    assert kept.recall == 0.5
    assert kept.recall_shown == 1.0
    alone = keep(HAND, flat(1), size, retrieved=False, count=count)
    assert alone.recall == 1.0


def test_sizes_are_those_of_the_written_evidence():
    size = whole_size(HAND, retrieved=True, count=count)
    kept = keep(HAND, whole(1), size, retrieved=True, count=count)
    assert kept.words == count(f"judo\n{JUDO.payload.text}")
    assert kept.tokens_full == size.tokens > kept.tokens


def test_outcomes_are_read_off_the_shown_leaves():
    found = outcomes([HAND])
    assert [(each.gold, each.kept_whole, each.counts) for each in found] == [
        (True, False, (1, 2, 2)),  # kept 2, split 0 and 1, dropped 3 and 4
        (False, True, (1, 0, 0)),
    ]


def test_a_split_node_whose_leaves_all_remain_counts_as_kept():
    refinement = Refinement((1, 2), {0: "split", 1: "keep", 2: "keep"})
    assert visited(table_tree(2), refinement) == ["keep", "keep", "keep"]


def test_root_relative_similarities_part_gold_from_the_rest():
    parts = root_relative([made(BOTH, [(JUDO, {2}, GOOD)], [])])
    assert parts[True] == pytest.approx([0.2])
    assert parts[False] == pytest.approx([-0.4, -0.3])


def test_retrieval_counts_gold_items_and_hops():
    assert retrieval_recall(HAND, 10) == 0.5
    assert not covers_all(HAND, 10)
    both = made(
        BOTH, [(JUDO, {2}, GOOD), (KANO, {2}, KANO_SCORED)], [(KANO, KANO_SCORED), (JUDO, GOOD)]
    )
    assert retrieval_recall(both, 1) == 0.5
    assert not covers_all(both, 1)
    assert covers_all(both, 2)


def test_the_report_has_the_promised_form(encoder, tmp_path):
    tasks = [
        Task(name="toy", group="in_domain", questions=(BOTH, ONE), items=lambda: ITEMS),
        Task(name="other", group="extra", questions=(ONE,), items=lambda: (TEA,)),
    ]
    told = []
    diagnosis = diagnose(
        tasks, encoder, k=3, resamples=200, advance=lambda *step: told.append(step)
    )
    body = json.loads(json.dumps(diagnosis.to_dict()))
    assert set(body["benchmarks"]) == {"toy", "other"}
    toy = body["benchmarks"]["toy"]
    assert toy["n"] == 2
    for name in ("decision_accuracy", "gold_leaf_recall"):
        assert set(toy[name]) == {"value", "low", "high", "n"}
        assert toy[name]["low"] <= toy[name]["value"] <= toy[name]["high"]
    assert {"setting", "method", "recall", "tokens", "share"} <= set(toy["curves"][0])
    assert {point["setting"] for point in toy["curves"]} == {"gold", "retrieval"}
    whole_point = next(
        point
        for point in toy["curves"]
        if (point["setting"], point["method"]) == ("gold", "whole-10")
    )
    assert (whole_point["recall"], whole_point["share"]) == (1.0, 1.0)
    assert body["all"]["n"] == 3
    assert told[-1][1] == told[-1][2] == 3
    drawn = plot_diagnosis(diagnosis, tmp_path)
    assert {path.name for path in drawn} >= {
        *("curve-toy-gold.png", "curve-all-retrieval.png", "decision-accuracy.png"),
        *("kept-whole.png", "outcomes.png", "root-relative.png"),
    }
    assert all(path.stat().st_size > 1000 for path in drawn)


def test_the_same_seed_gives_the_same_report(encoder):
    task = Task(name="toy", group="in_domain", questions=(BOTH, ONE), items=lambda: ITEMS)
    first, second = (diagnose([task], encoder, resamples=100).to_dict() for _ in range(2))
    assert first == second
