"""The refinement rule: which regions of one item to show (P3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from canopy_rag.core.types import Node

Outcome = Literal["keep", "split", "drop"]


class Refinement(NamedTuple):
    """What refinement decided about one item."""

    kept: tuple[int, ...]
    """Kept nodes, ascending, none an ancestor of another."""
    outcomes: Mapping[int, Outcome]
    """Outcome of every node visited; the others lie under a kept or a dropped one."""


def refine(nodes: Sequence[Node], similarities: Sequence[float]) -> Refinement:
    """Choose the regions of one item to show, from the root downwards.

    A node is replaced by those of its children that are at least as similar to the query as the
    node itself; a node with no such child is kept whole. Ties qualify.

    Args:
        nodes: The item's nodes in preorder; index 0 is the root.
        similarities: Query similarity of each node, `(n_nodes,)`, node order. Pass float32 or
            better: half precision can flip near-ties (D3).

    Raises:
        ValueError: If the two lengths differ, there is no node, or a similarity is NaN.

    The paper's worked example:

    >>> parents = [None, 0, 1, 1, 0, 4, 4]  # root, A, a1, a2, B, b1, b2
    >>> children = [(1, 4), (2, 3), (), (), (5, 6), (), ()]
    >>> nodes = [Node(index=i, parent=p, children=c, start=0, stop=1)
    ...          for i, (p, c) in enumerate(zip(parents, children))]
    >>> refine(nodes, [0.50, 0.80, 0.79, 0.10, 0.70, 0.90, 0.20]).kept
    (1, 5)

    Source: paper Section 3.2, Algorithm 1 (P3).
    """
    if len(nodes) != len(similarities) or len(nodes) == 0:
        raise ValueError(
            f"{len(nodes)} nodes but {len(similarities)} similarities; "
            "pass one similarity per node, in node order, and at least the root"
        )
    values = [float(value) for value in similarities]
    if any(math.isnan(value) for value in values):
        raise ValueError("a similarity is NaN; every comparison with it would be false")
    outcomes: dict[int, Outcome] = {}
    stack = [0]
    while stack:
        index = stack.pop()
        children = nodes[index].children
        qualifying = [child for child in children if values[child] >= values[index]]
        outcomes[index] = "split" if qualifying else "keep"
        if qualifying:
            outcomes.update(dict.fromkeys(children, "drop"))
            stack.extend(qualifying)  # their own turn overwrites "drop"
    kept = tuple(sorted(index for index, outcome in outcomes.items() if outcome == "keep"))
    return Refinement(kept, dict(sorted(outcomes.items())))
