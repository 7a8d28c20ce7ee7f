"""Does a shown fragment make sense alone? A rough count: how often one begins by pointing back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item
from canopy_rag.evaluation.selections import Kept

_WORDS = """
he she it they him her them his hers its their theirs this that these those such there here
another both either neither but however although and or nor so yet then thus hence therefore
moreover furthermore nevertheless nonetheless instead otherwise also afterwards later
meanwhile similarly consequently accordingly
"""
POINTING = frozenset(_WORDS.split())
"""Pronouns and connectives: what such a word points to stands in the sentence before."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class Fragments(NamedTuple):
    """How many fragments are shown, and how many of them lack what they point to."""

    n: int
    dangling: int


def dangling(items: Sequence[Item], kept: Kept) -> Fragments:
    """Count the fragments of texts, and those that begin by pointing to what is not shown.

    A fragment is a stretch of kept leaves without a gap. It dangles if its first word is a pronoun
    or connective (English) and a leaf of its item stands before it, which then is not kept.

    Args:
        items: The items; only texts count.
        kept: The kept leaves of each.
    """
    n = n_dangling = 0
    for item, own in zip(items, kept, strict=True):
        if item.modality != "text" or not own:
            continue
        ends = leaves(item.nodes)
        for before, leaf in zip((None, *ends), ends, strict=False):
            if leaf in own and before not in own:
                n += 1
                n_dangling += before is not None and points_back(_text(item, leaf))
    return Fragments(n, n_dangling)


def points_back(sentence: str) -> bool:
    """Return whether a sentence begins with a pronoun or connective.

    >>> points_back("However, she left."), points_back("Ada left."), points_back("It's late.")
    (True, False, True)
    """
    word = _WORD.search(sentence)
    return word is not None and re.split("['’]", word[0].lower())[0] in POINTING


def _text(item: Item, leaf: int) -> str:
    node = item.nodes[leaf]
    return node_body(item, node.start, node.stop)
