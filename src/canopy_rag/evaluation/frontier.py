"""Gold-leaf recall against evidence tokens: is a selection above the best mixture of its rivals?

A rival has settings (such as n of the n best leaves), each a point: mean tokens and mean recall per
question. Between two settings lie their mixtures, which draw one of the two by lot for every
question; so a rival reaches every point of the upper concave envelope of its settings, from showing
nothing on. Which settings are on the envelope, and which two are mixed at what share so that
the tokens are those of the selection in question, is *chosen* on one part of the questions and
*compared* on another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canopy_rag.evaluation.bootstrap import (
    RESAMPLES,
    Interval,
    difference_interval,
    statistic_interval,
)

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """What was chosen of a rival."""

    envelope: tuple[int, ...]
    """Columns of the settings on the envelope, by rising tokens."""
    low: int
    """Column of the setting with fewer tokens."""
    high: int
    """Of the next one; the same where a single setting was chosen."""
    share: float
    """Of questions that get `high`, 0 to 1; the others get `low`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A selection against a chosen mixture of a rival, on the same questions."""

    recall: float
    """Of the mixture."""
    tokens: float
    """Of the mixture, mean per question; near the selection's, since chosen on other questions."""
    difference: Interval
    """Recall of the selection less that of the mixture as it was chosen."""
    at_equal_tokens: Interval
    """The same with the share moved along the chosen envelope until the tokens are equal."""
    tokens_difference: Interval
    """Tokens of the selection less those of the mixture."""


def envelope(tokens: ArrayLike, recall: ArrayLike) -> tuple[int, ...]:
    """Return which points lie on the upper concave envelope, by rising tokens.

    It begins at the fewest tokens and ends at the highest recall; points on a straight line between
    two others are left out.

    Args:
        tokens: Shape `(n,)`.
        recall: Shape `(n,)`.

    Raises:
        ValueError: Without a point.

    >>> envelope([0, 10, 20, 30, 40], [0.0, 0.5, 0.6, 0.9, 0.8])
    (0, 1, 3)
    """
    x, y = np.asarray(tokens, np.float64), np.asarray(recall, np.float64)
    if not len(x) or x.shape != y.shape:
        raise ValueError(f"an envelope needs points; got {len(x)} tokens and {len(y)} recalls")
    chain: list[int] = []
    for index in np.lexsort((-y, x)).tolist():
        if chain and y[index] <= y[chain[-1]]:
            continue  # at least as many tokens for no more recall
        while len(chain) > 1 and _slope(x, y, chain[-2], chain[-1]) <= _slope(
            x, y, chain[-1], index
        ):
            chain.pop()
        chain.append(index)
    return tuple(chain)


def choose(tokens: Numbers, recall: Numbers, target: float) -> Mixture:
    """Choose the mixture of settings with the highest mean recall at a number of tokens.

    Args:
        tokens: Of each question and setting, `(n_questions, n_settings)`.
        recall: The same; one of the settings should be showing nothing.
        target: Mean tokens per question that the mixture is to have. Beyond the envelope, its last
            setting is chosen alone.

    Raises:
        ValueError: Without a question or setting.
    """
    if not tokens.size:
        raise ValueError("nothing to choose from: no question, or no setting")
    mean = tokens.mean(axis=0)
    chain = envelope(mean, recall.mean(axis=0))
    x = mean[list(chain)]
    right = int(np.searchsorted(x, target))
    if right == 0 or right == len(chain):
        only = chain[min(right, len(chain) - 1)]
        return Mixture(envelope=chain, low=only, high=only, share=1.0)
    share = (target - x[right - 1]) / (x[right] - x[right - 1])
    return Mixture(envelope=chain, low=chain[right - 1], high=chain[right], share=float(share))


def compare(
    mixture: Mixture,
    tokens: Numbers,
    recall: Numbers,
    own_tokens: Numbers,
    own_recall: Numbers,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare a selection with a mixture that was chosen on other questions, paired by question.

    Args:
        mixture: What was chosen.
        tokens: Of each question and setting of the rival, `(n_questions, n_settings)`.
        recall: The same.
        own_tokens: Of the selection, `(n_questions,)`.
        own_recall: The same.
        resamples: Of the bootstrap. In each, the share at equal tokens is set anew.
        seed: Of the bootstrap.

    Raises:
        ValueError: Without a question.
    """
    mixed_tokens, mixed_recall = (
        (1 - mixture.share) * values[:, mixture.low] + mixture.share * values[:, mixture.high]
        for values in (tokens, recall)
    )
    chain = list(mixture.envelope)
    table = np.column_stack([own_tokens, own_recall, tokens[:, chain], recall[:, chain]])
    counted = np.column_stack([np.ones(len(table)), table])

    def above(sums: Numbers) -> Numbers:
        means = sums[..., 1:] / sums[..., :1]
        x, y = means[..., 2 : 2 + len(chain)], means[..., 2 + len(chain) :]
        return np.asarray(means[..., 1] - along(x, y, means[..., 0]), np.float64)

    return Comparison(
        recall=float(mixed_recall.mean()),
        tokens=float(mixed_tokens.mean()),
        difference=difference_interval(own_recall, mixed_recall, resamples=resamples, seed=seed),
        at_equal_tokens=statistic_interval(counted, above, resamples=resamples, seed=seed),
        tokens_difference=difference_interval(
            own_tokens, mixed_tokens, resamples=resamples, seed=seed
        ),
    )


def along(x: Numbers, y: Numbers, at: Numbers) -> Numbers:
    """Return the heights of curves of straight pieces.

    Args:
        x: Of each curve's points, in any order, shape `(..., n_points)`.
        y: The same.
        at: Where, shape `(...)`; before the first and after the last point, their heights.

    >>> along(np.array([[0.0, 10, 20]]), np.array([[0.0, 1.0, 1.5]]), np.array([15.0]))
    array([1.25])
    """
    order = np.argsort(x, axis=-1, kind="stable")
    x, y = np.take_along_axis(x, order, -1), np.take_along_axis(y, order, -1)
    if x.shape[-1] == 1:
        return np.asarray(y[..., 0], np.float64)
    right = np.clip((x < at[..., None]).sum(axis=-1), 1, x.shape[-1] - 1)[..., None]
    x0, x1 = (np.take_along_axis(x, right - back, -1)[..., 0] for back in (1, 0))
    y0, y1 = (np.take_along_axis(y, right - back, -1)[..., 0] for back in (1, 0))
    width = np.where(x1 > x0, x1 - x0, 1.0)
    part = np.clip((at - x0) / width, 0.0, 1.0)
    return np.asarray(y0 + part * (y1 - y0), np.float64)


def _slope(x: Numbers, y: Numbers, left: int, right: int) -> float:
    width = x[right] - x[left]
    return float((y[right] - y[left]) / width) if width > 0 else float("inf")
