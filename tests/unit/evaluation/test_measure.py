"""What is measured of an answer, worked out by hand."""

import pytest
from tests.unit.evaluation.evaluations import Fixed, item, question

from canopy_rag.core.evidence import Evidence, LeftOut, Shown
from canopy_rag.core.questions import GoldSpan
from canopy_rag.core.refine import refine
from canopy_rag.core.render import Cut
from canopy_rag.core.trees import table_tree
from canopy_rag.evaluation.diagnostics import covers
from canopy_rag.evaluation.diagnostics import visited as visited_of_refinement
from canopy_rag.evaluation.measure import (
    gold_leaf_recall,
    located,
    prediction,
    visited,
)


async def predicted(kept, **changes):
    answer = await Fixed(kept=kept, **changes).answer(question(1))
    return prediction(answer, question(1), benchmark="toy", method="canopy", metric="squad")


async def test_scores_tokens_and_calls_are_those_of_the_answer():
    found = await predicted((2,))
    assert found["scores"] == {"em": 1.0, "f1": 1.0}
    assert found["usage"]["llm_calls"] == 2
    assert 0 < found["evidence"]["tokens"] < found["evidence"]["tokens_full"]
    assert found["evidence"]["tokens_are"] == "estimated"
    assert found["follow_up_hits"] == {"n": 1, "held": 1}
    assert found["hop_coverage"] is True
    assert found["answers"] == ["Maker 1"]


async def test_the_nodes_that_refinement_came_to_are_read_off_the_shown_leaves():
    # root -> (1 -> 2, 3), (4 -> 5, 6); the first sentence, leaf 2, is gold
    found = await predicted((2,))
    assert found["outcomes"] == {"text": [1, 2, 2]}
    assert found["kept_whole"] == {"gold": [0, 1], "non_gold": [0, 0]}
    assert found["gold_leaf_recall"] == 1.0
    assert found["root_relative"] == {"text": {"gold": [0.02], "other": [0.03, 0.05, 0.06]}}
    assert [each["text"] for each in found["shown"]] == ["Maker 1 made thing 1."]
    assert (found["shown"][0]["leaves"], found["shown"][0]["leaves_kept"]) == (4, 1)


async def test_a_gold_leaf_that_was_dropped_lowers_recall():
    assert (await predicted((5, 6)))["gold_leaf_recall"] == 0.0


async def test_whole_items_of_other_methods_are_no_decisions_of_refinement():
    found = await predicted((0,), name="vanilla")
    assert found["outcomes"] == {}
    assert found["kept_whole"]["gold"] == [0, 0]
    assert found["gold_leaf_recall"] == 1.0


@pytest.mark.parametrize("values", [(5, 8, 7, 1, 7, 9, 2), (5, 1, 1, 1, 6, 7, 8), (9,) + (0,) * 6])
def test_outcomes_agree_with_those_of_the_rule_itself(values):
    nodes = item(1).nodes
    refinement = refine(nodes, values)
    assert sorted(visited(nodes, refinement.kept)) == sorted(
        visited_of_refinement(nodes, refinement)
    )


def shown(kept, **changes):
    fields = {"why": "refined", "query": "", "round": 1, "rank": 1, "similarity": 0.5} | changes
    return Shown(item=item(1), kept=kept, **fields)


@pytest.mark.parametrize(
    ("entry", "recall"),
    [
        (shown((1,)), 1.0),
        (shown((0,), why="aggregate"), None),
        (shown((2,), cut=Cut(chars=3)), 0.0),
    ],
)
def test_recall_leaves_out_what_refinement_may_not_split_and_what_is_cut(entry, recall):
    evidence = Evidence(entries=(entry,))
    assert gold_leaf_recall(evidence, located(question(1), evidence)) == recall


def test_gold_that_selection_shows_nothing_of_is_lost_and_what_the_budget_took_does_not_count():
    by_selection = LeftOut(item_id="thing 1", rank=2, reason="nothing stands out", item=item(1))
    by_budget = LeftOut(item_id="thing 1", rank=2, reason="budget")
    for left_out, recall in ((by_selection, 0.0), (by_budget, None)):
        evidence = Evidence(left_out=(left_out,))
        assert gold_leaf_recall(evidence, located(question(1), evidence)) == recall


def test_a_question_without_shown_gold_has_no_recall():
    assert gold_leaf_recall(Evidence(entries=(shown((2,)),)), {}) is None


def span(item_id, hop=None):
    return GoldSpan(item_id=item_id, start=0, stop=1, hop=hop)


def test_every_hop_needs_one_item_and_without_hops_every_gold_item_is_needed():
    hops = [span("a", 0), span("b", 0), span("c", 1)]
    assert covers(hops, {"b", "c"})
    assert not covers(hops, {"a", "b"})
    assert covers([span("a"), span("b")], {"a", "b"})
    assert not covers([span("a"), span("b")], {"a"})


def test_a_walk_stops_at_kept_nodes():
    nodes = table_tree(4)
    assert visited(nodes, [0]) == ["keep"]
