"""Maps on vectors: an adapter for any encoder, closed ones included.

A map on queries alone leaves everything that is stored as it was: it works on an index that was
made without it, and its fingerprint is the encoder's own. Items are ranked without maps (P1).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.coding import CodedRows, dense
from canopy_rag.core.errors import ConfigError, EncodeError
from canopy_rag.core.protocols import Encoder, Fingerprint
from canopy_rag.core.types import Item, Modality
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors, pool
from canopy_rag.encoders.adapters import Adapter, Maps, check_base, load_maps, maps_nodes
from canopy_rag.encoders.quantize import Floats

_SHORTEST = 1e-6
"""A vector of unit length that a map makes shorter than this has no direction left."""


class MappedEncoder:
    """An encoder whose node queries, and perhaps nodes, are mapped.

    Args:
        base: The encoder that the map was trained on.
        adapter: Of kind `map`.

    Raises:
        ConfigError: If the adapter is no map, was trained on another encoder, or does not fit.
    """

    def __init__(self, base: Encoder, adapter: Adapter) -> None:
        if adapter.kind != "map":
            raise ConfigError(
                f"adapter {str(adapter.folder)!r} is of kind {adapter.kind!r}, which this encoder "
                "cannot take; it takes one of kind 'map'"
            )
        check_base(adapter, base.fingerprint)
        self._base = base
        self._adapter = adapter
        self._maps_nodes = maps_nodes(adapter)
        self._lock = threading.Lock()
        self._maps: Maps | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """What the stored vectors depend on: with a map on queries alone, the encoder."""
        own = self._base.fingerprint
        if not self._maps_nodes:
            return own
        return replace(own, revision=f"{own.revision}+{self._adapter.digest}")

    @property
    def media(self) -> frozenset[Modality]:
        """As the encoder."""
        return self._base.media

    @property
    def languages(self) -> frozenset[str] | None:
        """As the encoder."""
        return self._base.languages

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens."""
        return self._base.count_tokens(text)

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order; the map changes how they are compared with nodes.

        Raises:
            EncodeError: If the model fails, or the map leaves a query no direction.
        """
        plain = self._base.encode_queries(queries)
        mapped = _rows(plain.node, self._loaded().query)
        lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
        for position in np.flatnonzero(lengths < _SHORTEST):
            raise EncodeError(
                f"query {position}", "the adapter's map makes its vector zero; train the map again"
            )
        node = np.asarray(mapped / np.maximum(lengths, _SHORTEST), np.float32)
        return QueryVectors(retrieval=plain.retrieval, node=node, terms=plain.terms)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and all their nodes, in order.

        Raises:
            EncodeError: Naming the item that failed.
        """
        plain = self._base.encode_items(items)
        matrix = self._loaded().node
        if matrix is None:
            return plain
        return [
            ItemVectors(item=one.item, nodes=_mapped(item, one.nodes, matrix))
            for item, one in zip(items, plain, strict=True)
        ]

    def _loaded(self) -> Maps:
        with self._lock:
            if self._maps is None:
                self._maps = load_maps(self._adapter, self._base.fingerprint.dim)
            return self._maps


def _mapped(item: Item, nodes: NodeVectors, matrix: Floats) -> NodeVectors:
    """Return node vectors mapped: a map of a sum of rows is the sum of the mapped rows."""
    rows = _rows(dense(nodes.rows), matrix)
    dtype = np.float16 if isinstance(nodes.rows, CodedRows) else nodes.rows.dtype.type
    if nodes.weights is not None:
        counts = nodes.weights[:-1].astype(int).tolist()
        n_context = int(nodes.weights[-1])
        mapped = pool(item.nodes, rows[:-1], counts, rows[-1], n_context, dtype)
        return replace(mapped, tokens=nodes.tokens)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths < _SHORTEST).any():
        raise EncodeError(
            item.id, "the adapter's map makes a node's vector zero; train the map again"
        )
    return NodeVectors(rows=(rows / lengths).astype(dtype))


def _rows(rows: NDArray[np.float32], matrix: Floats) -> Floats:
    """Return `matrix @ row` of each row.

    Not `@` over all rows: BLAS may round equal rows differently, and equal nodes must tie (D3).
    """
    return np.asarray(np.einsum("nj,ij->ni", rows, matrix), np.float32)
