"""Video trees: segments by halving (D1)."""

from __future__ import annotations

from collections.abc import Sequence

from canopy_rag.core.trees.build import Group, tree_from_groups
from canopy_rag.core.types import Node, Segment


def video_tree(segments: Sequence[Segment], branching: int = 2) -> tuple[Node, ...]:
    """Build the tree of a video item: leaves are its segments, intervals are seconds of the file.

    Args:
        segments: At least one, in order, disjoint.
        branching: Most children of a node (2: halving).

    Raises:
        ValueError: If there is no segment.
    """
    if not segments:
        raise ValueError("a video item needs at least one segment")
    groups = tuple(Group(start=segment.start, stop=segment.stop) for segment in segments)
    root = Group(start=segments[0].start, stop=segments[-1].stop, children=groups)
    return tree_from_groups(root, branching)
