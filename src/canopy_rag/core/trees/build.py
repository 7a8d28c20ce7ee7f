"""From nested groups of intervals to a tree of nodes, and the invariants that every tree keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canopy_rag.core.errors import TreeError
from canopy_rag.core.types import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A region with the regions inside it, before it becomes a node."""

    start: float
    stop: float
    children: tuple[Group, ...] = ()


def tree_from_groups(root: Group, branching: int = 2) -> tuple[Node, ...]:
    """Turn nested groups into a tree in preorder.

    Chains collapse: a group with a single child takes that child's children and keeps its own,
    wider interval. A group with more than `branching` children is halved (for `branching` 2) into
    balanced runs of neighbours, the longer runs first, until none has more.

    Args:
        root: The whole item.
        branching: Most children a node may have, at least 2.

    Raises:
        ValueError: If `branching` is below 2.
    """
    if branching < 2:
        raise ValueError(f"branching must be at least 2, got {branching}")
    nodes: list[Node] = []

    def place(group: Group, parent: int | None) -> int:
        index = len(nodes)
        start, stop, children = group.start, group.stop, group.children
        while len(children) == 1:
            children = children[0].children
        nodes.append(Node(index=index, parent=parent, children=(), start=start, stop=stop))
        placed = tuple(place(child, index) for child in _balanced(children, branching))
        nodes[index] = Node(index=index, parent=parent, children=placed, start=start, stop=stop)
        return index

    place(root, None)
    return tuple(nodes)


def _balanced(children: tuple[Group, ...], branching: int) -> tuple[Group, ...]:
    """Return at most `branching` groups that hold `children` in order, sizes differing by one."""
    if len(children) <= branching:
        return children
    size, longer = divmod(len(children), branching)
    runs: list[Group] = []
    begin = 0
    for run in range(branching):
        end = begin + size + (run < longer)
        part = children[begin:end]
        whole = Group(start=part[0].start, stop=part[-1].stop, children=part)
        runs.append(part[0] if len(part) == 1 else whole)
        begin = end
    return tuple(runs)


def leaves(nodes: Sequence[Node], index: int = 0) -> tuple[int, ...]:
    """Return the leaves under node `index`, in order; the node itself if it is a leaf."""
    if not nodes[index].children:
        return (index,)
    found: list[int] = []
    stack = [index]
    while stack:
        node = nodes[stack.pop()]
        if node.children:
            stack.extend(reversed(node.children))
        else:
            found.append(node.index)
    return tuple(found)


def first_leaf(nodes: Sequence[Node], index: int) -> int:
    """Return the first leaf under node `index`; the node itself if it is a leaf."""
    while nodes[index].children:
        index = nodes[index].children[0]
    return index


def last_leaf(nodes: Sequence[Node], index: int) -> int:
    """Return the last leaf under node `index`; the node itself if it is a leaf."""
    while nodes[index].children:
        index = nodes[index].children[-1]
    return index


def check_tree(nodes: Sequence[Node]) -> None:
    """Check what every tree promises: preorder, links both ways, ordered disjoint intervals.

    Raises:
        TreeError: Naming the node and the invariant that it breaks: a tree has a root; node `i`
            stands at position `i`; parents and children agree; nodes are in preorder; an inner
            node has at least two children; intervals are finite, not reversed, inside the
            parent's, in order and disjoint.
    """
    if not nodes:
        raise TreeError("a tree needs at least its root")
    order: list[int] = []
    stack = [0]
    while stack:
        index = stack.pop()
        if not 0 <= index < len(nodes) or len(order) > len(nodes):
            raise TreeError(f"node {index} is not one of the {len(nodes)} nodes, or in a cycle")
        order.append(index)
        _check_node(nodes, index)
        stack.extend(reversed(nodes[index].children))
    if order != list(range(len(nodes))):
        raise TreeError("nodes are not in preorder, or some are unreachable from the root")


def _check_node(nodes: Sequence[Node], index: int) -> None:
    node = nodes[index]
    if node.index != index:
        raise TreeError(f"the node at position {index} says that its index is {node.index}")
    if index == 0 and node.parent is not None:
        raise TreeError(f"the root says that node {node.parent} is its parent")
    if not float("-inf") < node.start <= node.stop < float("inf"):
        raise TreeError(f"node {index} has the interval [{node.start}, {node.stop})")
    if len(node.children) == 1:
        raise TreeError(f"node {index} has a single child; chains must collapse")
    begin = node.start
    for child_index in node.children:
        if not index < child_index < len(nodes):
            raise TreeError(f"node {index} names {child_index} as a child; preorder forbids it")
        child = nodes[child_index]
        if child.parent != index:
            raise TreeError(f"node {child_index} is a child of {index} but names {child.parent}")
        if child.start < begin or child.stop > node.stop:
            raise TreeError(
                f"node {child_index} [{child.start}, {child.stop}) overlaps a sibling or leaves "
                f"its parent {index} [{node.start}, {node.stop})"
            )
        begin = child.stop
