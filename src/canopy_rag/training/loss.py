"""The loss over preferences (D4), on plain arrays; `torch_loss` is the same on tensors.

An instance's pairs are the preferences at its node. With `d` the similarity of the preferred node
less the other's, `mean` is the mean over the pairs of `log(1 + exp(-scale * d))`, `logsumexp` is
`log(1 + sum over the pairs of exp(-scale * d))`: the worst pair counts most. Equal similarities
cost `log 2` either way, also where a tie would satisfy the preference.

The second term (D12) compares across the items of a batch: a question's gold must lie
above everything else, the log-sum-exp of which is a soft maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.preferences import DecisionInstance, Preference
from canopy_rag.training.recipe import Reduction

Floats = NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The preferences of several instances over one array of similarities."""

    preferred: NDArray[np.int64]
    """`(n_pairs,)`, positions in the array."""
    other: NDArray[np.int64]
    """`(n_pairs,)`."""
    instance: NDArray[np.int64]
    """`(n_pairs,)`, which instance a pair belongs to, ascending from 0."""
    n_instances: int


def pairs(instances: Sequence[Sequence[DecisionInstance]], starts: Sequence[int]) -> Pairs:
    """Return the pairs of instances whose items' similarities stand one after the other.

    Args:
        instances: Of each item; nodes are counted within the item.
        starts: Position of each item's node 0 in the array.
    """
    rows = [
        (start + each.preferred, start + each.other, number)
        for number, (start, instance) in enumerate(
            (start, instance)
            for start, own in zip(starts, instances, strict=True)
            for instance in own
        )
        for each in instance.preferences
    ]
    table = np.asarray(rows, np.int64).reshape(-1, 3)
    n_instances = sum(len(own) for own in instances)
    return Pairs(table[:, 0], table[:, 1], table[:, 2], n_instances)


def moved(instance: DecisionInstance, positions: Mapping[int, int]) -> DecisionInstance:
    """Return an instance whose preferences name positions instead of nodes."""
    return DecisionInstance(
        node=instance.node,
        preferences=tuple(
            Preference(positions[each.preferred], positions[each.other], each.strict)
            for each in instance.preferences
        ),
    )


def instance_losses(
    similarities: Floats, wanted: Pairs, scale: float = 20.0, reduction: Reduction = "mean"
) -> Floats:
    """Return the loss of each instance, `(n_instances,)`.

    Args:
        similarities: Of all nodes, one array.
        wanted: What should hold among them.
        scale: Lambda.
        reduction: How an instance's pairs are put together.
    """
    costs = _costs(similarities, wanted, scale)  # (n_pairs,), -scale * d
    if reduction == "mean":
        with np.errstate(invalid="ignore"):  # a loss that is no number is the caller's to tell
            sums = _per_instance(np.logaddexp(0, costs), wanted)
        return np.asarray(sums / _n_pairs(wanted))
    top = np.zeros(wanted.n_instances)
    np.maximum.at(top, wanted.instance, costs)
    sums = _per_instance(np.exp(costs - top[wanted.instance]), wanted)
    return np.asarray(top + np.log(np.exp(-top) + sums))


def gradient(
    similarities: Floats, wanted: Pairs, scale: float = 20.0, reduction: Reduction = "mean"
) -> Floats:
    """Return the derivative of the mean of `instance_losses` by each similarity."""
    costs = _costs(similarities, wanted, scale)
    if reduction == "mean":
        weight = np.exp(-np.logaddexp(0, -costs)) / _n_pairs(wanted)[wanted.instance]
    else:
        losses = instance_losses(similarities, wanted, scale, reduction)
        weight = np.exp(costs - losses[wanted.instance])
    step = scale * weight / max(wanted.n_instances, 1)
    result = np.zeros(len(similarities))
    np.add.at(result, wanted.preferred, -step)
    np.add.at(result, wanted.other, step)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """What must lie above what in each row of a matrix of similarities."""

    gold: NDArray[np.bool_]
    """`(n_rows, n_columns)`."""
    other: NDArray[np.bool_]
    """`(n_rows, n_columns)`, never true where `gold` is."""

    @property
    def n_counted(self) -> int:
        """Rows that have both, and so a loss."""
        return int((self.gold.any(axis=1) & self.other.any(axis=1)).sum())


def contrast_losses(similarities: Floats, wanted: Contrasts, scale: float = 20.0) -> Floats:
    """Return the loss of each row, `(n_rows,)`; 0 where there is no gold or nothing else.

    The mean over the row's gold of `log(1 + sum over the others of exp(scale * (other - gold)))`.

    Args:
        similarities: `(n_rows, n_columns)`.
        wanted: Which columns are gold, and which must lie below.
        scale: Lambda.
    """
    values = scale * np.asarray(similarities, np.float64)
    found = np.zeros(len(values))
    for row, (own, gold, other) in enumerate(zip(values, wanted.gold, wanted.other, strict=True)):
        if gold.any() and other.any():
            below = np.logaddexp.reduce(own[other])
            found[row] = np.logaddexp(0, below - own[gold]).mean()
    return found


def _costs(similarities: Floats, wanted: Pairs, scale: float) -> Floats:
    values = np.asarray(similarities, np.float64)
    return np.asarray(-scale * (values[wanted.preferred] - values[wanted.other]))


def _per_instance(values: Floats, wanted: Pairs) -> Floats:
    return np.asarray(
        np.bincount(wanted.instance, values, minlength=wanted.n_instances), np.float64
    )


def _n_pairs(wanted: Pairs) -> Floats:
    counts = np.bincount(wanted.instance, minlength=wanted.n_instances)
    return np.maximum(counts, 1).astype(np.float64)
