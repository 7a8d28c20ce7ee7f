from __future__ import annotations

import pytest

from canopy_rag.evaluation.facts import (
    Overlap,
    answer_overlap,
    fact_overlap,
    joint_overlap,
    triple_overlap,
)

GOLD = [("Alpha", 0), ("Beta", 2)]


def test_the_overlap_of_an_answer_has_precision_and_recall():
    assert answer_overlap("Alpha Film of 1950", ["Alpha"]) == pytest.approx((0, 1 / 4, 1, 2 / 5))


def test_each_figure_of_an_answer_is_the_best_over_the_references():
    best = answer_overlap("Alpha", ["Alpha Beta", "Alpha Beta Gamma"])
    assert best == pytest.approx((0, 1, 1 / 2, 2 / 3))


def test_yes_shares_nothing_with_a_longer_answer():
    assert answer_overlap("yes", ["yes of course"]) == (0, 0, 0, 0)


def test_all_facts_are_an_exact_match_in_any_order_and_however_often():
    assert fact_overlap([GOLD[1], GOLD[0], GOLD[0]], GOLD) == (1, 1, 1, 1)


def test_a_fact_too_many_costs_precision_and_one_missing_costs_recall():
    assert fact_overlap([*GOLD, ("Beta", 3), ("C", 0)], GOLD) == pytest.approx((0, 0.5, 1, 2 / 3))
    assert fact_overlap(GOLD[:1], GOLD) == pytest.approx((0, 1, 0.5, 2 / 3))


def test_no_fact_agrees_with_no_fact_for_the_exact_match_only():
    assert fact_overlap([], []) == (1, 0, 0, 0)
    assert fact_overlap([], GOLD) == (0, 0, 0, 0)
    assert fact_overlap(GOLD, []) == (0, 0, 0, 0)


def test_titles_are_compared_with_their_case_unless_folded():
    shouted = [("ALPHA", 0), ("Beta", 2)]
    assert fact_overlap(shouted, GOLD).exact == 0
    assert fact_overlap(shouted, GOLD, fold_titles=True) == (1, 1, 1, 1)


def test_two_spellings_of_one_title_are_two_right_facts_as_in_the_official_script():
    both = [("Alpha", 0), ("ALPHA", 0), ("Beta", 2)]
    assert fact_overlap(both, GOLD, fold_titles=True) == (1, 1, 1, 1)


def test_a_triple_matches_by_any_alias_without_case_and_punctuation():
    gold = [
        {("Alpha Film", "director", "Ann Alpha"), ("Alpha Film", "director", "A. Alpha")},
        {("Ann Alpha", "date of birth", "1 January 1901")},
    ]
    first, second = ("alpha film", "Director", "a alpha"), ("Ann  Alpha", "date of birth", "1901")
    assert triple_overlap([first], gold) == pytest.approx((0, 1, 0.5, 2 / 3))
    assert triple_overlap([first, second], gold) == pytest.approx((0, 0.5, 0.5, 0.5))
    assert triple_overlap([], gold) == (0, 0, 0, 0)
    assert triple_overlap([], []) == (1, 0, 0, 0)


def test_the_articles_of_a_triple_count():
    gold = [{("The Film", "director", "Ann")}]
    assert triple_overlap([("Film", "director", "Ann")], gold).exact == 0


def test_the_joint_score_multiplies_what_its_parts_have():
    answer, facts = Overlap(1, 1, 0.5, 2 / 3), Overlap(1, 0.5, 1, 2 / 3)
    assert joint_overlap(answer, facts) == pytest.approx((1, 0.5, 0.5, 0.5))
    assert joint_overlap(answer, facts, Overlap(0, 0, 0, 0)) == (0, 0, 0, 0)
