"""Vectors of queries that were asked before: embedding is most of the time of a search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from canopy_rag.core.protocols import Encoder
from canopy_rag.core.vectors import QueryVectors

N_QUERIES = 1024
"""Queries kept, the latest used: 3 MB of 384 dimensions."""


class RememberedQueries:
    """Embeds queries by one encoder, each once as long as it is remembered.

    For all threads; two that ask the same at once may both embed it.

    Args:
        encoder: Its vectors of a text are always the same.
        size: Most queries remembered.
    """

    def __init__(self, encoder: Encoder, size: int = N_QUERIES) -> None:
        self._encoder = encoder
        self._size = size
        self._known: OrderedDict[str, QueryVectors] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, queries: Sequence[str]) -> QueryVectors:
        """Return what `Encoder.encode_queries` does, in one call for those that are new.

        Raises:
            EncodeError: If a query cannot be encoded.
        """
        with self._lock:
            found = {query: self._known[query] for query in queries if query in self._known}
        new = [query for query in dict.fromkeys(queries) if query not in found]
        if new:
            found |= zip(new, _apart(self._encoder.encode_queries(new)), strict=True)
        with self._lock:
            for query in queries:
                self._known[query] = found[query]
                self._known.move_to_end(query)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return _together([found[query] for query in queries])


def _apart(vectors: QueryVectors) -> list[QueryVectors]:
    """Return the vectors of each query, in arrays of their own that nobody may change."""
    same = vectors.node is vectors.retrieval
    found = []
    for row in range(len(vectors.retrieval)):
        retrieval = vectors.retrieval[row : row + 1].copy()
        retrieval.flags.writeable = False
        node = retrieval if same else vectors.node[row : row + 1].copy()
        node.flags.writeable = False
        terms = None if vectors.terms is None else [vectors.terms[row]]
        found.append(QueryVectors(retrieval=retrieval, node=node, terms=terms))
    return found


def _together(each: Sequence[QueryVectors]) -> QueryVectors:
    if len(each) == 1:
        return each[0]
    terms = [own.terms[0] for own in each if own.terms is not None]
    return QueryVectors(
        retrieval=np.concatenate([own.retrieval for own in each]),
        node=np.concatenate([own.node for own in each]),
        terms=terms or None,
    )
