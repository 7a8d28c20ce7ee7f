"""Envelopes, mixtures and comparisons on points whose answer can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.evaluation.frontier import along, choose, compare, envelope

TOKENS = np.array([[0.0, 10.0, 20.0], [0.0, 30.0, 60.0]])
RECALL = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.5]])
"""Means: (0, 0), (20, 0.5), (40, 0.75)."""


def test_a_point_below_the_line_of_its_neighbours_is_not_on_the_envelope():
    assert envelope([0, 10, 20], [0.0, 0.4, 1.0]) == (0, 2)
    assert envelope([0, 10, 20], [0.0, 0.6, 1.0]) == (0, 1, 2)


def test_more_tokens_for_less_recall_are_not_on_the_envelope():
    assert envelope([0, 10, 20], [0.0, 0.6, 0.5]) == (0, 1)
    assert envelope([10, 10], [0.4, 0.6]) == (1,)


def test_points_come_in_any_order():
    assert envelope([20, 0, 10], [1.0, 0.0, 0.6]) == (1, 2, 0)


def test_an_envelope_without_points_is_refused():
    with pytest.raises(ValueError, match="needs points"):
        envelope([], [])


points = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=12, unique=True
)


@given(points)
def test_no_point_lies_above_the_envelope(given_points):
    tokens, recall = (np.array(column, float) for column in zip(*given_points, strict=True))
    chain = list(envelope(tokens, recall))
    x, y = tokens[chain], recall[chain]
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) > 0).all()
    slopes = np.diff(y) / np.diff(x)
    assert (np.diff(slopes) < 0).all()
    heights = along(np.tile(x, (len(tokens), 1)), np.tile(y, (len(tokens), 1)), tokens)
    assert (recall <= heights + 1e-9).all()


def test_the_mixture_has_the_tokens_that_are_asked_for():
    mixture = choose(TOKENS, RECALL, 25.0)
    assert (mixture.low, mixture.high, mixture.share) == (1, 2, 0.25)
    assert mixture.envelope == (0, 1, 2)


def test_fewer_tokens_than_any_setting_are_mixed_with_showing_nothing():
    mixture = choose(TOKENS, RECALL, 5.0)
    assert (mixture.low, mixture.high, mixture.share) == (0, 1, 0.25)


def test_beyond_the_envelope_its_last_setting_stands_alone():
    mixture = choose(TOKENS, RECALL, 100.0)
    assert (mixture.low, mixture.high, mixture.share) == (2, 2, 1.0)


def test_choosing_from_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to choose from"):
        choose(np.zeros((0, 3)), np.zeros((0, 3)), 1.0)


def test_a_comparison_reports_the_mixture_as_chosen_and_moved_to_equal_tokens():
    own_tokens, own_recall = np.array([40.0, 20.0]), np.array([1.0, 0.5])
    found = compare(choose(TOKENS, RECALL, 25.0), TOKENS, RECALL, own_tokens, own_recall)
    assert (found.tokens, found.recall) == (25.0, 0.5625)
    assert found.difference.value == pytest.approx(0.75 - 0.5625)
    assert found.tokens_difference.value == pytest.approx(5.0)
    assert found.at_equal_tokens.value == pytest.approx(0.75 - 0.625)  # halfway from 20 to 40


def test_a_selection_is_not_above_a_rival_that_is_itself():
    rng = np.random.default_rng(0)
    tokens = np.column_stack([np.zeros(60), rng.uniform(50, 150, 60)])
    recall = np.column_stack([np.zeros(60), rng.random(60)])
    found = compare(choose(tokens, recall, 100.0), tokens, recall, tokens[:, 1], recall[:, 1])
    assert found.at_equal_tokens.value == pytest.approx(0, abs=1e-12)
    assert found.at_equal_tokens.low <= 0 <= found.at_equal_tokens.high


def test_a_selection_that_is_always_better_at_the_same_tokens_is_above():
    rng = np.random.default_rng(1)
    tokens = np.column_stack([np.zeros(80), np.full(80, 100.0)])
    recall = np.column_stack([np.zeros(80), rng.random(80) * 0.5])
    mixture = choose(tokens, recall, 100.0)
    found = compare(mixture, tokens, recall, tokens[:, 1], recall[:, 1] + 0.2)
    assert found.at_equal_tokens.low == pytest.approx(0.2)
    assert found.difference.high == pytest.approx(0.2)


def test_curves_are_read_between_their_points_whatever_the_order():
    x, y = np.array([[20.0, 0.0, 10.0]]), np.array([[1.5, 0.0, 1.0]])
    for at, height in ((5.0, 0.5), (15.0, 1.25), (-1.0, 0.0), (99.0, 1.5)):
        assert along(x, y, np.array([at])) == pytest.approx([height])


def test_a_curve_of_one_point_is_flat():
    assert along(np.array([[3.0]]), np.array([[0.7]]), np.array([9.0])).tolist() == [0.7]
