"""Of each retrieved item, the part that the query needs: similarities, selection, budget.

Everything here is arithmetic on stored vectors; no model is called.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canopy_rag.config import SelectConfig
from canopy_rag.core.budget import never_longer
from canopy_rag.core.evidence import Evidence, LeftOut, Shown, Why
from canopy_rag.core.lexical import node_similarities
from canopy_rag.core.protocols import Found
from canopy_rag.core.refine import Refinement
from canopy_rag.core.render import node_body
from canopy_rag.core.select import Select, select
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import NodeQuery


class Selector(Protocol):
    """Another way to choose regions than those of `core.select`, to compare with."""

    def __call__(
        self, query: str, items: Sequence[Item], similarities: Sequence[NDArray[np.float32]]
    ) -> list[Refinement]:
        """Return what to show of each item; nothing kept: nothing of it.

        A refinement without outcomes says that nothing was decided: the item is `whole`.

        Args:
            query: The round's query.
            items: The hits, in rank order.
            similarities: Of the query and each node of each item, `(n_nodes,)` each.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explained:
    """One hit with what selection saw and decided."""

    found: Found
    similarities: NDArray[np.float32]
    """Of the query and each node, `(n_nodes,)`, node order."""
    refinement: Refinement

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return the hit with all its nodes, visited or not, in the JSON form of `explain`.

        Args:
            texts: Put in the words of every node; those of inner nodes come again in their leaves.
        """
        item, hit = self.found.item, self.found.hit
        nodes = []
        for node in item.nodes:
            entry: dict[str, Any] = {
                "index": node.index,
                "parent": node.parent,
                "start": node.start,
                "stop": node.stop,
                "similarity": float(self.similarities[node.index]),
                "outcome": self.refinement.outcomes.get(node.index),
            }
            if texts:
                entry["text"] = node_body(item, node.start, node.stop)
            nodes.append(entry)
        return {
            "item_id": item.id,
            "title": item.title,
            "modality": item.modality,
            "similarity": hit.similarity,
            "rank": hit.rank,
            "nodes": nodes,
        }


def explain(
    found: Sequence[Found],
    node_query: NodeQuery,
    method: Select | Selector,
    *,
    query: str = "",
) -> list[Explained]:
    """Compare a query with every node of the hits and select regions, in rank order.

    Args:
        found: Hits with trees and node vectors.
        node_query: The query as nodes are compared with it.
        method: Scope of selection (D11), or another way to select.
        query: Its text, for a way to select that looks at it.
    """
    values = node_similarities([(each.item.nodes, each.nodes) for each in found], node_query)
    if isinstance(method, str):
        scored = [(each.item.nodes, value) for each, value in zip(found, values, strict=True)]
        chosen = select(scored, method)
    else:
        chosen = method(query, [each.item for each in found], values)
    return [
        Explained(found=each, similarities=value, refinement=refinement)
        for each, value, refinement in zip(found, values, chosen, strict=True)
    ]


def add_round(
    evidence: Evidence,
    explained: Sequence[Explained],
    query: str,
    settings: SelectConfig,
    *,
    number: int = 1,
    aggregate: Collection[str] = (),
) -> Evidence:
    """Return the evidence with one round's hits, not yet held to a budget.

    Args:
        evidence: What the rounds before have shown; its meter says who reads it.
        explained: The round's hits, in rank order.
        query: The round's query.
        settings: Pass-through and repeat rules.
        number: The round, from 1.
        aggregate: Ids of tables that the question needs whole (P6).

    Returns:
        Never empty if there was a hit, never longer than the items whole (D9).
    """
    whole = [_shown(each, query, number, "whole") for each in explained]
    shown = whole
    if not _passes_through(replace(evidence, entries=()).add(whole), settings):
        shown = [
            never_longer(_shown(each, query, number, _why(each, aggregate)), evidence.meter)
            for each in explained
            if each.refinement.kept or each.found.item.id in aggregate
        ]
    if not any(map(_has_content, shown)):  # a blank row stood out; the words are elsewhere
        shown = whole
    something = {each.item.id for each in shown}
    judged = {each.found.item.id for each in explained}
    left_out = tuple(each for each in evidence.left_out if each.item_id not in judged)
    left_out += tuple(
        LeftOut(
            item_id=each.found.item.id,
            rank=each.found.hit.rank,
            reason="nothing stands out",
            item=each.found.item,
        )
        for each in explained
        if each.found.item.id not in something
    )
    return replace(evidence, left_out=left_out).add(shown, settings.repeat)


def _has_content(shown: Shown) -> bool:
    """Whether there is a picture, a stretch of video, or a word to show."""
    item = shown.item
    return item.modality in ("image", "video") or any(
        node_body(item, item.nodes[leaf].start, item.nodes[leaf].stop).strip()
        for node in shown.kept
        for leaf in leaves(item.nodes, node)
    )


def _passes_through(whole: Evidence, settings: SelectConfig) -> bool:
    """Whether the items are shown whole: tiny, or within the budget where that is enough."""
    if settings.when == "needed":
        return settings.budget is None or whole.tokens <= settings.budget
    limit = settings.min_tokens
    if limit == 0:
        return False
    size = 0
    for entry in whole.entries:  # few are written out to see that there is too much
        size += len(replace(whole, entries=(entry,)).text)
        if size > limit * 32:  # no tokenizer packs 32 characters a token
            return False
    return whole.tokens <= limit


def _why(each: Explained, aggregate: Collection[str]) -> Why:
    if each.found.item.modality == "image":
        return "image"
    if each.found.item.id in aggregate:
        return "aggregate"
    return "refined" if each.refinement.outcomes else "whole"


def _shown(each: Explained, query: str, number: int, why: Why) -> Shown:
    hit = each.found.hit
    return Shown(
        item=each.found.item,
        kept=each.refinement.kept if why in ("refined", "image") else (0,),
        why=why if each.found.item.modality != "image" else "image",
        query=query,
        round=number,
        rank=hit.rank,
        similarity=hit.similarity,
        node_similarities=tuple(each.similarities.tolist()),
    )
