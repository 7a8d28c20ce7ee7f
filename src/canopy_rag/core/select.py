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


def select(items: Sequence[Scored], method: Select) -> list[Refinement]:
    """Choose the regions to show of each retrieved item.

    Args:
        items: The retrieved items' trees and similarities, in rank order.
        method: `paper` refines each item on its own (P3); every item keeps something. `set` looks
            at the leaves of all items together and keeps those on the upper side of Otsu's
            threshold, so that there is nothing to tune; an item may keep nothing, and the best
            leaf is always kept.

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


def otsu(values: NDArray[np.floating]) -> float:
    """Return the value that parts `values` with the largest variance between the two sides.

    The value itself is on the upper side; all are if they are equal. Source: N. Otsu, A threshold
    selection method from gray-level histograms, 1979; over the values themselves, so that there are
    no bins to choose.

    >>> otsu(np.array([0.1, 0.2, 0.8, 0.9]))
    0.8
    """
    ordered = np.sort(values)
    if ordered[0] == ordered[-1]:
        return float(ordered[0])
    n = len(ordered)
    below = np.arange(1, n)  # so many values lie on the lower side
    sums = np.cumsum(ordered, dtype=np.float64)
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / (n - below)
    between = below * (n - below) * (high - low) ** 2
    return float(ordered[int(np.argmax(between)) + 1])


def _select_set(items: Sequence[Scored]) -> list[Refinement]:
    if not items:
        return []
    leaf_indices = [list(leaves(nodes)) for nodes, _ in items]
    values = [each[indices] for (_, each), indices in zip(items, leaf_indices, strict=True)]
    threshold = otsu(np.concatenate(values))
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
