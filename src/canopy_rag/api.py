"""The classes that users meet: `Compressor`, `Index`, `Canopy`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from canopy_rag.config import Config, SelectConfig
from canopy_rag.core.answer import Answer
from canopy_rag.core.budget import Cap, fit
from canopy_rag.core.errors import ConfigError, DataError, EncodeError
from canopy_rag.core.evidence import Evidence, Fallback, Shown
from canopy_rag.core.protocols import LLM, Encoder, Found, MediaPart, TokenCounter
from canopy_rag.core.select import Select
from canopy_rag.core.types import Hit, Item, Modality
from canopy_rag.pipeline import factory
from canopy_rag.pipeline._sync import iterate, run
from canopy_rag.pipeline.compressor import Explained, add_round, explain
from canopy_rag.pipeline.documents import DocumentLike, to_items
from canopy_rag.pipeline.reader import MAX_BUDGET, AnswerStyle
from canopy_rag.pipeline.retrieve import Retriever

When = Literal["always", "needed"]

if TYPE_CHECKING:
    from canopy_rag.indexing import IndexReport, Progress
    from canopy_rag.store import LanceStore


class Compressor:
    """Shows of each document just the part that a query needs: bring your own documents.

    What is shown is verbatim and in order, and never nothing. A document in which nothing stands
    out among all of them is left out (with `select="paper"` each keeps at least one region). If
    the documents cannot be encoded they come back whole, with a `Fallback` (D9).

    Args:
        encoder: Encoder name, or an encoder; None: as configured (`minilm`).
        config: All settings; the arguments below go first.
        select: Scope of selection: `paper` or `set` (D11).
        budget: Most tokens; None: as configured, or 16,000.
        cap: What goes first over budget: `margin` or `tail` (D8).
        when: `needed`: leave documents whole that fit the budget.
        min_tokens: Documents that are no longer together stay whole.
        count_tokens: Counts the tokens of your reader; None: the encoder's tokenizer, and counts
            are labelled estimated.

    Raises:
        ConfigError: If a setting cannot work.
    """

    def __init__(
        self,
        encoder: str | Encoder | None = None,
        *,
        config: Config | None = None,
        select: Select | None = None,
        budget: int | None = None,
        cap: Cap | None = None,
        when: When | None = None,
        min_tokens: int | None = None,
        count_tokens: TokenCounter | None = None,
    ) -> None:
        self._config = config or Config()
        base = self._config.select
        self._selection = _with_budget(
            replace(
                base,
                select=select or base.select,
                budget=base.budget if budget is None else budget,
                cap=cap or base.cap,
                when=when or base.when,
                min_tokens=base.min_tokens if min_tokens is None else min_tokens,
            )
        )
        self._encoder = _encoder_of(encoder, self._config)
        self._count = count_tokens

    @property
    def encoder(self) -> Encoder:
        """What compares queries and nodes."""
        return self._encoder

    def compress(self, query: str, documents: Sequence[DocumentLike]) -> Evidence:
        """Return the parts of the documents that the query needs, documents in order.

        Args:
            query: The question or search query.
            documents: Strings, dicts as `canopy compress` takes them, items, paths (a file may
                hold several items), pandas or polars frames, PIL images.

        Raises:
            DataError: If a document is not one, or two have the same id.
        """
        items = self._items(documents)
        evidence = Evidence(meter=factory.build_meter(self._encoder, self._count))
        try:
            explained = self._explain(query, items)
        except EncodeError as error:
            whole = [_whole(item, query, rank) for rank, item in enumerate(items, start=1)]
            note = Fallback(stage="encode", reason=str(error))
            return replace(evidence.add(whole), fallbacks=(note,))
        return _fitted(add_round(evidence, explained, query, self._selection), self._selection)

    def explain(self, query: str, documents: Sequence[DocumentLike]) -> list[Explained]:
        """Return each document's tree with similarities and what was decided at each node.

        Raises:
            EncodeError: If a document cannot be encoded.
        """
        return self._explain(query, self._items(documents))

    def _items(self, documents: Sequence[DocumentLike]) -> list[Item]:
        return to_items(
            documents, lambda each, name: factory.read_document(each, name, self._config.ingest)
        )

    def _explain(self, query: str, items: list[Item]) -> list[Explained]:
        vectors = self._encoder.encode_items(items)
        queries = self._encoder.encode_queries([query])
        found = [
            Found(
                hit=Hit(
                    item_id=item.id,
                    corpus=item.corpus,
                    similarity=float(each.item @ queries.retrieval[0]),
                    rank=rank,
                ),
                item=item,
                nodes=each.nodes,
            )
            for rank, (item, each) in enumerate(zip(items, vectors, strict=True), start=1)
        ]
        return explain(found, queries.node[0], self._selection.select)


class Index:
    """A folder of items, trees and node vectors, made from files. Open one with `Index.open`."""

    def __init__(self, store: LanceStore, encoder: Encoder, path: Path, config: Config) -> None:
        self._store = store
        self._encoder = encoder
        self._path = path
        self._config = config
        self._retriever = Retriever(encoder=encoder, store=store, hybrid=config.retrieval.hybrid)

    @classmethod
    def open(
        cls, path: str | Path | None = None, *, create: bool = False, config: Config | None = None
    ) -> Index:
        """Open an index; reads only its description.

        Args:
            path: The folder; None: as configured (`.canopy`).
            create: Make it if there is none.
            config: Settings. The index's own encoder is used unless they name one.

        Raises:
            StoreError: If there is no index, or it belongs to another encoder or version.
        """
        config = config or Config()
        path = Path(config.index.path if path is None else path)
        store, encoder = factory.open_store(path, config, create=create)
        return cls(store, encoder, path, config)

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def encoder(self) -> Encoder:
        """What made the vectors."""
        return self._encoder

    @property
    def store(self) -> LanceStore:
        """Where the items lie."""
        return self._store

    @property
    def config(self) -> Config:
        """The settings it was opened with."""
        return self._config

    def add(
        self,
        *paths: str | Path,
        prune: bool = False,
        workers: int = 1,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_progress: Progress | None = None,
    ) -> IndexReport:
        """Index files and folders; unchanged files are skipped, changed ones replaced.

        Args:
            paths: Files and folders.
            prune: Remove what is gone from the folders.
            workers: Processes that parse files.
            include: Only files that match one of these patterns.
            exclude: No files that match one of these.
            on_progress: Called as the work goes on.

        Returns:
            What was indexed, skipped, replaced, removed, ignored, and what failed and why.

        Raises:
            StoreError: If the index cannot be written or another process writes to it.
        """
        from canopy_rag.indexing import IndexOptions

        return factory.index_files(
            self._store,
            self._encoder,
            self._path,
            self._config,
            [Path(path) for path in paths],
            options=IndexOptions(
                include=tuple(include), exclude=tuple(exclude), workers=workers, prune=prune
            ),
            on_progress=on_progress,
        )

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        modalities: Sequence[Modality] | None = None,
        selection: SelectConfig | None = None,
    ) -> Evidence:
        """Return the refined evidence of one round; no chat model is asked.

        Args:
            query: What to look for.
            k: Items to retrieve; None: as configured (10).
            modalities: Only items of these; None for all.
            selection: Budget, cap and the like; None: as configured.

        Raises:
            DataError: If the query is empty.
            StoreError: If the index cannot be read.
        """
        selection = _with_budget(selection or self._config.select)
        explained = self._explain(query, k, modalities, selection.select)
        evidence = Evidence(meter=factory.build_meter(self._encoder))
        return _fitted(add_round(evidence, explained, query, selection), selection)

    def explain(
        self,
        query: str,
        *,
        k: int | None = None,
        modalities: Sequence[Modality] | None = None,
        item: str | None = None,
    ) -> list[Explained]:
        """Return the hits' trees with similarities and what was decided at each node.

        Args:
            query: What to look for.
            k: Items to retrieve; None: as configured (10).
            modalities: Only items of these; None for all.
            item: Only the item of this id, whether or not it is among the first `k`.

        Raises:
            DataError: If the query is empty.
            StoreError: If there is no such item.
        """
        found = self._explain(query, k, modalities, self._config.select.select)
        if item is None:
            return found
        among = [each for each in found if each.found.item.id == item]
        if among:
            return among
        (wanted,) = self._store.get([item])
        vectors = self._encoder.encode_items([wanted])[0]
        queries = self._encoder.encode_queries([query])
        similarity = float(vectors.item @ queries.retrieval[0])
        hit = Hit(item_id=item, corpus=wanted.corpus, similarity=similarity, rank=len(found) + 1)
        alone = Found(hit=hit, item=wanted, nodes=vectors.nodes)
        others = [each.found for each in found]
        return explain([*others, alone], queries.node[0], self._config.select.select)[-1:]

    def item(self, item_id: str) -> Item:
        """Return one item.

        Raises:
            StoreError: If there is no such item.
        """
        return self._store.get([item_id])[0]

    def info(self) -> dict[str, Any]:
        """Return counts, sizes, digest, encoder and format version."""
        return self._store.info()

    def load(self, part: MediaPart) -> str:
        """Return a picture of the index as a `data:` URI.

        Raises:
            IngestError: If its file is gone or broken.
        """
        return factory.load_picture(part, self._path)

    def _explain(
        self,
        query: str,
        k: int | None,
        modalities: Sequence[Modality] | None,
        method: Select,
    ) -> list[Explained]:
        depth = self._config.retrieval.k if k is None else k
        if depth < 1:
            raise ConfigError(f"k must be at least 1, got {depth}")
        if not query.strip():
            raise DataError("the query is empty; say what to look for")
        found, node_query = self._retriever.retrieve(query, depth, modalities)
        return explain(found, node_query, method)


class Canopy:
    """Answers questions over an index, with citations.

    Args:
        index: An index, or its folder.
        llm: Base URL of an OpenAI-compatible server, `local`, a chat model, or `none` for the
            extractive reader; None: as configured.
        model: Name of the server's model.
        config: All settings; None: the index's.
        reader: `cited` answers cite fragments; `short` ones are bare (D14).
    """

    def __init__(
        self,
        index: Index | str | Path,
        llm: str | LLM | None = None,
        *,
        model: str | None = None,
        config: Config | None = None,
        reader: AnswerStyle = "cited",
    ) -> None:
        self._index = index if isinstance(index, Index) else Index.open(index, config=config)
        config = config or self._index.config
        if llm is None or isinstance(llm, str):
            named = replace(
                config.llm, name=llm or config.llm.name, model=model or config.llm.model
            )
            llm = factory.build_llm(named)
        self._in_flight = config.llm.max_in_flight
        self._llm = llm
        self._loop = factory.build_loop(
            config,
            self._index.encoder,
            self._index.store,
            llm,
            style=reader,
            load=self._index.load,
        )

    @property
    def index(self) -> Index:
        """Where evidence comes from."""
        return self._index

    def ask(self, question: str) -> Answer:
        """Answer a question; works inside a running event loop too.

        Raises:
            LLMError: If the reader's model does not answer.
        """
        return run(self.aask(question))

    async def aask(self, question: str) -> Answer:
        """Answer a question."""
        if not question.strip():
            raise DataError("the question is empty; ask something")
        return await self._loop.answer(question)

    def ask_many(self, questions: Sequence[str]) -> list[Answer]:
        """Answer questions concurrently, in order."""
        return run(self.aask_many(questions))

    async def aask_many(self, questions: Sequence[str]) -> list[Answer]:
        """Answer questions concurrently, in order, at most `llm.max_in_flight` at once."""
        gate = asyncio.Semaphore(self._in_flight)

        async def one(question: str) -> Answer:
            async with gate:
                return await self.aask(question)

        return await asyncio.gather(*(one(question) for question in questions))

    def stream(self, question: str) -> Iterator[Evidence | str | Answer]:
        """Yield the evidence, the pieces of the answer as they come, and the answer."""
        return iterate(self.astream(question))

    def astream(self, question: str) -> AsyncIterator[Evidence | str | Answer]:
        """Yield the evidence, the pieces of the answer as they come, and the answer."""
        if not question.strip():
            raise DataError("the question is empty; ask something")
        return self._loop.stream(question)

    async def aclose(self) -> None:
        """Give the model's connections back."""
        if self._llm is not None:
            await self._llm.aclose()

    def close(self) -> None:
        """Give the model's connections back."""
        run(self.aclose())


def _fitted(evidence: Evidence, selection: SelectConfig) -> Evidence:
    return fit(evidence, selection.budget, selection.cap)


def _with_budget(selection: SelectConfig) -> SelectConfig:
    """Return the settings with the default budget where none is set (D13)."""
    return selection if selection.budget is not None else replace(selection, budget=MAX_BUDGET)


def _encoder_of(encoder: str | Encoder | None, config: Config) -> Encoder:
    if encoder is None:
        return factory.build_encoder(config.encoder)
    if isinstance(encoder, str):
        return factory.build_encoder(replace(config.encoder, name=encoder))
    return encoder


def _whole(item: Item, query: str, rank: int) -> Shown:
    return Shown(item=item, kept=(0,), why="whole", query=query, round=1, rank=rank, similarity=0.0)
