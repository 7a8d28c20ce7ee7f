"""LangChain's `EmbeddingsFilter`: the k pieces of all retrieved items nearest to the query.

A peer, not a method of the paper: what people put behind a retriever today. One round, one call.
`langchain_classic.retrievers.document_compressors.EmbeddingsFilter` itself runs, over the sentences
and rows of the items as documents, with its default of k = 20.

Differences from its use in LangChain:

- The pieces are our leaves: sentences, and rows with their column names. LangChain's guide splits
  into 300 characters and removes near-duplicates first.
- The shared encoder embeds query and pieces, at the time of the query as there. That time is the
  stage `compress`, and its share of the latency.
- Pieces stand in the order of the documents under their titles, with elision marks; LangChain's
  come by similarity, alone.
- Images and videos, which it does not know, are shown whole. If no piece reaches a threshold, the
  items are shown whole; there, nothing would be.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from canopy_rag._optional import require
from canopy_rag.baselines._embedding import embed_query, embed_texts, sentences
from canopy_rag.baselines._selectors import WHOLE, Similarities, has_sentences, kept_leaves
from canopy_rag.baselines.base import LoopMethod, Method, Parts, Spec, one_round, refined_always
from canopy_rag.config.values import Least
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.refine import Refinement
from canopy_rag.core.types import Item
from canopy_rag.pipeline.clock import inner_stage

EXTRA = "peers"
FEATURE = "the method `langchain-embeddings-filter`"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """How much the filter lets through."""

    k: Annotated[int, Least(1)] = 20
    """Most pieces of all items together."""
    threshold: float | None = None
    """Only pieces more similar than this; unset: all of the k."""


class EmbeddingsFilter:
    """Selects by LangChain's filter.

    Args:
        encoder: Embeds query and pieces.
        settings: Of the filter.

    Raises:
        MissingDependencyError: If LangChain is not installed.
    """

    def __init__(self, encoder: Encoder, settings: FilterSettings) -> None:
        base = require("langchain_core.embeddings", extra=EXTRA, feature=FEATURE).Embeddings
        self._document: Any = require(
            "langchain_core.documents", extra=EXTRA, feature=FEATURE
        ).Document
        with warnings.catch_warnings():
            # Says on import that nobody maintains it any more; the filter still needs it.
            warnings.filterwarnings("ignore", "`langchain-community`", DeprecationWarning)
            require("langchain_community", extra=EXTRA, feature=FEATURE)
        module = require(
            "langchain_classic.retrievers.document_compressors", extra=EXTRA, feature=FEATURE
        )
        shared: Any = type(
            "SharedEncoder",
            (base,),
            {
                "embed_documents": lambda _, texts: embed_texts(encoder, texts),
                "embed_query": lambda _, query: embed_query(encoder, query),
            },
        )
        self._filter: Any = module.EmbeddingsFilter(
            embeddings=shared(), k=settings.k, similarity_threshold=settings.threshold
        )

    def __call__(
        self, query: str, items: Sequence[Item], similarities: Similarities
    ) -> list[Refinement]:
        """Return the pieces that the filter lets through."""
        documents = [
            self._document(page_content=text, metadata={"place": place, "leaf": leaf})
            for place, item in enumerate(items)
            if has_sentences(item)
            for leaf, text in sentences(item)
        ]
        with inner_stage("compress"):
            let_through = self._filter.compress_documents(documents, query) if documents else []
        kept: list[list[int]] = [[] for _ in items]
        for each in let_through:
            kept[each.metadata["place"]].append(each.metadata["leaf"])
        return [
            kept_leaves(item, own) if has_sentences(item) else WHOLE
            for item, own in zip(items, kept, strict=True)
        ]


def build(name: str, parts: Parts, settings: FilterSettings) -> Method:
    """Return the method.

    Raises:
        MissingDependencyError: If LangChain is not installed.
    """
    loop = one_round(refined_always(parts.loop))
    selector = EmbeddingsFilter(loop.retriever.encoder, settings)
    return LoopMethod(name=name, loop=replace(loop, selector=selector))


SPECS = (
    Spec(
        name="langchain-embeddings-filter",
        summary="one round, filtered by LangChain's EmbeddingsFilter",
        module=__name__,
        build=build,
        settings=FilterSettings,
        packages=("langchain_classic", "langchain_community"),
    ),
)
