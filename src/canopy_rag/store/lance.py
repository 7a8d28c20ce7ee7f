"""The embedded store: one LanceDB table per corpus, in a local folder or on object storage."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.coding import Precision
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry, Fingerprint, Found, Packed, Packer
from canopy_rag.core.types import MODALITIES, Item, Modality
from canopy_rag.core.vectors import NodeVectors
from canopy_rag.store import summary
from canopy_rag.store.catalog import Catalog
from canopy_rag.store.location import IndexMeta, Location, Place, locate
from canopy_rag.store.rows import (
    ITEM_COLUMNS,
    VECTOR_COLUMNS,
    from_utf8,
    to_items,
    to_node_vectors,
)
from canopy_rag.store.searching import check_words, choose, fetch
from canopy_rag.store.spool import Spool, Spools, pack
from canopy_rag.store.steady import steady
from canopy_rag.store.table import MemoryLimits
from canopy_rag.store.verifying import Verification, verify

_COMPACT_EVERY = 64  # commits; each leaves a small file that every search has to open
_ATTEMPTS = 5


class LanceStore:
    """Holds items, trees and node vectors; searches them; is searched while it is written.

    Make one with `create` or `open`. LanceDB is imported with the first search or write.

    Args:
        folder: Where the index lies.
        meta: What its `index.json` says.
        hybrid: Rank by words too; None: when the index has a full-text index.
        limits: What of a corpus may be held in memory; None: the defaults.
    """

    def __init__(
        self,
        folder: Location,
        meta: IndexMeta,
        *,
        hybrid: bool | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        self._folder = folder
        self._catalog = Catalog(folder, meta, limits or MemoryLimits())
        self._hybrid = meta.hybrid if hybrid is None else hybrid
        self._n_commits = 0

    @classmethod
    def create(
        cls,
        path: Place,
        fingerprint: Fingerprint,
        *,
        hybrid: bool = False,
        media: Collection[Modality] = (),
        adapter: str = "",
        vectors: Precision = "int4",
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceStore:
        """Make an empty index.

        Args:
            path: The folder, made when it is missing; or `s3://bucket/path` and the like.
            fingerprint: Of the encoder whose vectors it will hold.
            hybrid: Keep a full-text index beside the vectors.
            media: Modalities that the encoder embeds from their pixels.
            adapter: Folder of the encoder's adapter, noted so that it is found again.
            vectors: How the rows of nodes are stored; what each costs is in docs/speed.md.
            storage_options: How to reach object storage; see `locate`.

        Raises:
            StoreError: If there is an index already, or the folder cannot be written.
        """
        folder = locate(path, storage_options)
        with folder.writing():
            if folder.has_index:
                raise StoreError(f"there is an index in {str(folder)!r} already; open it instead")
            meta = IndexMeta(
                identity=uuid.uuid4().hex,
                created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                encoder=fingerprint,
                corpora={},
                hybrid=hybrid,
                media=sorted(media),
                adapter=adapter,
                vectors=vectors,
            )
            folder.write_meta(meta)
        return cls(folder, meta)

    @classmethod
    def open(
        cls,
        path: Place,
        *,
        fingerprint: Fingerprint | None = None,
        hybrid: bool | None = None,
        limits: MemoryLimits | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceStore:
        """Open an index; reads only `index.json`.

        Args:
            path: The folder; or `s3://bucket/path` and the like.
            fingerprint: Of the encoder of queries and items, to be checked; None: do not check.
            hybrid: Rank by words too; None: when the index has a full-text index. True for a
                writer: keep such an index from now on.
            limits: What of a corpus may be held in memory; None: the defaults.
            storage_options: How to reach object storage; see `locate`.

        Raises:
            StoreError: If there is no index, or one of another format version or encoder.
        """
        folder = locate(path, storage_options)
        store = cls(folder, folder.read_meta(), hybrid=hybrid, limits=limits)
        if fingerprint is not None:
            store.check(fingerprint)
        return store

    @property
    def _meta(self) -> IndexMeta:
        return self._catalog.meta

    @property
    def place(self) -> str:
        """What the index is called: its folder, or its address."""
        return str(self._folder)

    @property
    def path(self) -> Path:
        """The index's folder; of one on object storage, a local folder with its notes of now.

        Raises:
            StoreError: If object storage cannot be reached.
        """
        return self._folder.local

    @property
    def identity(self) -> str:
        """Names this very index."""
        return self._meta.identity

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the encoder whose vectors the index holds."""
        return self._meta.encoder

    @property
    def media(self) -> frozenset[Modality]:
        """Modalities that were embedded from their pixels."""
        return frozenset(each for each in MODALITIES if each in self._meta.media)

    @property
    def adapter(self) -> str:
        """Folder of the adapter that the encoder had when the index was made; empty for none."""
        return self._meta.adapter

    @property
    def precision(self) -> Precision:
        """How the rows of nodes are stored."""
        return self._meta.vectors

    @property
    def needs_compaction(self) -> bool:
        """Whether content that was removed may still stand in files of the index."""
        return self._folder.removal_pending

    def refresh(self) -> None:
        """Look at once for commits of other processes."""
        self._catalog.refresh()

    def check(self, fingerprint: Fingerprint) -> None:
        """Check that vectors of this encoder belong into the index.

        Raises:
            StoreError: Naming both encoders and the remedy.
        """
        if not fingerprint.agrees(self._meta.encoder):
            raise StoreError(
                f"the index in {str(self._folder)!r} holds vectors of the encoder "
                f"{summary.named(self._meta.encoder)}, not of {summary.named(fingerprint)}; use "
                "that encoder, or index again into a new folder"
            )

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        modalities: Sequence[Modality] | None = None,
        text: str | None = None,
        corpora: Sequence[str] | None = None,
        hybrid: bool | None = None,
    ) -> list[Found]:
        """Return the `k` items nearest to a query, with trees and node vectors.

        Most similar first, ties by item id. With full-text search they are in the order of
        reciprocal rank fusion instead; a hit's similarity is the cosine all the same.

        Args:
            query: Unit vector, `(dim,)`.
            k: Most items to return.
            modalities: Only items of these; None for all.
            text: The query's text, for full-text search.
            corpora: Only items of these; None for all.
            hybrid: Use full-text search when there is a `text`; None: as the store was opened.

        Raises:
            StoreError: If the query has another dimension than the index, a corpus does not
                exist, or full-text search is asked for and the index has no words.
        """
        if query.shape != (self._meta.encoder.dim,):
            raise StoreError(
                f"the query has the shape {query.shape}, vectors of the index in "
                f"{str(self._folder)!r} have {self._meta.encoder.dim} entries; encode it with "
                f"{summary.named(self._meta.encoder)}"
            )
        if k < 1:
            return []
        words = text if (self._hybrid if hybrid is None else hybrid) else None
        return self._search(query, k, modalities, corpora, words)

    @steady
    def get(self, item_ids: Sequence[str]) -> list[Item]:
        """Return the items of these ids, in order.

        Raises:
            StoreError: Naming an id that is not there.
        """
        there: dict[str, Item] = {}
        for corpus, table in self._catalog.tables().items():
            rows = table.by_ids(set(item_ids), ITEM_COLUMNS)
            there.update((item.id, item) for item in to_items(rows, corpus))
        for item_id in item_ids:
            if item_id not in there:
                raise StoreError(
                    f"no item {item_id!r} in the index in {str(self._folder)!r}; it may have been "
                    "removed or replaced: search again"
                )
        return [there[item_id] for item_id in item_ids]

    @steady
    def vectors(self, item_ids: Collection[str]) -> dict[str, tuple[Item, NodeVectors]]:
        """Return those of some items that are there, with their node vectors, by id."""
        there: dict[str, tuple[Item, NodeVectors]] = {}
        for corpus, table in self._catalog.tables().items():
            rows = table.by_ids(set(item_ids), [*ITEM_COLUMNS, *VECTOR_COLUMNS])
            pairs = zip(to_items(rows, corpus), to_node_vectors(rows, table.dim), strict=True)
            there.update((item.id, (item, nodes)) for item, nodes in pairs)
        return there

    @steady
    def count(self) -> dict[str, int]:
        """Return the number of items: `total`, then by modality."""
        counts: dict[str, int] = dict.fromkeys(MODALITIES, 0)
        for table in self._catalog.tables().values():
            for modality in MODALITIES:
                counts[modality] += table.count(modality)
        return {"total": sum(counts.values()), **counts}

    @steady
    def digest(self) -> str:
        """Return a SHA-256 over the item ids and contents, sorted; vectors are not part of it."""
        return summary.digest(self._catalog.tables())

    @steady
    def info(self) -> dict[str, Any]:
        """Return counts and sizes as `canopy info --json` prints them."""
        tables = self._catalog.tables()
        return {
            "items": self.count(),
            "bytes": self._folder.n_bytes(),
            **summary.of_tables(tables),
            **summary.of_meta(self._meta),
        }

    def verify(self) -> Verification:
        """Read everything, and tell what is not as it was written."""
        return verify(self._catalog, self._folder)

    @steady
    def sources(self) -> dict[str, int]:
        """Return the number of items of every source that has some."""
        counts: dict[str, int] = {}
        for table in self._catalog.tables().values():
            for each in table.rows(["uri"]).column("uri").value_counts():
                uri = from_utf8(each["values"].as_py())
                counts[uri] = counts.get(uri, 0) + each["counts"].as_py()
        return counts

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the index for one writer.

        Raises:
            StoreError: On entering, naming the process that writes already, or if the folder
                cannot be written.
        """
        with self._folder.writing() as is_outermost:
            if is_outermost:
                self.refresh()  # a writer must not go by what was there before
                if self._folder.took_over:
                    self._catalog.fence()
            yield

    @property
    def packer(self) -> Packer:
        """Makes rows of entries, on any machine; what is left for `replace` is to write them."""
        return partial(pack, self._catalog.layout)

    def replace(self, uris: Collection[str], entries: Iterable[Entry | Packed]) -> int:
        """Put `entries` in the place of all items of the sources `uris`, and return their number.

        One commit per corpus: a search sees the items of before or those of after. Entries are
        consumed one by one, and lie in a file of the index when they are many.

        Raises:
            StoreError: If an entry is of no source in `uris`, comes twice, or has vectors of
                another dimension; or if the folder cannot be written.
        """
        with self.writing():
            spools = Spools(frozenset(uris), self._folder.staging, self._catalog.layout)
            try:
                for entry in entries:
                    with self._folder.guard():
                        spools.add(entry)
                self._commit(frozenset(uris), spools.by_corpus)
            finally:
                spools.close()
            return spools.n_entries

    def remove(self, uris: Collection[str]) -> int:
        """Remove all items of these sources; return how many there were."""
        with self.writing():
            n_removed = 0
            for table in self._catalog.tables().values():
                n_items = table.count_of(uris)
                if n_items:
                    self._folder.mark_removal()
                    self._folder.confirm()
                    table.remove(uris)
                n_removed += n_items
            self._after_commit()
            return n_removed

    def compact(self) -> None:
        """Merge small files, bring the indices up to date, wipe what was removed or replaced.

        Older versions go too, so nothing of a removed item is left in any file. Takes time in
        proportion to the index when something was removed. Searches go on meanwhile.
        """
        with self.writing():
            purge = self._folder.removal_pending
            trained = dict(self._meta.trained)
            hybrid = self._meta.hybrid or self._hybrid
            tables = self._catalog.tables()
            self._catalog.drop_unnamed()
            for corpus, table in tables.items():
                name = self._meta.corpora[corpus]
                self._folder.confirm()
                trained[name] = table.optimize(
                    hybrid=hybrid, trained=trained.get(name, 0), purge=purge
                )
            if purge:
                self._folder.clear_removal()
            if trained != self._meta.trained or hybrid != self._meta.hybrid:
                self._catalog.update(trained=trained, hybrid=hybrid)
            self._n_commits = 0

    def _search(
        self,
        query: NDArray[np.float32],
        k: int,
        modalities: Sequence[Modality] | None,
        corpora: Sequence[str] | None,
        words: str | None,
    ) -> list[Found]:
        """Search, once more when a compaction by another process moved the rows meanwhile."""
        failure: StoreError | None = None
        for _ in range(_ATTEMPTS):
            tables = self._catalog.tables(corpora)
            if words is not None:
                check_words(tables, self.place)
            try:
                found = fetch(tables, choose(tables, query, k, modalities, words))
            except StoreError as error:  # also files that the compaction took away
                failure = error
                self._catalog.refresh()
                continue
            if found is not None:
                return found
            self._catalog.refresh()
        raise failure or StoreError(
            f"the index in {str(self._folder)!r} was rewritten during each of {_ATTEMPTS} "
            "attempts to search it; try again"
        )

    def _commit(self, uris: frozenset[str], spools: dict[str, Spool]) -> None:
        """Write the new items, then delete those of corpora that got none."""
        tables = self._catalog.tables()
        known = {corpus: bool(table.count_of(uris)) for corpus, table in tables.items()}
        if any(known.values()):
            self._folder.mark_removal()
        for corpus, spool in spools.items():
            table = tables[corpus] if corpus in tables else self._catalog.add(corpus)
            with self._folder.guard():
                reader = spool.reader()
            self._folder.confirm()
            table.replace(uris, reader, known=known.get(corpus, False))
        for corpus, table in tables.items():
            if corpus not in spools and known[corpus]:
                self._folder.confirm()
                table.remove(uris)
        self._after_commit()

    def _after_commit(self) -> None:
        self._folder.keep()
        self._n_commits += 1
        if self._n_commits >= _COMPACT_EVERY:
            self.compact()
