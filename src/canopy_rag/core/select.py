"""Which regions of the retrieved items to show: item by item, or over the whole set (D11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.refine import Outcome, Refinement, refine
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Node

Select = Literal["paper", "set"]
Scored = tuple[Sequence[Node], NDArray[np.float32]]
"""An item's nodes with their similarities, `(n_nodes,)`."""

ROOT_SHARE = 0.5
"""Weight of a leaf's distance from its root in `set`; SPIKE.md 9 found about one half."""


def select(items: Sequence[Scored], method: Select = "paper") -> list[Refinement]:
    """Choose the regions to show of each retrieved item.

    Args:
        items: The retrieved items' trees and similarities, in rank order.
        method: `paper` refines each item on its own (P3); every item keeps something. `set` looks
            at all items together: leaves are compared by `root + (leaf - root) / 2` and those above
            the set's mean plus one standard deviation are kept (SPIKE.md 9), so an item may keep
            nothing; the best leaf is always kept.

    Raises:
        UnknownNameError: If the method is neither.
    """
    methods: dict[str, Callable[[Sequence[Scored]], list[Refinement]]] = {
        "paper": lambda scored: [refine(nodes, values.tolist()) for nodes, values in scored],
        "set": _select_set,
    }
    if method not in methods:
        raise UnknownNameError("selection", method, methods)
    return methods[method](items)


def _select_set(items: Sequence[Scored]) -> list[Refinement]:
    if not items:
        return []
    leaf_indices = [leaves(nodes) for nodes, _ in items]
    values = [
        similarity[0] + ROOT_SHARE * (similarity[list(indices)] - similarity[0])
        for (_, similarity), indices in zip(items, leaf_indices, strict=True)
    ]
    pooled = np.concatenate(values).astype(np.float64)
    threshold = min(float(pooled.mean() + pooled.std()), float(pooled.max()))
    return [
        _from_leaves(
            nodes, {i for i, value in zip(indices, row, strict=True) if value >= threshold}
        )
        for (nodes, _), indices, row in zip(items, leaf_indices, values, strict=True)
    ]


def _from_leaves(nodes: Sequence[Node], kept_leaves: set[int]) -> Refinement:
    """Return the coarsest nodes whose leaves are all kept, with the outcomes of visited nodes."""
    full: list[bool] = [False] * len(nodes)
    some: list[bool] = [False] * len(nodes)
    for node in reversed(nodes):
        if node.children:
            full[node.index] = all(full[child] for child in node.children)
            some[node.index] = any(some[child] for child in node.children)
        else:
            full[node.index] = some[node.index] = node.index in kept_leaves
    outcomes: dict[int, Outcome] = {}
    stack = [0]
    while stack:
        index = stack.pop()
        outcomes[index] = "keep" if full[index] else "split" if some[index] else "drop"
        if outcomes[index] == "split":
            stack.extend(nodes[index].children)
    kept = tuple(sorted(index for index, outcome in outcomes.items() if outcome == "keep"))
    return Refinement(kept, dict(sorted(outcomes.items())))
