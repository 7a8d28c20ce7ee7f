"""Token sequences that fit the model: cutting long ones, batching short ones, adding states up.

Pure bookkeeping over token ids. A *part* is one sequence to be read: context tokens, which every
window repeats, and runs of tokens, each counted to a row of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens that are counted to one row, or to none."""

    row: int | None
    ids: Ids


@dataclass(slots=True)
class Window:
    """What one forward pass reads of a part, between `[CLS]` and `[SEP]`."""

    part: int
    """Position of the part that it belongs to."""
    runs: list[Run] = field(default_factory=list)
    n_tokens: int = 0
    """Tokens of the runs."""


def cut(part: int, runs: Sequence[Run], capacity: int) -> list[Window]:
    """Spread runs over as few windows as they need, about equally full; no token is lost.

    A window ends between runs; a run longer than a window is cut into several.

    Args:
        part: Position of the part, noted in its windows.
        runs: In order.
        capacity: Most tokens of a window, at least 1.

    Returns:
        At least one window, without tokens if there are none.
    """
    total = sum(len(run.ids) for run in runs)
    target = -(-total // max(1, -(-total // capacity)))
    windows = [Window(part)]
    for run in runs:
        for begin in range(0, len(run.ids), capacity):
            ids = run.ids[begin : begin + capacity]
            window = windows[-1]
            if window.n_tokens and (
                window.n_tokens + len(ids) > capacity or window.n_tokens >= target
            ):
                window = Window(part)
                windows.append(window)
            window.runs.append(Run(run.row, ids))
            window.n_tokens += len(ids)
    return windows


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield positions in batches of similar length, longest first.

    Args:
        lengths: Tokens of each sequence, padding aside.
        max_tokens: Most tokens of a batch, padding included; a longer sequence goes alone.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    begin = 0
    while begin < len(order):
        size = max(1, max_tokens // max(1, lengths[order[begin]]))
        yield order[begin : begin + size]
        begin += size


class Sums:
    """States added up by row.

    Args:
        n_rows: Number of rows.
        dim: Length of a state.
    """

    def __init__(self, n_rows: int, dim: int) -> None:
        self.total = np.zeros((n_rows, dim), np.float32)
        self.count = np.zeros(n_rows, np.int64)

    def add(self, row: int, states: NDArray[np.float32]) -> None:
        """Add the states of some tokens, `(n_tokens, dim)`, to a row."""
        self.total[row] += states.sum(axis=0)
        self.count[row] += len(states)

    def means(self) -> NDArray[np.float32]:
        """Return each row's mean state, `(n_rows, dim)`; zeros for a row without tokens."""
        return np.asarray(self.total / np.maximum(self.count, 1)[:, None], np.float32)
