"""Table trees: rows by halving (D1). Caption and header travel with every rendering (D2)."""

from __future__ import annotations

from canopy_rag.core.trees.build import Group, tree_from_groups
from canopy_rag.core.types import Node


def table_tree(n_rows: int, branching: int = 2) -> tuple[Node, ...]:
    """Build the tree of a table: leaves are rows, intervals count rows below the header.

    Args:
        n_rows: Number of data rows; a table without any is a single node `[0, 0)`.
        branching: Most children of a node (2: halving).
    """
    rows = tuple(Group(start=row, stop=row + 1) for row in range(n_rows))
    return tree_from_groups(Group(start=0, stop=n_rows, children=rows), branching)
