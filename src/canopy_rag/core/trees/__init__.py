"""Trees of the four modalities: structure first, then balanced halving down to the leaves (D1)."""

from canopy_rag.core.trees.build import check_tree, first_leaf, last_leaf, leaves, tree_from_groups
from canopy_rag.core.trees.image import image_tree
from canopy_rag.core.trees.table import table_tree
from canopy_rag.core.trees.text import text_tree
from canopy_rag.core.trees.video import video_tree

__all__ = [
    "check_tree",
    "first_leaf",
    "image_tree",
    "last_leaf",
    "leaves",
    "table_tree",
    "text_tree",
    "tree_from_groups",
    "video_tree",
]
