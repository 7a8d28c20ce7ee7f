"""LangChain: `CanopyCompressor` for any retriever's documents, `CanopyRetriever` over an index.

Docs: docs/integrations/langchain.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canopy_rag._optional import require

require("langchain_core", extra="langchain", feature="the LangChain integration")

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import ConfigDict, PrivateAttr

from canopy_rag.api import Compressor, Index
from canopy_rag.core.budget import Cap
from canopy_rag.core.select import Select
from canopy_rag.core.types import Modality
from canopy_rag.integrations._refining import KEY, Given, Refiner, make_compressor
from canopy_rag.integrations._retrieving import opened, retrieve

__all__ = ["CanopyCompressor", "CanopyRetriever"]


class CanopyCompressor(BaseDocumentCompressor):
    """Leaves of each retrieved document the part that the query needs.

    Ids, metadata and order stay; `page_content` becomes the refined text, a part of the original
    or all of it. `metadata["canopy"]` says what was kept and why: `spans` are half-open character
    intervals of the original text. If something fails, the original stays and `fallbacks` says
    what. A document that keeps nothing (over budget, or with `select="set"`) is left out, as
    LangChain's own filters do; never all of them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    compressor: Compressor | None = None
    """One of your own, instead of the settings below."""
    encoder: str | None = None
    """Encoder name; None: as configured (`minilm`)."""
    select: Select | None = None
    """`paper`, the default: every document keeps something. `set`: what stands out among all."""
    budget: int | None = None
    """Most tokens of all documents together; None: as configured, or 16,000."""
    cap: Cap | None = None
    """What goes first over budget: `margin` or `tail`."""
    min_tokens: int | None = None
    """Documents that are no longer together stay whole; None: as configured (32)."""

    _refiner: Refiner = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings.

        Raises:
            ConfigError: If a setting cannot work, or both a compressor and settings are given.
        """
        own = make_compressor(
            self.compressor,
            encoder=self.encoder,
            select=self.select,
            budget=self.budget,
            cap=self.cap,
            min_tokens=self.min_tokens,
        )
        self._refiner = Refiner(own)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return the documents with refined text, in order.

        Args:
            documents: Retrieved documents, best first; they are not changed.
            query: The question or search query.
            callbacks: Not used: no model of LangChain's is called.

        Raises:
            ConfigError: If a setting turns out not to work when the encoder loads.
            MissingDependencyError: If the encoder needs an extra that is not installed.
        """
        given = [
            Given(
                text=document.page_content,
                title=_words(document.metadata, "title"),
                uri=_words(document.metadata, "source"),
            )
            for document in documents
        ]
        return [
            documents[each.position].model_copy(
                update={
                    "page_content": each.text,
                    "metadata": {**documents[each.position].metadata, KEY: each.record},
                }
            )
            for each in self._refiner.refine(query, given)
        ]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return the documents with refined text, in order; the work is done in a thread."""
        refined: list[Document] = await run_in_executor(
            None, self.compress_documents, documents, query, callbacks
        )
        return refined


class CanopyRetriever(BaseRetriever):
    """Finds items of a canopy index and shows the part of each that the query needs.

    One document an item, best first: title and kept regions as `page_content`, the item's id as
    id, `metadata["canopy"]` with every fragment and its place in the source.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: Index | str | Path
    """The index or its folder."""
    k: int | None = None
    """Items to retrieve; None: as configured (10). `invoke(query, k=3)` goes first."""
    modalities: list[Modality] | None = None
    """Only items of these; None: all."""
    select: Select = "paper"
    """`paper`: `k` documents, as LangChain expects of a retriever. `set`: only what stands out
    among them, which may be fewer."""
    budget: int | None = None
    """Most tokens of all documents together; None: as configured, or 16,000."""

    _opened: Index = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the index.

        Raises:
            StoreError: If there is none, or it belongs to another encoder or version.
        """
        super().model_post_init(context)
        self._opened = opened(self.index)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        found = retrieve(
            self._opened,
            query,
            k=self.k if k is None else k,
            modalities=self.modalities,
            select=self.select,
            budget=self.budget,
        )
        return [
            Document(id=each.item.id, page_content=each.text, metadata=each.metadata)
            for each in found
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        sync = run_manager.get_sync()
        found: list[Document] = await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=sync, k=k
        )
        return found


def _words(metadata: dict[str, Any], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""
