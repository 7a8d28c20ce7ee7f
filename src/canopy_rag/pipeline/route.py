"""Which corpora a query is for: asked of a model, or settled by guaranteed shares (P8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from canopy_rag.core.prompts import router_messages
from canopy_rag.core.protocols import LLM, Found
from canopy_rag.core.replies import ROUTER
from canopy_rag.core.types import MODALITIES, Modality
from canopy_rag.pipeline.structured import Calls, ask

MAX_TOKENS = 96
"""Longest reply: the object with all categories and some white space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing(Calls):
    """Where to search for one query."""

    modalities: tuple[Modality, ...] = ()
    """Corpora to search, in the order of `MODALITIES`; empty: all of them."""
    none: bool = False
    """Whether the router sees nothing to be searched; what follows is the loop's setting (D6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalityRouter:
    """Asks a model about every query, follow-ups included (P8)."""

    llm: LLM
    max_tokens: int = MAX_TOKENS

    async def route(self, query: str) -> Routing:
        """Return where to search.

        Without a decision all corpora are searched, and the fallback says so (D15).
        """
        asked = await ask(
            self.llm,
            ROUTER,
            router_messages(query),
            max_tokens=self.max_tokens,
            otherwise="all corpora are searched",
        )
        named = asked.value or ()
        return Routing(
            modalities=tuple(each for each in MODALITIES if each in named),
            none=bool(named) and not set(named).intersection(MODALITIES),
            llm_calls=asked.llm_calls,
            prompt_tokens=asked.prompt_tokens,
            completion_tokens=asked.completion_tokens,
            cost=asked.cost,
            fallbacks=asked.fallbacks,
        )


def soft_shares(
    found_by_modality: Mapping[Modality, Sequence[Found]], k: int, minimum: int
) -> list[Found]:
    """Return the `k` most similar hits of all corpora, of each at least `minimum`.

    Routing without a model: no corpus is lost, and the nearest still get the most places.

    Args:
        found_by_modality: Each corpus's hits, most similar first, as searched with `k`.
        k: Hits in all.
        minimum: Places kept for each corpus; fewer if it has fewer hits. If they do not all fit
            into `k`, the corpora's first hits come first, then their second ones, and so on.

    Returns:
        Most similar first, ties by item id, with new ranks from 1.

    Raises:
        ValueError: If `k` is below 1 or `minimum` below 0.
    """
    if k < 1 or minimum < 0:
        raise ValueError(f"k must be at least 1 and minimum at least 0, got {k} and {minimum}")
    ordered = sorted(
        (
            (min(place, minimum), -each.hit.similarity, each.hit.item_id, each)
            for found in found_by_modality.values()
            for place, each in enumerate(found)
        ),
        key=lambda entry: entry[:3],
    )
    return by_similarity(each for *_, each in ordered[:k])


def by_similarity(found: Iterable[Found]) -> list[Found]:
    """Return hits of several searches as one list, most similar first, ties by item id."""
    ordered = sorted(found, key=lambda each: (-each.hit.similarity, each.hit.item_id))
    return [
        replace(each, hit=replace(each.hit, rank=rank))
        for rank, each in enumerate(ordered, start=1)
    ]
