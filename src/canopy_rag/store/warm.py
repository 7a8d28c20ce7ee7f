"""Keeps the partitions of one table in memory and in step with it, in a thread of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import StoreError
from canopy_rag.core.types import Modality
from canopy_rag.store.matrix import Candidate, ranked, vectors_of
from canopy_rag.store.partitions import (
    Block,
    Partitions,
    block,
    make,
    n_partitions,
    n_trained,
    train,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

OFTEN = 8
"""Searches on disk, before partitions are made."""
_REFINE, _AT_LEAST = 3, 32  # candidates that are compared exactly, for each hit and in all
_MOST_TAKEN = 4_000  # rows taken at a time


@dataclass(slots=True, kw_only=True)
class Held:
    """Partitions of one version of a table."""

    version: int
    stamp: int | None
    partitions: Partitions


class Warm:
    """Searches a table in memory once it is searched often.

    Until partitions are made, and while they are brought up to date after a commit, a search is
    told to go to the table itself; so it always sees the last commit, and never waits.

    Args:
        table: The open LanceDB table.
        fits: Whether a table of so many items is to be searched in partitions.
        is_current: Whether a version with its stamp is still that of the table.
    """

    def __init__(
        self,
        table: Any,
        fits: Callable[[int], bool],
        is_current: Callable[[Held], bool],
    ) -> None:
        self._table = table
        self._fits = fits
        self._is_current = is_current
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._thread: threading.Thread | None = None
        self._n_searches = 0

    def nearest(
        self, query: NDArray[np.float32], k: int, modalities: Sequence[Modality] | None
    ) -> list[Candidate] | None:
        """Return the `k` nearest items by exact similarity, ties by id; None: ask the table.

        They are the best of the partitions that were looked at.
        """
        held = self._held
        if held is None or not self._is_current(held):
            return None
        row_ids = held.partitions.nearest(query, max(_REFINE * k, _AT_LEAST), modalities)
        if not row_ids:
            return []
        rows = self._taken(row_ids, ["id", "vector"])
        if rows.num_rows < len(row_ids):
            return None  # a commit came in between
        found = rows.column("id").to_pylist(), rows.column("_rowid").to_numpy()
        return ranked(*found, vectors_of(rows), query)[:k]

    @property
    def is_ready(self) -> bool:
        """Whether there are partitions of the table as it is now."""
        held = self._held
        return held is not None and self._is_current(held)

    def wait(self) -> None:
        """Return once no work is going on."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def searched(self) -> None:
        """Count a search of the table itself, and start what is due."""
        with self._lock:
            self._n_searches += 1
            due = self._held is not None or self._n_searches >= OFTEN
            busy = self._thread is not None and self._thread.is_alive()
            if due and not busy:
                self._thread = threading.Thread(
                    target=self._work, name="canopy partitions", daemon=True
                )
                self._thread.start()

    def _work(self) -> None:
        held, self._held = self._held, None
        try:
            # The version first: what is committed meanwhile makes it an old one.
            version = int(self._table.version)
            if self._fits(int(self._table.count_rows())):
                rows = self._table.search().select(["modality"]).with_row_id(True).to_arrow()
                row_ids = rows.column("_rowid").to_numpy()
                made = None if held is None else self._updated(held.partitions, row_ids)
                made = self._made(row_ids) if made is None else made
                self._held = Held(version=version, stamp=None, partitions=made)
        except (OSError, RuntimeError, ValueError, StoreError) as error:
            # Most likely a compaction took files away; searches on disk go on.
            logger.warning("no partitions of an index could be made for now: %s", error)
        self._n_searches = 0

    def _made(self, row_ids: NDArray[np.uint64]) -> Partitions:
        chosen = np.random.default_rng(0).choice(
            np.sort(row_ids), n_trained(len(row_ids)), replace=False
        )
        sample = np.concatenate([vectors_of(part) for part in self._parts(np.sort(chosen))])
        centres = train(sample, n_partitions(len(row_ids)))
        del sample
        # Not one scan: LanceDB reads up to 2 GiB of it ahead.
        return make(centres, map(_block, self._parts(np.sort(row_ids))))

    def _updated(self, known: Partitions, row_ids: NDArray[np.uint64]) -> Partitions | None:
        changed = known.updated(row_ids)
        if changed is None:
            return None
        made, new = changed
        for rows in self._parts(new):
            made = made.with_late(_block(rows))
        return made

    def _parts(self, row_ids: NDArray[np.uint64]) -> Iterator[pa.Table]:
        for begin in range(0, len(row_ids), _MOST_TAKEN):
            part = row_ids[begin : begin + _MOST_TAKEN].tolist()
            rows = self._taken(part, ["modality", "vector"])
            if rows.num_rows < len(part):
                raise StoreError("rows were moved while they were read")
            yield rows

    def _taken(self, row_ids: list[int], columns: list[str]) -> pa.Table:
        return self._table.take_row_ids(row_ids).select(columns).with_row_id().to_arrow()


def _block(rows: pa.Table) -> Block:
    modalities = rows.column("modality").to_pylist()
    return block(vectors_of(rows), rows.column("_rowid").to_numpy(), modalities)
