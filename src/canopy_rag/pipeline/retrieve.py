"""From a query to hits with their trees and node vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from canopy_rag.core.protocols import Encoder, Found, Store
from canopy_rag.core.types import MODALITIES, Modality
from canopy_rag.core.vectors import NodeQuery, QueryVectors
from canopy_rag.pipeline.clock import SEARCH, inner_stage
from canopy_rag.pipeline.remembered import RememberedQueries
from canopy_rag.pipeline.route import by_similarity, soft_shares


class Retrieved(NamedTuple):
    """What one query found."""

    found: list[Found]
    """Most similar first, ties by item id."""
    node_query: NodeQuery
    """The query as nodes are compared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retriever:
    """Embeds a query and searches a store; the only model call of a search."""

    encoder: Encoder
    store: Store
    hybrid: bool = False
    """Let the store rank by words as well."""
    remembered: RememberedQueries | None = None
    """Embeds queries that may come again, by `encoder`; None: each is embedded anew, as a
    measurement wants it."""

    def retrieve(
        self, query: str, k: int, modalities: Sequence[Modality] | None = None
    ) -> Retrieved:
        """Return the `k` items nearest to `query`.

        Args:
            query: A round's query.
            k: Most items.
            modalities: Only items of these; None for all.

        Raises:
            EncodeError: If the query cannot be encoded.
        """
        return self.retrieve_many([query], k, modalities)[0]

    def retrieve_many(
        self, queries: Sequence[str], k: int, modalities: Sequence[Modality] | None = None
    ) -> list[Retrieved]:
        """Return what `retrieve` does for each of several queries, embedded in one call."""
        if not queries:
            return []
        vectors = self._encoded(queries)
        retrieved = []
        for place, query in enumerate(queries):
            text = query if self.hybrid else None
            with inner_stage(SEARCH):
                found = self.store.search(
                    vectors.retrieval[place], k, modalities=modalities, text=text
                )
            retrieved.append(Retrieved(found, vectors.of(place)))
        return retrieved

    def retrieve_each(self, query: str, k: int, modalities: Sequence[Modality]) -> Retrieved:
        """Return the `k` nearest items of each of several modalities (P8), most similar first."""
        found, node_query = self._each(query, k, modalities)
        return Retrieved(by_similarity(each for own in found.values() for each in own), node_query)

    def retrieve_shares(self, query: str, k: int, minimum: int) -> Retrieved:
        """Return `k` items with at least `minimum` of each modality that has as many."""
        found, node_query = self._each(query, k, MODALITIES)
        return Retrieved(soft_shares(found, k, minimum), node_query)

    def _each(
        self, query: str, k: int, modalities: Sequence[Modality]
    ) -> tuple[dict[Modality, list[Found]], NodeQuery]:
        vectors = self._encoded([query])
        text = query if self.hybrid else None
        with inner_stage(SEARCH):
            found = {
                modality: self.store.search(
                    vectors.retrieval[0], k, modalities=[modality], text=text
                )
                for modality in modalities
            }
        return found, vectors.of(0)

    def _encoded(self, queries: Sequence[str]) -> QueryVectors:
        if self.remembered is None:
            return self.encoder.encode_queries(queries)
        return self.remembered.encode(queries)
