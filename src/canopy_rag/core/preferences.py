"""What refinement should decide at a node, given where the gold is: decision instances (P10, P11).

Training learns these preferences and evaluation counts the decisions in which all of them hold, so
both use this one definition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Node


class Preference(NamedTuple):
    """A comparison that must hold between two nodes."""

    preferred: int
    other: int
    strict: bool
    """Whether `preferred` must lie above `other`; otherwise at least as high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInstance:
    """A node at which refinement has a right decision."""

    node: int
    preferences: tuple[Preference, ...]
    """One per child, in order of the children."""


def gold_leaves(nodes: Sequence[Node], spans: Collection[tuple[float, float]]) -> frozenset[int]:
    """Return the leaves that overlap a gold span.

    Args:
        nodes: The item's tree.
        spans: Half-open intervals in the item's unit. An empty one overlaps nothing.
    """
    return frozenset(
        leaf
        for leaf in leaves(nodes)
        if any(nodes[leaf].start < stop and start < nodes[leaf].stop for start, stop in spans)
    )


def decision_instances(nodes: Sequence[Node], gold: Collection[int]) -> list[DecisionInstance]:
    """Return the decision instances of one item, in preorder.

    They are the inner nodes that overlap gold and have no fully gold proper ancestor. At a fully
    gold node every child must lie strictly below it; at any other, each child that overlaps gold
    must be at least as similar as the node, and every other child strictly less (P10).

    Args:
        nodes: The item's tree.
        gold: Its gold leaves.

    >>> from canopy_rag.core.trees import table_tree
    >>> decision_instances(table_tree(2), {1})[0].preferences
    (Preference(preferred=1, other=0, strict=False), Preference(preferred=0, other=2, strict=True))
    """
    n_gold = [0] * len(nodes)
    n_leaves = [0] * len(nodes)
    wanted = set(gold)
    for node in reversed(nodes):
        if node.children:
            n_gold[node.index] = sum(n_gold[child] for child in node.children)
            n_leaves[node.index] = sum(n_leaves[child] for child in node.children)
        else:
            n_gold[node.index] = int(node.index in wanted)
            n_leaves[node.index] = 1
    instances: list[DecisionInstance] = []
    stack = [0]
    while stack:
        node = nodes[stack.pop()]
        if not node.children or not n_gold[node.index]:
            continue
        full = n_gold[node.index] == n_leaves[node.index]
        preferences = tuple(
            _preference(node.index, child, full=full, gold=n_gold[child] > 0)
            for child in node.children
        )
        instances.append(DecisionInstance(node=node.index, preferences=preferences))
        if not full:
            stack.extend(reversed(node.children))
    return instances


def decides_correctly(instance: DecisionInstance, similarities: Sequence[float]) -> bool:
    """Return whether every preference of an instance holds (P11).

    Args:
        instance: The decision.
        similarities: Of each node, node order, float32.
    """
    return all(
        similarities[each.preferred] > similarities[each.other]
        if each.strict
        else similarities[each.preferred] >= similarities[each.other]
        for each in instance.preferences
    )


def _preference(node: int, child: int, *, full: bool, gold: bool) -> Preference:
    if gold and not full:
        return Preference(preferred=child, other=node, strict=False)
    return Preference(preferred=node, other=child, strict=True)
