"""From a query to hits with their trees and node vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.protocols import Encoder, Found, Store
from canopy_rag.core.types import Modality


class Retrieved(NamedTuple):
    """What one query found."""

    found: list[Found]
    """Most similar first, ties by item id."""
    node_query: NDArray[np.float32]
    """The query as the node encoder sees it, `(dim,)`, unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retriever:
    """Embeds a query and searches a store; the only model call of a search."""

    encoder: Encoder
    store: Store
    hybrid: bool = False
    """Let the store rank by words as well."""

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
        vectors = self.encoder.encode_queries([query])
        found = self.store.search(
            vectors.retrieval[0], k, modalities=modalities, text=query if self.hybrid else None
        )
        return Retrieved(found, vectors.node[0])
