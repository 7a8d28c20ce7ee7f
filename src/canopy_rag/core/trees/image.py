"""Image trees: a single node, since an image is never split (P4)."""

from __future__ import annotations

from canopy_rag.core.types import Node


def image_tree() -> tuple[Node, ...]:
    """Return the tree of any image: one node from 0 to 1."""
    return (Node(index=0, parent=None, children=(), start=0, stop=1),)
