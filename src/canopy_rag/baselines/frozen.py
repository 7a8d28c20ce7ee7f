"""The frozen encoder (f0) beside an encoder whose adapter finds items too (D12).

The comparison fixes one retrieval encoder for every method (P15), and `f0` swaps the node encoder
alone (P14). Where the adapter leaves retrieval as it was, as in the paper, the frozen encoder finds
the same items by itself. Where it does not, as in `minilm`, it would find other ones, and what is
measured would be two changes at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from canopy_rag.core.protocols import Encoder
from canopy_rag.core.types import Item, Modality
from canopy_rag.core.vectors import NodeVectors
from canopy_rag.pipeline.clock import SEARCH, inner_stage
from canopy_rag.pipeline.retrieve import Retrieved, Retriever

PROBE = "Which sport did the first champion practise?"
ALIKE = 0.999
"""Cosine from which two vectors of one text are of one network: 16-bit numbers differ by less."""


class VectorSource(Protocol):
    """Has node vectors by item, as `LanceStore` does."""

    def vectors(self, item_ids: Collection[str]) -> Mapping[str, tuple[Item, NodeVectors]]:
        """Return those of some items that are there, with their node vectors, by id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenNodes(Retriever):
    """Finds the items that `encoder` and `store` find, and compares their nodes with f0.

    A query is encoded by both.
    """

    frozen: Encoder
    """f0."""
    source: VectorSource
    """The same items with the vectors of f0."""

    def retrieve_many(
        self, queries: Sequence[str], k: int, modalities: Sequence[Modality] | None = None
    ) -> list[Retrieved]:
        """Return the `k` items nearest to each query."""
        found = Retriever.retrieve_many(self, queries, k, modalities)
        return [self._compared(*each) for each in zip(queries, found, strict=True)]

    def retrieve_each(self, query: str, k: int, modalities: Sequence[Modality]) -> Retrieved:
        """Return the `k` nearest items of each of several modalities."""
        return self._compared(query, Retriever.retrieve_each(self, query, k, modalities))

    def retrieve_shares(self, query: str, k: int, minimum: int) -> Retrieved:
        """Return `k` items with at least `minimum` of each modality that has as many."""
        return self._compared(query, Retriever.retrieve_shares(self, query, k, minimum))

    def _compared(self, query: str, retrieved: Retrieved) -> Retrieved:
        node_query = self.frozen.encode_queries([query]).of(0)
        with inner_stage(SEARCH):
            there = self.source.vectors({each.hit.item_id for each in retrieved.found})
        found = [replace(each, nodes=there[each.hit.item_id][1]) for each in retrieved.found]
        return Retrieved(found, node_query)


def finds_alike(one: Encoder, other: Encoder) -> bool:
    """Return whether two encoders search items by the same vector, told by one query.

    Raises:
        EncodeError: If one cannot encode it.
    """
    first, second = (each.encode_queries([PROBE]).retrieval[0] for each in (one, other))
    return first.shape == second.shape and float(first @ second) >= ALIKE
