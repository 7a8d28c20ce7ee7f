"""Hits of an index as documents: what the adapters' retrievers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from canopy_rag.api import Index
from canopy_rag.core.evidence import Shown
from canopy_rag.core.select import Select
from canopy_rag.core.types import Item, Modality


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """A hit of which something is shown."""

    item: Item
    text: str
    """Title and headings, header row or times, and the kept regions."""
    similarity: float
    record: dict[str, Any]
    """JSON: the item of the evidence, with `fallbacks`."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What every framework's document gets."""
        return {
            "source": self.item.source.uri,
            "title": self.item.title,
            "modality": self.item.modality,
            "canopy": self.record,
        }


def opened(index: Index | str | Path) -> Index:
    """Return an index, opened if it is given by its folder.

    Raises:
        StoreError: If there is none, or it belongs to another encoder or version.
    """
    return index if isinstance(index, Index) else Index.open(index)


def retrieve(
    index: Index,
    query: str,
    *,
    k: int | None,
    modalities: Sequence[Modality] | None,
    select: Select,
    budget: int | None,
) -> list[Retrieved]:
    """Return the refined hits of one query, best first.

    Args:
        index: Where to search.
        query: What to look for.
        k: Items to retrieve; None: as configured.
        modalities: Only items of these; None for all.
        select: `paper`: every hit shows something. `set`: only what stands out among them.
        budget: Most tokens of all together; None: as configured.

    Raises:
        DataError: If the query is empty.
        StoreError: If the index cannot be read.
    """
    base = index.config.select
    selection = replace(base, select=select, budget=base.budget if budget is None else budget)
    evidence = index.search(query, k=k, modalities=modalities, selection=selection)
    notes = [{"stage": each.stage, "reason": each.reason} for each in evidence.fallbacks]
    records = evidence.to_dict()["items"]

    def one(entry: Shown, record: dict[str, Any]) -> Retrieved:
        alone = replace(evidence, entries=(entry,))
        return Retrieved(
            item=entry.item,
            text=alone.text,
            similarity=entry.similarity,
            record=record | {"fallbacks": list(notes)},
        )

    return [one(*pair) for pair in zip(evidence.entries, records, strict=True)]
