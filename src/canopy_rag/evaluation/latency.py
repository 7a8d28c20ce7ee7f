"""The paper's latency: wall clock of a batch without vector search, by its questions (P17)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from canopy_rag.pipeline.clock import SEARCH


class Timeline:
    """When questions of one batch were at work, told by `pipeline.clock.watching`.

    Questions overlap. A moment counts once, if any question was in a stage other than vector
    search: what is left of the batch's wall clock are the moments at which nothing but searches
    went on. Encoding queries, routing, similarities, every call with its prompt and its wait for a
    free place in the client's queue count; waiting for a thread to search in does not; nodes were
    encoded before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stretches: list[tuple[float, float]] = []
        self.search_s = 0.0
        """Vector search, added up over questions."""

    def __call__(self, stage: str, start: float, stop: float) -> None:
        """Take in a stretch of one question's time; from any thread."""
        with self._lock:
            if stage == SEARCH:
                self.search_s += stop - start
            else:
                self._stretches.append((start, stop))

    @property
    def counted_s(self) -> float:
        """Seconds at which at least one question was at work, not only searching."""
        with self._lock:
            return covered(self._stretches)


def covered(stretches: Iterable[tuple[float, float]]) -> float:
    """Return the length that intervals cover together.

    >>> covered([(0, 2), (1, 3), (5, 6), (5.25, 5.5)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(stretches):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


class Batch(NamedTuple):
    """What one batch took."""

    benchmark: str
    method: str
    n: int
    """Questions that were answered."""
    counted_s: float
    wall_s: float
    search_s: float
    n_cached: int
    """Replies that came from the cache: such a batch says nothing of latency."""
