"""Rows on their way into a table: in memory while few, in a file of the index when many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry
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

    def add(self, entry: Entry) -> None:
        """Take one entry.

        Raises:
            StoreError: If its vectors have another dimension.
            OSError: If the file cannot be written.
        """
        item, nodes = entry.vectors.item, entry.vectors.nodes.rows
        dim = self._layout.dim
        if item.shape != (dim,) or len(nodes.shape) != 2 or nodes.shape[1] != dim:
            raise StoreError(
                f"item {entry.item.id!r} of {entry.item.source.uri!r} has an item vector of shape "
                f"{item.shape} and node vectors of shape {nodes.shape}; vectors of this index have "
                f"{dim} entries"
            )
        self._waiting.append(entry)
        self.n_entries += 1
        if len(self._waiting) >= _BATCH:
            self._convert()

    def reader(self) -> pa.RecordBatchReader:
        """Return all rows, in order. Nothing can be added afterwards."""
        self._convert()
        pa = arrow()
        if self._file is not None:
            self._file.close()
            self._file = None
            return pa.ipc.open_stream(pa.memory_map(str(self._path)))
        return pa.RecordBatchReader.from_batches(schema(self._layout), self._batches)

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
