"""Rows on their way into a table: in memory while few, in a file of the index when many."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry, Packed
from canopy_rag.store.rows import Layout, arrow, schema, to_batch

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY_BYTES = 64 * 1024 * 1024
"""Rows beyond this size go to disk."""
_BATCH = 128


class Spool:
    """Takes entries, gives record batches; its file is gone when it is closed.

    Args:
        path: The file for what does not fit into memory; its folder is made when needed.
        layout: Of the rows.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path = path
        self._layout = layout
        self._waiting: list[Entry] = []
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._file: Any = None
        self.n_entries = 0

    def add(self, entry: Entry | Packed) -> None:
        """Take one entry, or several that were packed.

        Raises:
            StoreError: If its vectors have another dimension, or it was packed for another index.
            OSError: If the file cannot be written.
        """
        self.n_entries += len(entry.ids)
        if isinstance(entry, Packed):
            self._convert()
            if not entry.rows.schema.equals(schema(self._layout)):
                raise StoreError(
                    f"{len(entry.ids)} items of {entry.uri!r} were packed for an index with other "
                    "columns; pack them with the packer of this one"
                )
            self._hold(entry.rows)
            return
        _check(entry, self._layout.dim)
        self._waiting.append(entry)
        if len(self._waiting) >= _BATCH:
            self._convert()

    def reader(self) -> pa.RecordBatchReader:
        """Return all rows, in order. Nothing can be added afterwards."""
        self._convert()
        pa = arrow()
        if self._file is not None:
            self._file.close()
            self._file = None
            return pa.ipc.open_stream(pa.OSFile(str(self._path)))  # a map stays in memory
        # Whoever writes them takes time for each batch, and packed ones can be small.
        table = pa.Table.from_batches(self._batches, schema(self._layout))
        return table.combine_chunks().to_reader()

    def close(self) -> None:
        """Drop everything."""
        if self._file is not None:
            self._file.close()
        self._batches = []
        self._path.unlink(missing_ok=True)

    def _convert(self) -> None:
        if not self._waiting:
            return
        batch = to_batch(self._waiting, self._layout)
        self._waiting = []
        self._hold(batch)

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._size += batch.nbytes
        if self._file is None and self._size <= MEMORY_BYTES:
            self._batches.append(batch)
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = arrow().ipc.new_stream(str(self._path), schema(self._layout))
            self._drain(self._batches)
            self._batches = []
        self._drain([batch])

    def _drain(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._file.write_batch(batch)


class Spools:
    """The entries of some sources on their way, by corpus.

    Args:
        uris: The sources.
        folder: For what does not fit into memory.
        layout: Of the rows.
    """

    def __init__(self, uris: frozenset[str], folder: Path, layout: Layout) -> None:
        self._uris, self._folder, self._layout = uris, folder, layout
        self._seen: set[tuple[str, str]] = set()
        self.by_corpus: dict[str, Spool] = {}

    @property
    def n_entries(self) -> int:
        """Number of items, of all corpora."""
        return sum(spool.n_entries for spool in self.by_corpus.values())

    def add(self, entry: Entry | Packed) -> None:
        """Take one entry, or several that were packed.

        Raises:
            StoreError: If it is of another source, comes twice, or does not fit the index.
            OSError: If a file cannot be written.
        """
        if entry.uri not in self._uris:
            named = ", ".join(map(repr, entry.ids))
            raise StoreError(f"item {named} is of {entry.uri!r}, not of {sorted(self._uris)}")
        for item_id in entry.ids:
            if (entry.corpus, item_id) in self._seen:
                raise StoreError(f"item {item_id!r} of {entry.uri!r} comes twice")
            self._seen.add((entry.corpus, item_id))
        if entry.corpus not in self.by_corpus:
            path = self._folder / uuid.uuid4().hex
            self.by_corpus[entry.corpus] = Spool(path, self._layout)
        self.by_corpus[entry.corpus].add(entry)

    def close(self) -> None:
        """Drop everything."""
        for spool in self.by_corpus.values():
            spool.close()


def pack(layout: Layout, entries: Sequence[Entry]) -> list[Packed]:
    """Return entries as rows, those of one source and corpus together, in order.

    Raises:
        StoreError: If vectors have another dimension than the index.
    """
    packed = []
    for (uri, corpus), group in groupby(entries, key=attrgetter("uri", "corpus")):
        own = list(group)
        for entry in own:
            _check(entry, layout.dim)
        ids = tuple(entry.item.id for entry in own)
        n_nodes = sum(entry.n_nodes for entry in own)
        rows = to_batch(own, layout)
        packed.append(Packed(uri=uri, corpus=corpus, ids=ids, n_nodes=n_nodes, rows=rows))
    return packed


def _check(entry: Entry, dim: int) -> None:
    item, nodes = entry.vectors.item, entry.vectors.nodes.rows
    if item.shape != (dim,) or len(nodes.shape) != 2 or nodes.shape[1] != dim:
        raise StoreError(
            f"item {entry.item.id!r} of {entry.item.source.uri!r} has an item vector of shape "
            f"{item.shape} and node vectors of shape {nodes.shape}; vectors of this index have "
            f"{dim} entries"
        )
