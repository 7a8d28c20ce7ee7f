"""`Index`: a folder of items, made from files, and search over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag.api.budgets import fitted, with_budget
from canopy_rag.config import Config, SelectConfig
from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.evidence import Evidence
from canopy_rag.core.protocols import Encoder, Found, MediaPart
from canopy_rag.core.select import Select
from canopy_rag.core.types import Hit, Item, Modality
from canopy_rag.pipeline import factory
from canopy_rag.pipeline.compressor import Explained, add_round, explain
from canopy_rag.pipeline.remembered import RememberedQueries
from canopy_rag.pipeline.retrieve import Retrieved, Retriever

if TYPE_CHECKING:
    from canopy_rag.indexing import IndexReport, Progress
    from canopy_rag.store import LanceStore


class Index:
    """A folder of items, trees and node vectors, made from files. Open one with `Index.open`."""

    def __init__(self, store: LanceStore, encoder: Encoder, config: Config) -> None:
        self._store = store
        self._encoder = encoder
        self._config = config
        self._retriever = Retriever(
            encoder=encoder,
            store=store,
            hybrid=config.retrieval.hybrid,
            remembered=RememberedQueries(encoder),
        )

    @classmethod
    def open(
        cls, path: str | Path | None = None, *, create: bool = False, config: Config | None = None
    ) -> Index:
        """Open an index; reads only its description.

        Args:
            path: The folder, or `s3://bucket/path` and the like; None: as configured (`.canopy`).
            create: Make it if there is none.
            config: Settings. The index's own encoder is used unless they name one.

        Raises:
            StoreError: If there is no index, or it belongs to another encoder or version.
        """
        config = config or Config()
        place = config.index.path if path is None else path
        return cls(*factory.open_store(place, config, create=create), config)

    @classmethod
    def upgrade(cls, path: str | Path | None = None, *, config: Config | None = None) -> Index:
        """Bring an index of an older version to the current format, and open it.

        It is written beside the old one, which it then replaces in one step; nothing is encoded
        again. With `index.vectors` set, the vectors of nodes are stored so from now on.

        Args:
            path: As in `open`.
            config: Settings.

        Raises:
            StoreError: If there is no index, it cannot be written, or its vectors are less exact
                than those asked for.
        """
        config = config or Config()
        place = config.index.path if path is None else path
        factory.upgrade_index(place, config)
        return cls.open(place, config=config)

    @property
    def place(self) -> str:
        """What the index is called: its folder, or its address."""
        return self._store.place

    @property
    def path(self) -> Path:
        """The folder; of an index on object storage, a local folder with its notes of now."""
        return self._store.path

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
        engine: str = "local",
        workers: int = 1,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_progress: Progress | None = None,
    ) -> IndexReport:
        """Index files and folders; unchanged files are skipped, changed ones replaced.

        Args:
            paths: Files and folders.
            prune: Remove what is gone from the folders.
            engine: Where files are parsed and encoded: `local`, or `ray`, on a cluster.
            workers: Processes that parse files; on Ray, workers that parse and encode.
            include: Only files that match one of these patterns.
            exclude: No files that match one of these.
            on_progress: Called as the work goes on.

        Returns:
            What was indexed, skipped, replaced, removed, ignored, and what failed and why.

        Raises:
            StoreError: If the index cannot be written or another process writes to it.
            ConfigError: If the cluster cannot be reached, or has no place for a worker.
            ModelError: If its workers cannot start.
        """
        from canopy_rag.indexing import IndexOptions

        return factory.index_files(
            self._store,
            self._encoder,
            self._store.path,
            self._config,
            [Path(path) for path in paths],
            options=IndexOptions(
                include=tuple(include), exclude=tuple(exclude), workers=workers, prune=prune
            ),
            engine=engine,
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
        return self.search_many([query], k=k, modalities=modalities, selection=selection)[0]

    def search_many(
        self,
        queries: Sequence[str],
        *,
        k: int | None = None,
        modalities: Sequence[Modality] | None = None,
        selection: SelectConfig | None = None,
    ) -> list[Evidence]:
        """Return what `search` does for each of several queries, in order.

        Queries are embedded in one call, which takes less time than a call for each.

        Args:
            queries: What to look for.
            k: Items to retrieve for each; None: as configured (10).
            modalities: Only items of these; None for all.
            selection: Budget, cap and the like, of each; None: as configured.

        Raises:
            DataError: If a query is empty.
            StoreError: If the index cannot be read.
        """
        selection = with_budget(selection or self._config.select)
        meter = factory.build_meter(self._encoder)
        shown = []
        for query, (found, node_query) in zip(
            queries, self._retrieved(queries, k, modalities), strict=True
        ):
            explained = explain(found, node_query, selection.over("set"))
            evidence = add_round(Evidence(meter=meter), explained, query, selection)
            shown.append(fitted(evidence, selection))
        return shown

    def explain(
        self,
        query: str,
        *,
        k: int | None = None,
        modalities: Sequence[Modality] | None = None,
        item: str | None = None,
        selection: SelectConfig | None = None,
    ) -> list[Explained]:
        """Return the hits' trees with similarities and what was decided at each node.

        Args:
            query: What to look for.
            k: Items to retrieve; None: as configured (10).
            modalities: Only items of these; None for all.
            item: Only the item of this id, whether or not it is among the first `k`.
            selection: Its scope decides; None: as configured.

        Raises:
            DataError: If the query is empty.
            StoreError: If there is no such item.
        """
        method = (selection or self._config.select).over("set")
        found = self._explain(query, k, modalities, method)
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
        return explain([*others, alone], queries.of(0), method)[-1:]

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
        return factory.load_picture(part, self._store.path)

    def _explain(
        self,
        query: str,
        k: int | None,
        modalities: Sequence[Modality] | None,
        method: Select,
    ) -> list[Explained]:
        found, node_query = self._retrieved([query], k, modalities)[0]
        return explain(found, node_query, method)

    def _retrieved(
        self, queries: Sequence[str], k: int | None, modalities: Sequence[Modality] | None
    ) -> list[Retrieved]:
        depth = self._config.retrieval.k if k is None else k
        if depth < 1:
            raise ConfigError(f"k must be at least 1, got {depth}")
        if not all(query.strip() for query in queries):
            raise DataError("the query is empty; say what to look for")
        return self._retriever.retrieve_many(queries, depth, modalities)
