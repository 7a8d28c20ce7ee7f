"""Which regions of the retrieved items to show: item by item, or over the whole set (D11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.refine import Outcome, Refinement, refine
from canopy_rag.core.types import Node
from canopy_rag.core.vectors import leaf_borders

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
    scored = [(nodes, values.tolist()) for nodes, values in items]
    leaf_values = [
        [values[node.index] for node in nodes if not node.children] for nodes, values in scored
    ]
    threshold = otsu(np.asarray([value for own in leaf_values for value in own], np.float32))
    return [
        _above(threshold, nodes, values) if max(own) >= threshold else Refinement((), {0: "drop"})
        for (nodes, values), own in zip(scored, leaf_values, strict=True)
    ]


def _above(threshold: float, nodes: Sequence[Node], values: Sequence[float]) -> Refinement:
    """Return the coarsest nodes all of whose leaves reach `threshold`, and visited nodes' outcomes.

    One of the leaves does.
    """
    begins, ends = leaf_borders(nodes)
    reach = (values[node.index] >= threshold for node in nodes if not node.children)
    n_reach = [0, *accumulate(reach)]
    outcomes: dict[int, Outcome] = {}
    stack = [0]
    while stack:  # in preorder, so that outcomes ascend
        index = stack.pop()
        begin, end = begins[index], ends[index]
        n_own = n_reach[end] - n_reach[begin]
        outcomes[index] = "drop" if n_own == 0 else "keep" if n_own == end - begin else "split"
        if outcomes[index] == "split":
            stack.extend(reversed(nodes[index].children))
    return Refinement(tuple(i for i, outcome in outcomes.items() if outcome == "keep"), outcomes)
