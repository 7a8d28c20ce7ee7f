"""Sentences under the shared encoder at the time of the query, as frameworks embed them."""

from __future__ import annotations

from collections.abc import Sequence

from canopy_rag.core.node_text import leaf_texts
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item, Node, Source, TextPayload


def embed_texts(encoder: Encoder, texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of texts by which items are retrieved, in order.

    Raises:
        EncodeError: If the model fails.
    """
    items = [
        Item(
            id=str(number),
            modality="text",
            title="",
            payload=TextPayload(text=text),
            nodes=(Node(index=0, parent=None, children=(), start=0, stop=len(text)),),
            source=Source(uri=""),
        )
        for number, text in enumerate(texts)
    ]
    return [each.item.tolist() for each in encoder.encode_items(items)]


def embed_query(encoder: Encoder, query: str) -> list[float]:
    """Return the vector of a query by which items are searched.

    Raises:
        EncodeError: If the model fails.
    """
    vector: list[float] = encoder.encode_queries([query]).retrieval[0].tolist()
    return vector


def sentences(item: Item) -> list[tuple[int, str]]:
    """Return the leaves of an item that have words, with their texts, in order."""
    texts = zip(leaves(item.nodes), leaf_texts(item), strict=True)
    return [(leaf, text) for leaf, text in texts if text.strip()]
