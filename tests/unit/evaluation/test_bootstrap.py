"""Intervals against known coverage, against SciPy, and what is drawn together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.evaluation import bootstrap
from canopy_rag.evaluation.bootstrap import (
    Interval,
    difference_interval,
    mean_interval,
    ratio_difference_interval,
    ratio_interval,
    statistic_interval,
)

N_SAMPLES = 400
QUICK = {"resamples": 600}


def coverage(make, truth):
    """Return the share of simulated samples whose interval holds the truth."""
    rng = np.random.default_rng(7)
    intervals = [make(rng) for _ in range(N_SAMPLES)]
    return np.mean([each.low <= truth <= each.high for each in intervals])


def close_to_nominal(share):
    """Whether a coverage is 95 % up to simulation noise (1.1 points) and small-sample bias."""
    return 0.92 <= share <= 0.98


def test_the_interval_of_a_mean_covers_the_truth_in_95_of_100_samples():
    assert close_to_nominal(coverage(lambda rng: mean_interval(rng.normal(3, 2, 80), **QUICK), 3))


def test_the_interval_of_a_share_covers_the_truth_in_95_of_100_samples():
    shares = coverage(lambda rng: mean_interval(rng.random(150) < 0.35, **QUICK), 0.35)
    assert close_to_nominal(shares)


def test_the_bca_interval_of_a_skewed_mean_covers_the_truth_in_95_of_100_samples():
    def make(rng):
        return mean_interval(rng.exponential(2, 80), method="bca", **QUICK)

    assert close_to_nominal(coverage(make, 2))


def test_the_interval_of_a_paired_difference_covers_the_truth_in_95_of_100_samples():
    def make(rng):
        hard = rng.normal(0, 3, 80)
        first, second = hard + rng.normal(0.5, 1, 80), hard + rng.normal(0, 1, 80)
        return difference_interval(first, second, **QUICK)

    assert close_to_nominal(coverage(make, 0.5))


def test_the_interval_of_a_pooled_ratio_covers_the_truth_in_95_of_100_samples():
    def make(rng):
        wholes = rng.integers(1, 9, 100)
        return ratio_interval(rng.binomial(wholes, 0.4), wholes, **QUICK)

    assert close_to_nominal(coverage(make, 0.4))


def test_the_interval_of_an_average_over_benchmarks_covers_the_truth_in_95_of_100_samples():
    names = ["small"] * 40 + ["large"] * 120

    def make(rng):
        values = np.concatenate([rng.normal(0, 1, 40), rng.normal(10, 2, 120)])
        return mean_interval(values, benchmarks=names, **QUICK)

    assert close_to_nominal(coverage(make, 5))


def test_questions_that_share_a_table_need_to_be_drawn_together():
    tables = np.repeat(np.arange(50), 8)

    def values(rng):
        return np.repeat(rng.normal(0, 1, 50), 8) + rng.normal(0, 0.5, 400)

    together = coverage(lambda rng: mean_interval(values(rng), groups=tables, **QUICK), 0)
    apart = coverage(lambda rng: mean_interval(values(rng), **QUICK), 0)
    assert close_to_nominal(together)
    assert apart < 0.7


@pytest.mark.parametrize(("ours", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_a_mean_agrees_with_scipy(ours, theirs):
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).exponential(1, 60)
    mine = mean_interval(values, method=ours, resamples=60_000)
    other = stats.bootstrap((values,), np.mean, n_resamples=60_000, method=theirs, rng=2)
    assert mine.value == pytest.approx(values.mean())
    assert (mine.low, mine.high) == pytest.approx(tuple(other.confidence_interval), abs=0.012)


def test_the_bca_interval_of_an_average_over_benchmarks_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    first, second = rng.exponential(1, 25), rng.exponential(3, 60)
    mine = mean_interval(
        np.concatenate([first, second]),
        benchmarks=["a"] * 25 + ["b"] * 60,
        method="bca",
        resamples=40_000,
    )
    other = stats.bootstrap(
        (first, second),
        lambda one, two, axis: (one.mean(axis=axis) + two.mean(axis=axis)) / 2,
        n_resamples=40_000,
        method="BCa",
        rng=2,
    )
    assert (mine.low, mine.high) == pytest.approx(tuple(other.confidence_interval), abs=0.015)


def test_benchmarks_weigh_the_same_whatever_their_size():
    interval = mean_interval([0.0, 1.0, 1.0, 1.0], benchmarks=["a", "b", "b", "b"])
    assert interval == Interval(value=0.5, low=0.5, high=0.5, n=4)


def test_a_pooled_ratio_divides_sums_and_is_no_mean_of_ratios():
    assert ratio_interval([1, 0], [1, 9]).value == pytest.approx(0.1)


def test_a_question_brings_numerator_and_denominator_along():
    denominators = np.random.default_rng(0).integers(1, 100, 50)
    interval = ratio_interval(denominators * 0.25, denominators)
    assert (interval.low, interval.high) == pytest.approx((0.25, 0.25))


def test_two_systems_are_compared_on_the_same_draws():
    first = np.random.default_rng(0).normal(0, 100, 50)
    paired = difference_interval(first + 1, first)
    assert (paired.low, paired.high) == pytest.approx((1, 1))
    ratios = ratio_difference_interval((first**2, np.ones(50)), (first**2, np.ones(50)))
    assert ratios == Interval(value=0.0, low=0.0, high=0.0, n=50)


def test_a_ratio_of_two_systems_differs_by_its_parts():
    interval = ratio_difference_interval(([1, 1], [2, 2]), ([1, 0], [4, 4]))
    assert interval.value == pytest.approx(0.5 - 0.125)
    assert interval.low < interval.value < interval.high


def test_any_function_of_sums_can_be_resampled():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    interval = statistic_interval(table, lambda sums: sums[..., 0] * sums[..., 1])
    assert interval.value == 24
    assert (interval.low, interval.high) == (8, 48)


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    values = np.random.default_rng(0).normal(size=100)
    assert mean_interval(values) == mean_interval(values, seed=0)
    assert mean_interval(values) != mean_interval(values, seed=1)


def test_many_questions_are_drawn_in_pieces_that_fit_memory(monkeypatch):
    sizes = []

    class Spy:
        def __init__(self, seed):
            self.rng = np.random.Generator(np.random.PCG64(seed))

        def integers(self, n, *, size, dtype):
            sizes.append(size)
            return self.rng.integers(n, size=size, dtype=dtype)

    monkeypatch.setattr(np.random, "default_rng", Spy)
    monkeypatch.setattr(bootstrap, "_MAX_PICKS", 1000)
    interval = mean_interval([0.0, 1.0] * 150, resamples=10)
    assert sizes == [(3, 300)] * 3 + [(1, 300)]
    assert interval.low < 0.5 < interval.high


def test_resamples_without_a_denominator_are_left_out():
    numerators, denominators = [1, 0, 0], [2, 0, 0]
    for method in ("percentile", "bca"):
        interval = ratio_interval(numerators, denominators, method=method)
        assert interval == Interval(value=0.5, low=0.5, high=0.5, n=3)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_one_question_or_equal_ones_give_an_interval_without_width(method):
    assert mean_interval([0.3], method=method) == Interval(value=0.3, low=0.3, high=0.3, n=1)
    same = mean_interval([0.25] * 9, method=method)
    assert same == Interval(value=0.25, low=0.25, high=0.25, n=9)


def test_bca_takes_a_benchmark_of_one_question():
    values, names = [0.0, 1.0, 0.0, 1.0, 1.0], ["a", "a", "a", "a", "b"]
    interval = mean_interval(values, benchmarks=names, method="bca")
    assert interval.low <= interval.value == 0.75 <= interval.high


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20))
def test_an_interval_lies_within_the_range_of_its_values(values):
    interval = mean_interval(values, resamples=50)
    assert min(values) - 1e-6 <= interval.low <= interval.high <= max(values) + 1e-6


def test_an_interval_is_written_as_json_promises():
    written = mean_interval([0.0, 1.0, 1.0, 1.0]).to_dict()
    assert written == {"value": 0.75, "low": 0.25, "high": 1.0, "n": 4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "at least one question"),
        (lambda: mean_interval([1.0, float("nan")]), "values: question 1 has the value nan"),
        (lambda: mean_interval([[1.0], [2.0]]), r"got shape \(2, 1\)"),
        (lambda: mean_interval([1.0], benchmarks=["a", "b"]), "benchmarks: 2 entries for 1"),
        (lambda: mean_interval([1.0, 2.0], groups=["a"]), "groups: 1 entries for 2"),
        (lambda: difference_interval([1.0, 2.0], [1.0]), "second: 1 entries for 2"),
        (lambda: ratio_interval([1.0, 2.0], [1.0]), "denominators: 1 entries for 2"),
        (lambda: ratio_interval([0.0], [0.0]), "denominators sum to 0"),
        (lambda: ratio_interval([1, 0], [1, 0], benchmarks=["a", "b"]), "denominators sum to 0"),
        (lambda: mean_interval([1.0], resamples=0), "0 resamples"),
        (lambda: mean_interval([1.0], method="basic"), "'percentile' or 'bca'"),
    ],
)
def test_what_has_no_interval_is_an_error_that_says_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()
