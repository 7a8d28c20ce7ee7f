"""Ways to select regions without the tree: everything, the best leaves of each item, or of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.refine import Outcome, Refinement
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item
from canopy_rag.pipeline.compressor import Selector

Similarities = Sequence[NDArray[np.float32]]
WHOLE = Refinement((0,), {})
"""All of an item, without a decision."""


def whole(query: str, items: Sequence[Item], similarities: Similarities) -> list[Refinement]:
    """Show every item whole."""
    return [WHOLE] * len(items)


def flat(m: int) -> Selector:
    """Keep the `m` most similar leaves of each item, in the order of the item (P14).

    Ties: the earlier leaf.
    """

    def choose(query: str, items: Sequence[Item], similarities: Similarities) -> list[Refinement]:
        chosen = []
        for item, values in zip(items, similarities, strict=True):
            order = sorted(leaves(item.nodes), key=lambda leaf: (-float(values[leaf]), leaf))
            chosen.append(kept_leaves(item, order[:m]))
        return chosen

    return choose


def pooled(n: int) -> Selector:
    """Keep the `n` most similar sentences and rows of all items together, images and videos whole.

    Ties: the item of the better rank, then the earlier leaf.
    """

    def choose(query: str, items: Sequence[Item], similarities: Similarities) -> list[Refinement]:
        ranked = sorted(
            (-float(similarities[place][leaf]), place, leaf)
            for place, item in enumerate(items)
            if has_sentences(item)
            for leaf in leaves(item.nodes)
        )
        kept: list[list[int]] = [[] for _ in items]
        for _, place, leaf in ranked[:n]:
            kept[place].append(leaf)
        return [
            kept_leaves(item, kept[place]) if has_sentences(item) else WHOLE
            for place, item in enumerate(items)
        ]

    return choose


def has_sentences(item: Item) -> bool:
    """Whether a method made for sentences can cut the item: a text, or a table by its rows."""
    return item.modality in ("text", "table")


def kept_leaves(item: Item, chosen: Sequence[int]) -> Refinement:
    """Return a choice of leaves as a refinement: no inner node is visited."""
    kept = tuple(sorted(chosen))
    outcomes: dict[int, Outcome] = dict.fromkeys(leaves(item.nodes), "drop")
    outcomes.update(dict.fromkeys(kept, "keep"))
    return Refinement(kept, outcomes)
