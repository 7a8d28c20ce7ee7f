"""One Lance table: the items of one corpus."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import StoreError
from canopy_rag.core.types import Modality
from canopy_rag.store.location import Location, is_of_engine
from canopy_rag.store.matrix import Candidate, ItemMatrix, ranked, vectors_of
from canopy_rag.store.partitions import BYTES
from canopy_rag.store.rows import ITEM_COLUMNS, VECTOR_COLUMNS, to_utf8
from canopy_rag.store.warm import Held, Warm

if TYPE_CHECKING:
    import pyarrow as pa

ANN_FROM = 5_000
"""Items from which a vector index is built."""
_NOW = timedelta(milliseconds=1)  # a zero is refused or warned of
_TRIES = 10
_PROBES = 24
_REFINE = 4
_SETTLED_NS = 100_000_000  # coarser than the clock of local file systems
_OFTEN = 8  # searches of one version, before its rows are kept
_RETRAIN = 4  # the partitions of an index that grew by more than this no longer fit
_TRAINED_ON, _ROUNDS = 32, 12  # items per partition; LanceDB's 256 and 50 take 50 x as long
_SLICE = 20_000  # rows rewritten at a time: bounds the memory of a purge


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """What of a table may be held in memory. A table larger than that is searched on disk."""

    exact_bytes: int = 256 * 1024 * 1024
    """Item vectors up to this size are searched exactly: 170,000 items of 384 entries."""
    partitioned_bytes: int = 1024 * 1024 * 1024
    """More item vectors than that are put into partitions once they are searched often, a byte an
    entry: up to this size, 2.7 million items of 384 entries. Until then, and above, the index on
    disk is searched. 0: always."""
    cache_bytes: int = 256 * 1024 * 1024
    """What the engine may keep of its indices, and a quarter of it more of what files say of
    themselves. The index of 600,000 vectors of 384 entries fits; of a larger one it reads more."""
    resident_bytes: int = 256 * 1024 * 1024
    """A table up to this size, trees and node vectors included, is kept whole once it is searched
    often: with vectors of 4 bits, 400 bytes for each node, about 45,000 items of 15 nodes. Reading
    ten rows costs thread switches of the engine, which take longer than all the rest when other
    work runs beside it."""


class ItemTable:
    """Searches and changes one table; holds its vectors in memory while they are small.

    Args:
        table: The open LanceDB table.
        place: The index, which knows what errors mean.
        dim: Number of entries of a vector.
        limits: What may be held in memory.
        versions: The folder whose time stamp moves with each commit; None where there is none.
    """

    def __init__(
        self, table: Any, place: Location, dim: int, limits: MemoryLimits, versions: Path | None
    ) -> None:
        self._table = table
        self._place = place
        self.dim = dim
        """Entries of a vector."""
        self._limits = limits
        self._versions = versions
        self._lock = threading.Lock()
        self._matrix: ItemMatrix | None = None
        self._warm = Warm(table, self._is_for_partitions, self._is_current)

    def __len__(self) -> int:
        with self._reading():
            return int(self._table.count_rows())

    def refresh(self) -> None:
        """Look at once for commits of other processes."""
        with self._reading():
            self._table.checkout_latest()

    def fence(self) -> None:
        """Commit something that no commit begun before agrees with: those then fail.

        For a writer that took the place over from one that may only have slept.
        """
        with self._changing():
            self._table.restore(self._table.version)

    def nearest(
        self, query: NDArray[np.float32], k: int, modalities: Sequence[Modality] | None
    ) -> list[Candidate]:
        """Return the `k` nearest items: exact while the vectors fit into memory, else ANN."""
        with self._reading():
            found = self._warm.nearest(query, k, modalities)
            if found is not None:
                return found
            matrix = self._current_matrix()
            if matrix is not None:
                return matrix.nearest(query, k, modalities)
            self._warm.searched()
            # Twice as many as asked for: equal similarities at the border are then ordered by id.
            search = (
                self._table.search(query, vector_column_name="vector")
                .distance_type("dot")
                .nprobes(_PROBES)
                .refine_factor(_REFINE)
                .limit(2 * k)
                .select(["id", "vector", "_distance"])
                .with_row_id(True)
            )
            if modalities is not None:
                search = search.where(_in("modality", modalities), prefilter=True)
            return _candidates(search.to_arrow(), query)[:k]

    @property
    def is_warm(self) -> bool:
        """Whether a search looks into partitions in memory now."""
        return self._warm.is_ready

    def settle(self) -> None:
        """Return once no partitions are being made."""
        self._warm.wait()

    def matching(
        self, text: str, query: NDArray[np.float32], n: int, modalities: Sequence[Modality] | None
    ) -> list[Candidate]:
        """Return the `n` items that match the words of `text` best, best first."""
        match_query = require("lancedb.query", extra="index", feature="Hybrid search").MatchQuery
        with self._reading():
            search = (
                self._table.search(match_query(to_utf8(text), "text"), query_type="fts")
                .limit(n)
                .select(["id", "vector", "_score"])
                .with_row_id(True)
            )
            if modalities is not None:
                search = search.where(_in("modality", modalities), prefilter=True)
            table = search.to_arrow()
        place = {item_id: rank for rank, item_id in enumerate(_by_score(table))}
        return sorted(_candidates(table, query), key=lambda found: place[found.item_id])

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return rows by row id, in any order; one that is gone by now is missing."""
        with self._reading():
            matrix = self._matrix
            if matrix is not None and matrix.is_resident:
                return matrix.take(row_ids)
            return self._table.take_row_ids(list(row_ids)).select(list(columns)).to_arrow()

    def rows(self, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Return columns of all rows, or of those that fit."""
        with self._reading():
            search = self._table.search().select(list(columns))
            return (search if where is None else search.where(where)).to_arrow()

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield columns of all rows, some rows at a time."""
        with self._reading():
            yield from self._table.search().select(list(columns)).to_batches(size)

    def by_ids(self, item_ids: Collection[str], columns: Sequence[str]) -> pa.Table:
        """Return the rows of these item ids that are there, in any order."""
        return self.rows(columns, _in("id", item_ids))

    def count(self, modality: Modality) -> int:
        """Return the number of items of one modality."""
        with self._reading():
            return int(self._table.count_rows(_in("modality", [modality])))

    def count_of(self, uris: Collection[str]) -> int:
        """Return the number of items of these sources."""
        with self._reading():
            return int(self._table.count_rows(_of_sources(uris)))

    def replace(self, uris: Collection[str], rows: pa.RecordBatchReader, *, known: bool) -> None:
        """Put rows in the place of all items of the sources `uris`, in one commit.

        Args:
            uris: The sources.
            rows: All their items.
            known: Whether some of the sources have items now.
        """
        with self._changing():
            if not known:
                self._table.add(rows)
                return
            merge = self._table.merge_insert("id")
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.when_not_matched_by_source_delete(_of_sources(uris)).execute(rows)

    def remove(self, uris: Collection[str]) -> None:
        """Delete all items of these sources, in one commit."""
        with self._changing():
            self._table.delete(_of_sources(uris))

    def indexed(self) -> set[str]:
        """Return the columns that have an index."""
        with self._reading():
            return self._indexed()

    def optimize(self, *, hybrid: bool, trained: int, purge: bool) -> int:
        """Merge small files, bring the indices up to date, drop all older versions.

        Args:
            hybrid: Keep a full-text index.
            trained: Number of items the vector index was trained on; 0 without one.
            purge: Rewrite every row, so that no file holds a removed one.

        Returns:
            The number of items the vector index is now trained on.
        """
        with self._changing():
            n_items = int(self._table.count_rows())
            if purge:
                self._rewrite()
                # Its dictionary keeps words that no document has any more.
                if "text" in self._indexed():
                    self._table.drop_index("text_idx")
            trained = self._build_indices(n_items, hybrid=hybrid, trained=trained)
            for _ in range(_TRIES):
                self._table.optimize(cleanup_older_than=_NOW, delete_unverified=True)
                # Updating the indices makes one more version, so the one before outlives a call.
                if not purge or len(self._table.list_versions()) == 1:
                    return trained
            latest = max(each["timestamp"] for each in self._table.list_versions()[:-1])
        reason = "run the same command again"
        if latest > datetime.now():
            reason = (
                f"one was written at {latest:%Y-%m-%d %H:%M}, which the clock of this machine has "
                "not reached yet. Set the clock right; until then, what was removed or replaced "
                "is found no more, but still stands in files"
            )
        raise StoreError(
            f"older versions of the index in {str(self._place)!r} cannot be removed; {reason}"
        )

    def _build_indices(self, n_items: int, *, hybrid: bool, trained: int) -> int:
        index = require("lancedb.index", extra="index", feature="The index")
        indexed = self._indexed()
        if n_items and "id" not in indexed:
            self._table.create_index("id", config=index.BTree())
        if n_items and "modality" not in indexed:
            self._table.create_index("modality", config=index.Bitmap())
        if n_items and hybrid and "text" not in indexed:
            words = index.FTS(base_tokenizer="icu", stem=False, remove_stop_words=False)
            self._table.create_index("text", config=words)
        outgrown = trained and n_items >= _RETRAIN * trained
        if n_items >= ANN_FROM and ("vector" not in indexed or outgrown):
            config = index.IvfSq(
                distance_type="dot",
                num_partitions=max(1, round(n_items**0.5)),
                sample_rate=_TRAINED_ON,
                max_iterations=_ROUNDS,
            )
            self._table.create_index("vector", config=config, replace=True)
            return n_items
        return trained

    def _rewrite(self) -> None:
        """Write every row anew; a file whose rows have all moved is then deleted."""
        row_ids = np.sort(self.rows_with_ids(["n_nodes"]).column("_rowid").to_numpy())
        for begin in range(0, len(row_ids), _SLICE):
            part = row_ids[begin : begin + _SLICE]
            within = f"_rowid >= {part[0]} AND _rowid <= {part[-1]}"
            self._table.update(where=within, values_sql={"uri": "uri"})

    def rows_with_ids(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of all rows, and `_rowid`."""
        with self._reading():
            return self._table.search().select(list(columns)).with_row_id(True).to_arrow()

    def _indexed(self) -> set[str]:
        return {column for index in self._table.list_indices() for column in index.columns}

    def _current_matrix(self) -> ItemMatrix | None:
        """Return the vectors as of now, or None when they are too many to hold."""
        known = self._matrix
        if known is not None and self._is_current(known) and not self._is_due(known):
            return known
        with self._lock:
            matrix = self._matrix
            if matrix is not None and matrix is not known and self._is_current(matrix):
                return matrix  # another thread was faster
            if self._table.count_rows() > self._limits.exact_bytes // (4 * self.dim):
                self._matrix = None
            else:
                often = matrix is not None and matrix.n_searches >= _OFTEN
                self._matrix = self._load(resident=often and self._fits())
            return self._matrix

    def _is_for_partitions(self, n_items: int) -> bool:
        least = self._limits.exact_bytes // (4 * self.dim)
        return least < n_items <= self._limits.partitioned_bytes // (self.dim + BYTES)

    def _is_due(self, matrix: ItemMatrix) -> bool:
        """Count a search; whether the rows are to be kept from now on."""
        matrix.n_searches += 1
        return not matrix.is_resident and matrix.n_searches == _OFTEN and self._fits()

    def _fits(self) -> bool:
        return int(self._table.stats()["total_bytes"]) <= self._limits.resident_bytes

    def _is_current(self, matrix: ItemMatrix | Held) -> bool:
        """Whether no commit came since, by the folder's time stamp if that can be trusted."""
        stamp = self._stamp()
        if stamp is not None and stamp == matrix.stamp:
            return True
        if self._table.version != matrix.version:
            return False
        # A commit within the same tick of the clock would leave the stamp as it is.
        if stamp is not None and time.time_ns() - stamp > _SETTLED_NS:
            matrix.stamp = stamp
        return True

    def _stamp(self) -> int | None:
        try:
            return None if self._versions is None else self._versions.stat().st_mtime_ns
        except OSError:
            return None

    def _load(self, *, resident: bool) -> ItemMatrix:
        columns = ["id", "modality", "vector"]
        if resident:
            columns = [*ITEM_COLUMNS, *VECTOR_COLUMNS, "vector"]
        version = self._table.version
        while True:
            table = self.rows_with_ids(columns)
            version, before = self._table.version, version
            if version == before:  # else a writer came in between: row ids may have moved
                whole = table.combine_chunks() if resident else table
                return ItemMatrix(version, whole, resident=resident)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn the engine's errors into a `StoreError`."""
        try:
            yield
        except BaseException as error:
            if not is_of_engine(error):
                raise
            raise StoreError(self._place.failure("read", error)) from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not is_of_engine(error):
                raise
            raise StoreError(self._place.failure("written", error)) from error


def _candidates(table: pa.Table, query: NDArray[np.float32]) -> list[Candidate]:
    item_ids = table.column("id").to_pylist()
    return ranked(item_ids, table.column("_rowid").to_numpy(), vectors_of(table), query)


def _by_score(table: pa.Table) -> list[str]:
    """Return ids by full-text score, best first, ties by id."""
    scores, ids = table.column("_score").to_pylist(), table.column("id").to_pylist()
    return [item_id for _, item_id in sorted(zip((-s for s in scores), ids, strict=True))]


def _of_sources(uris: Collection[str]) -> str:
    return _in("uri", [to_utf8(uri) for uri in uris])


def _in(column: str, values: Collection[str]) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in sorted(values))
    return f"{column} IN ({quoted})" if quoted else "false"
