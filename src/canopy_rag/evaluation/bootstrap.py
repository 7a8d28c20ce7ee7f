"""Intervals by resampling questions (P17).

Everything that is reported is a mean, a share, a ratio of sums, or the average of such over
benchmarks, or a difference of two of them on the same questions. All are functions of sums over
questions, so one resampling of the sums serves them all: each resample draws as many questions as
there are, with replacement, and a question brings all its figures along. Two systems are therefore
compared on the same draws (paired).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Method = Literal["percentile", "bca"]
"""`bca` corrects for bias and skewness (Efron 1987)."""
Statistic = Callable[[Numbers], Numbers]
"""From sums over questions, shape `(..., n_columns)`, to one value each, shape `(...)`."""
RESAMPLES = 10_000
"""The paper's."""
_TAILS = np.array([0.025, 0.975])
_MAX_PICKS = 1 << 20
"""Drawn positions held at once: 4 MiB. Part of the result: it fixes the order of the draws."""
_FEW_COLUMNS = 4
"""Up to here, adding up what was drawn is faster than counting how often each unit was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float
    n: int
    """Questions (or whatever the rows were) that it rests on."""

    def to_dict(self) -> dict[str, float | int]:
        """Return the four fields as in JSON reports."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


def mean_interval(
    values: ArrayLike,
    *,
    benchmarks: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Return the mean of one figure per question, with its 95 % interval.

    Args:
        values: Shape `(n,)`.
        benchmarks: Name of each question's benchmark: the value is then the average of the
            benchmarks' means, each weighing the same, and each benchmark is resampled on its own.
            None: one benchmark.
        groups: Key of what each question belongs to, such as its table. Whole groups are then
            drawn, because questions of one table are not independent. None: each its own.
        resamples: How many.
        seed: The same seed and number of questions give the same draws.
        method: How the ends are read off the draws.

    Raises:
        ValueError: If there is no value or one is not finite, if lengths differ, for an unknown
            method or less than one resample.

    >>> mean_interval([0, 1, 1, 1] * 25)
    Interval(value=0.75, low=0.67, high=0.83, n=100)
    """
    values = _column(values, "values")
    return ratio_interval(
        values,
        np.ones(len(values)),
        benchmarks=benchmarks,
        groups=groups,
        resamples=resamples,
        seed=seed,
        method=method,
    )


def difference_interval(
    first: ArrayLike,
    second: ArrayLike,
    *,
    benchmarks: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Return the mean of `first - second`, figures of two systems on the same questions.

    The other arguments and errors are those of `mean_interval`.

    >>> difference_interval([1.0, 1.0, 0.0], [0.5, 0.5, -0.5])
    Interval(value=0.5, low=0.5, high=0.5, n=3)
    """
    first, second = _column(first, "first"), _column(second, "second")
    _check_length("second", second, len(first))
    return mean_interval(
        first - second,
        benchmarks=benchmarks,
        groups=groups,
        resamples=resamples,
        seed=seed,
        method=method,
    )


def ratio_interval(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    benchmarks: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Return a ratio of sums, such as right decisions to decisions, or tokens to tokens.

    Resamples whose denominators sum to 0 have no ratio and are left out. The other arguments are
    those of `mean_interval`.

    Args:
        numerators: One per question, shape `(n,)`.
        denominators: The same; a question without any part in it has 0.
        benchmarks: As in `mean_interval`.
        groups: As in `mean_interval`.
        resamples: As in `mean_interval`.
        seed: As in `mean_interval`.
        method: As in `mean_interval`.

    Raises:
        ValueError: As `mean_interval`, and if the denominators of a benchmark sum to 0.

    >>> ratio_interval([1, 2, 0], [2, 4, 0])
    Interval(value=0.5, low=0.5, high=0.5, n=3)
    """
    table = _table(numerators=numerators, denominators=denominators)
    return statistic_interval(
        table,
        _ratio,
        benchmarks=benchmarks,
        groups=groups,
        resamples=resamples,
        seed=seed,
        method=method,
    )


def ratio_difference_interval(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    *,
    benchmarks: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Return the difference of two ratios of sums on the same questions, `first - second`.

    Args:
        first: Numerators and denominators, as in `ratio_interval`.
        second: The same of the other system.
        benchmarks: As in `mean_interval`.
        groups: As in `mean_interval`.
        resamples: As in `mean_interval`.
        seed: As in `mean_interval`.
        method: As in `mean_interval`.

    Raises:
        ValueError: As `ratio_interval`.
    """
    table = _table(
        first_numerators=first[0],
        first_denominators=first[1],
        second_numerators=second[0],
        second_denominators=second[1],
    )
    return statistic_interval(
        table,
        lambda sums: _ratio(sums[..., :2]) - _ratio(sums[..., 2:]),
        benchmarks=benchmarks,
        groups=groups,
        resamples=resamples,
        seed=seed,
        method=method,
    )


def statistic_interval(
    table: Numbers,
    statistic: Statistic,
    *,
    benchmarks: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Return any function of sums over questions; the functions above are cases of it.

    Args:
        table: One row per question, shape `(n, n_columns)`.
        statistic: Computes the value of each row of sums; NaN where there is none.
        benchmarks: As in `mean_interval`; the statistic is then averaged over the benchmarks.
        groups: As in `mean_interval`.
        resamples: As in `mean_interval`.
        seed: As in `mean_interval`.
        method: As in `mean_interval`.

    Raises:
        ValueError: As `mean_interval`, and if the statistic has no value on all questions.
    """
    if not len(table):
        raise ValueError("an interval needs at least one question")
    if resamples < 1 or method not in ("percentile", "bca"):
        raise ValueError(
            f"{resamples} resamples by {method!r}: at least 1, by 'percentile' or 'bca'"
        )
    strata = _strata(table, benchmarks, groups)
    value = float(np.mean([statistic(rows.sum(axis=0)) for rows in strata]))
    if not np.isfinite(value):
        raise ValueError("the ratio of a benchmark has no value: its denominators sum to 0")
    seeds = np.random.SeedSequence(seed).spawn(len(strata))
    draws = np.mean(
        [
            statistic(_resampled_sums(rows, resamples, np.random.default_rng(seed)))
            for rows, seed in zip(strata, seeds, strict=True)
        ],
        axis=0,
    )
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        raise ValueError("no resample has a value: too few questions have a denominator")
    corrected = method == "bca" and np.ptp(draws) > 0
    tails = _bca_tails(draws, value, strata, statistic) if corrected else _TAILS
    low, high = (float(end) for end in np.quantile(draws, tails))
    return Interval(value=value, low=low, high=high, n=len(table))


def _ratio(sums: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1], np.float64)


def _column(values: ArrayLike, name: str) -> Numbers:
    column = np.asarray(values, np.float64)
    if column.ndim != 1:
        raise ValueError(f"{name}: one number per question is needed, got shape {column.shape}")
    wrong = np.flatnonzero(~np.isfinite(column))
    if len(wrong):
        raise ValueError(f"{name}: question {wrong[0]} has the value {column[wrong[0]]}")
    return column


def _table(**columns: ArrayLike) -> Numbers:
    checked = {name: _column(values, name) for name, values in columns.items()}
    n = len(next(iter(checked.values())))
    for name, column in checked.items():
        _check_length(name, column, n)
    return np.stack(list(checked.values()), axis=1)


def _check_length(name: str, values: Sequence[object] | Numbers, n: int) -> None:
    if len(values) != n:
        raise ValueError(f"{name}: {len(values)} entries for {n} questions")


def _strata(
    table: Numbers, benchmarks: Sequence[str] | None, groups: Sequence[Hashable] | None
) -> list[Numbers]:
    """Return the sums of each drawn unit, shape `(n_units, n_columns)`, by benchmark."""
    n = len(table)
    of_benchmark = ("",) * n if benchmarks is None else benchmarks
    of_group: Sequence[Hashable] = range(n) if groups is None else groups
    _check_length("benchmarks", of_benchmark, n)
    _check_length("groups", of_group, n)
    units: dict[str, dict[Hashable, Numbers]] = {}
    for row, name, group in zip(table, of_benchmark, of_group, strict=True):
        own = units.setdefault(name, {})
        own[group] = own[group] + row if group in own else row
    return [np.array(list(own.values())) for own in units.values()]


def _resampled_sums(rows: Numbers, resamples: int, rng: np.random.Generator) -> Numbers:
    """Return the sums of each resample, shape `(resamples, n_columns)`."""
    n = len(rows)
    sums = np.empty((resamples, rows.shape[1]))
    step = max(1, _MAX_PICKS // n)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        picks = rng.integers(n, size=(stop - start, n), dtype=np.int32)
        if rows.shape[1] <= _FEW_COLUMNS:
            for column in range(rows.shape[1]):
                sums[start:stop, column] = rows[:, column][picks].sum(axis=1)
        else:
            sums[start:stop] = _times_drawn(picks) @ rows
    return sums


def _times_drawn(picks: NDArray[np.int32]) -> Numbers:
    """Return how often each resample draws each unit, shape `(resamples, n_units)`."""
    n_resamples, n = picks.shape
    places = picks + (np.arange(n_resamples, dtype=np.int64) * n)[:, None]
    drawn = np.bincount(places.ravel(), minlength=n_resamples * n)
    return drawn.reshape(n_resamples, n).astype(np.float64)


def _bca_tails(
    draws: Numbers, value: float, strata: list[Numbers], statistic: Statistic
) -> Numbers:
    normal = NormalDist()
    below = (np.mean(draws < value) + np.mean(draws <= value)) / 2
    bias = normal.inv_cdf(min(max(float(below), 1e-9), 1 - 1e-9))
    cubes = squares = 0.0
    for rows in strata:
        left_out = statistic(rows.sum(axis=0) - rows)  # (n_units,)
        left_out = left_out[np.isfinite(left_out)]
        if not len(left_out):
            continue
        influence = (left_out.mean() - left_out) * (len(rows) - 1) / len(rows)
        cubes += float((influence**3).sum())
        squares += float((influence**2).sum())
    acceleration = cubes / (6 * squares**1.5) if squares else 0.0
    shifted = [bias + normal.inv_cdf(tail) for tail in _TAILS]
    return np.array([normal.cdf(bias + each / (1 - acceleration * each)) for each in shifted])
