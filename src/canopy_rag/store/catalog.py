"""The open tables of an index, in step with what other processes add."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from collections.abc import Sequence
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import StoreError
from canopy_rag.store.location import IndexMeta, Location, Stamp
from canopy_rag.store.rows import Layout, schema
from canopy_rag.store.table import ItemTable, MemoryLimits

_MOST_TABLES = 100_000


class Catalog:
    """Knows the corpora of an index and opens their tables; imports LanceDB at the first one.

    Args:
        folder: Where the index lies.
        meta: What its `index.json` said when it was opened.
        limits: What of a corpus may be held in memory.
    """

    def __init__(self, folder: Location, meta: IndexMeta, limits: MemoryLimits) -> None:
        self._folder = folder
        self.meta = meta
        self._limits = limits
        self._tables: dict[str, ItemTable] = {}
        self._connection: Any = None
        self._stamp: Stamp | None = None
        self._lock = threading.RLock()

    @property
    def layout(self) -> Layout:
        """What the columns of the tables depend on."""
        return Layout(self.meta.encoder.dim, self.meta.vectors)

    def tables(self, corpora: Sequence[str] | None = None) -> dict[str, ItemTable]:
        """Return the tables of corpora, those that another process made included.

        Args:
            corpora: Which; None for all.

        Raises:
            StoreError: If a corpus does not exist, or a table cannot be opened.
        """
        with self._lock:
            meta, self._stamp = self._folder.current_meta(self.meta, self._stamp)
            if meta.identity != self.meta.identity:
                self._tables, self._connection = {}, None
            for corpus, name in self.meta.corpora.items():
                if meta.corpora.get(corpus) != name:  # an upgrade made another table
                    self._tables.pop(corpus, None)
            self.meta = meta
            for corpus in meta.corpora if corpora is None else corpora:
                if corpus not in meta.corpora:
                    known = ", ".join(sorted(meta.corpora)) or "none"
                    raise StoreError(
                        f"no corpus {corpus!r} in the index in {str(self._folder)!r}; "
                        f"there are: {known}"
                    )
                if corpus not in self._tables:
                    name = meta.corpora[corpus]
                    self._tables[corpus] = self._wrapped(self.open(name), name)
            return {
                corpus: self._tables[corpus]
                for corpus in (meta.corpora if corpora is None else corpora)
            }

    def add(self, corpus: str) -> ItemTable:
        """Make the table of a new corpus.

        Raises:
            StoreError: If there is one with items: of an index that lost its description.
        """
        name = table_name(corpus)
        with self._lock:
            table = self.make(name, self.layout)
            if len(table):
                raise StoreError(
                    f"there are items of another index in {str(self._folder)!r}, whose index.json "
                    "is lost; restore it from a backup, or index again into a new folder"
                )
            self._tables[corpus] = table
            self.update(corpora={**self.meta.corpora, corpus: name})
            return self._tables[corpus]

    def open(self, name: str) -> Any:
        """Return a table as the engine has it."""
        with self._folder.engine():
            return self._connect().open_table(name)

    def make(self, name: str, layout: Layout) -> ItemTable:
        """Make a table that `index.json` does not name yet; one that is there is taken."""
        with self._folder.engine():
            table = self._connect().create_table(name, schema=schema(layout), exist_ok=True)
        return self._wrapped(table, name)

    def drop_unnamed(self) -> None:
        """Remove the tables that `index.json` does not name: what a killed process left."""
        with self._folder.engine():
            named = set(self.meta.corpora.values())
            for name in self._connect().list_tables(limit=_MOST_TABLES).tables:
                if name not in named:
                    self._connect().drop_table(name)

    def refresh(self) -> None:
        """Have every table look at once for commits of other processes.

        Raises:
            StoreError: If the index, or a table of it, cannot be read.
        """
        with self._lock:
            self._folder.forget()
            self.tables([])  # lets go of those that an upgrade has replaced
            for table in self._tables.values():
                table.refresh()

    def fence(self) -> None:
        """Make commits fail that a writer before this one has begun and not ended."""
        for table in self.tables().values():
            table.fence()

    def update(self, **changes: Any) -> None:
        """Write `index.json` with changed fields.

        Raises:
            StoreError: If it cannot be written, or another process writes by now.
        """
        changed = dataclasses.replace(self.meta, **changes)
        self._folder.confirm()
        self._folder.write_meta(changed)
        self.meta = changed

    def _wrapped(self, table: Any, name: str) -> ItemTable:
        versions = self._folder.versions_of(name)
        return ItemTable(table, self._folder, self.meta.encoder.dim, self._limits, versions)

    def _connect(self) -> Any:
        if self._connection is None:
            # Its Rust part warns about its own internals; errors reach us as exceptions.
            os.environ.setdefault("LANCE_LOG", "error")
            lancedb = require("lancedb", extra="index", feature="The index")
            options = self._folder.storage_options
            self._connection = lancedb.connect(
                self._folder.tables,
                read_consistency_interval=self._folder.consistency,
                storage_options=None if options is None else dict(options),
                session=lancedb.Session(
                    index_cache_size_bytes=self._limits.cache_bytes,
                    metadata_cache_size_bytes=self._limits.cache_bytes // 4,
                ),
            )
        return self._connection


def table_name(corpus: str) -> str:
    """Return the name of a corpus's table, safe in any file system.

    >>> table_name("main"), table_name("My notes")
    ('main', 'corpus-fa263f43cfe5b20b')
    """
    plain = corpus.isascii() and corpus.isidentifier() and corpus.islower()
    return corpus if plain else f"corpus-{hashlib.sha256(corpus.encode()).hexdigest()[:16]}"
