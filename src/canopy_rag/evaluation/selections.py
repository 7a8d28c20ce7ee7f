"""Ways to select leaves of retrieved items, to be compared at the same size of evidence.

The paper's rule and its flat baseline look at each item alone (P3, P14); the others compare leaves
over the whole retrieved set. All get the same trees and similarities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.select import Scored, Select, select
from canopy_rag.core.trees import leaves

Kept = list[frozenset[int]]
"""The kept leaves of each item, in rank order."""
Selection = Callable[[Sequence[Scored]], Kept]

FLAT = (1, 2, 3, 5, 10, 20)
GLOBAL = (1, 2, 3, 5, 8, 12, 16, 24, 40)
WHOLE = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A named way to select."""

    name: str
    family: str
    """Methods of one family lie on one curve."""
    select: Selection


def methods() -> tuple[Method, ...]:
    """Return every method of the diagnosis, by family."""
    return (
        Method(name="refine", family="refine", select=by_rule("paper")),
        Method(name="set", family="set", select=by_rule("set")),
        *(Method(name=f"flat-{m}", family="flat", select=flat(m)) for m in FLAT),
        *(Method(name=f"global-{n}", family="global", select=best_leaves(n)) for n in GLOBAL),
        Method(name="above-mean", family="threshold", select=above(np.mean)),
        Method(name="above-mean+sd", family="threshold", select=above(_mean_plus_sd)),
        *(Method(name=f"whole-{n}", family="whole", select=whole(n)) for n in WHOLE),
    )


def flat(m: int) -> Selection:
    """Keep the `m` most similar leaves of each item (P14); ties: the earlier leaf."""

    def choose(items: Sequence[Scored]) -> Kept:
        kept: Kept = []
        for nodes, values in items:
            order = sorted(leaves(nodes), key=lambda leaf: (-float(values[leaf]), leaf))
            kept.append(frozenset(order[:m]))
        return kept

    return choose


def best_leaves(n: int) -> Selection:
    """Keep the `n` most similar leaves of all items; ties: the item of the better rank."""

    def choose(items: Sequence[Scored]) -> Kept:
        ranked = sorted(
            (-float(values[leaf]), rank, leaf)
            for rank, (nodes, values) in enumerate(items)
            for leaf in leaves(nodes)
        )
        kept: list[set[int]] = [set() for _ in items]
        for _, rank, leaf in ranked[:n]:
            kept[rank].add(leaf)
        return [frozenset(each) for each in kept]

    return choose


def above(threshold: Callable[[NDArray[np.float64]], float | np.floating]) -> Selection:
    """Keep the leaves at or above a threshold of all leaves' similarities."""

    def choose(items: Sequence[Scored]) -> Kept:
        if not items:
            return []
        ends = [leaves(nodes) for nodes, _ in items]
        pooled = np.concatenate(
            [values[list(own)] for own, (_, values) in zip(ends, items, strict=True)]
        ).astype(np.float64)
        bound = min(float(threshold(pooled)), float(pooled.max()))
        return [
            frozenset(leaf for leaf in own if values[leaf] >= bound)
            for own, (_, values) in zip(ends, items, strict=True)
        ]

    return choose


def whole(n: int) -> Selection:
    """Keep the first `n` items whole."""

    def choose(items: Sequence[Scored]) -> Kept:
        return [
            frozenset(leaves(nodes)) if rank < n else frozenset()
            for rank, (nodes, _) in enumerate(items)
        ]

    return choose


def _mean_plus_sd(values: NDArray[np.float64]) -> float:
    return float(values.mean() + values.std())


def by_rule(method: Select) -> Selection:
    """Keep what a rule of `core.select` keeps (D11)."""

    def choose(items: Sequence[Scored]) -> Kept:
        chosen = select(items, method)
        return [
            frozenset(leaf for node in each.kept for leaf in leaves(nodes, node))
            for (nodes, _), each in zip(items, chosen, strict=True)
        ]

    return choose
