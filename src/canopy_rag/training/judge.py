"""How often decisions are right on the validation part (P11), altogether and by benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from canopy_rag.core.preferences import decides_correctly
from canopy_rag.training.data import Example


@dataclass(slots=True)
class Judged:
    """Decisions that were counted."""

    n_right: dict[str, float] = field(default_factory=dict)
    """By benchmark."""
    n: dict[str, float] = field(default_factory=dict)
    """By benchmark."""

    def add(self, example: Example, similarities: Sequence[float]) -> None:
        """Count an example's decisions, given the similarities of its nodes."""
        name = example.benchmark
        right = n_right_decisions(example, similarities)
        self.n_right[name] = self.n_right.get(name, 0.0) + right
        self.n[name] = self.n.get(name, 0.0) + len(example.instances)

    def together(self, names: Sequence[str], total: Callable[[float], float]) -> Judged:
        """Return the counts of all processes.

        Args:
            names: All benchmarks, in the same order in each process.
            total: Adds a number up over the processes.
        """
        return Judged(
            {name: total(self.n_right.get(name, 0.0)) for name in names},
            {name: total(self.n.get(name, 0.0)) for name in names},
        )

    @property
    def accuracy(self) -> float:
        """Share of the decisions that are right."""
        return sum(self.n_right.values()) / max(1.0, sum(self.n.values()))

    @property
    def by_benchmark(self) -> dict[str, float]:
        """The same of each benchmark."""
        return {name: self.n_right[name] / max(1.0, n) for name, n in self.n.items()}


def n_right_decisions(example: Example, similarities: Sequence[float]) -> int:
    """Return how many of an example's decisions are right, given the similarities of its nodes."""
    by_node = [math.nan] * len(example.item.nodes)
    for node, value in zip(example.nodes, similarities, strict=True):
        by_node[node] = value
    return sum(decides_correctly(instance, by_node) for instance in example.instances)


def as_results(before: Judged | None, after: Judged | None) -> dict[str, Any]:
    """Return two looks at the validation part as JSON; None for a look that was not taken."""
    names = list(after.n) if after is not None else []
    return {
        "before": None if before is None else before.accuracy,
        "after": None if after is None else after.accuracy,
        "by_benchmark": {
            name: {
                "before": None if before is None else before.by_benchmark[name],
                "after": None if after is None else after.by_benchmark[name],
            }
            for name in names
        },
    }
