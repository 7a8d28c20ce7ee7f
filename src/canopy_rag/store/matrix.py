"""Exact search in memory: the item vectors of one version of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.types import MODALITIES, Modality

if TYPE_CHECKING:
    import pyarrow as pa

_SLACK = 1e-5
"""More than float32 sums in another order can differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An item that a search found, and where it stands in its table."""

    similarity: float
    item_id: str
    row_id: int


class ItemMatrix:
    """The vectors, ids and modalities of all items of one version of a table.

    Args:
        version: The version that the row ids are valid for.
        table: Columns `id`, `modality`, `vector`, `_rowid`; with `resident` all that is ever taken,
            each in one chunk.
        resident: Whether rows are taken from `table` from now on, not from disk.
    """

    def __init__(self, version: int, table: pa.Table, *, resident: bool = False) -> None:
        self.version = version
        self.stamp: int | None = None
        """State of the table's folder in which the version was seen; None: ask for the version."""
        self.n_searches = 0
        self._rows = table if resident else None
        self._ids = table.column("id")
        self._row_ids = table.column("_rowid").to_numpy()
        code_of = {modality: code for code, modality in enumerate(MODALITIES)}
        self._codes = np.asarray(
            [code_of[modality] for modality in table.column("modality").to_pylist()], np.uint8
        )
        self._by_row_id = np.argsort(self._row_ids)
        self._vectors = vectors_of(table)

    @property
    def is_resident(self) -> bool:
        """Whether rows are taken from memory."""
        return self._rows is not None

    def take(self, row_ids: Sequence[int]) -> pa.Table:
        """Return rows from memory, by row id; one that is not there is missing."""
        if self._rows is None:
            raise ValueError("the rows are on disk")
        if not len(self._row_ids):
            return self._rows
        order = np.searchsorted(self._row_ids, row_ids, sorter=self._by_row_id)
        places = self._by_row_id[np.minimum(order, len(self._row_ids) - 1)]
        return self._rows.take(places[self._row_ids[places] == row_ids])

    def nearest(
        self, query: NDArray[np.float32], k: int, modalities: Sequence[Modality] | None
    ) -> list[Candidate]:
        """Return the `k` items most similar to `query`, ties by item id."""
        # Not `@`: BLAS would share this out to threads, which wait for each other on a busy machine
        # longer than the sums take.
        similarities = np.einsum("ij,j->i", self._vectors, query)  # (n_items,)
        places = np.arange(len(similarities))
        if modalities is not None:
            wanted = [MODALITIES.index(modality) for modality in modalities]
            places = np.flatnonzero(np.isin(self._codes, wanted))
            similarities = similarities[places]
        if len(places) > k:
            bound = np.partition(similarities, -k)[-k] - _SLACK
            places = places[similarities >= bound]
        return ranked(
            [self._ids[int(place)].as_py() for place in places],
            self._row_ids[places],
            self._vectors[places],
            query,
        )[:k]


def vectors_of(table: pa.Table) -> NDArray[np.float32]:
    """Return the column `vector` as a matrix of float32, `(n_rows, dim)`."""
    column = table.column("vector")
    chunks = [chunk.flatten().to_numpy() for chunk in column.chunks]
    flat = np.concatenate(chunks, dtype=np.float32) if chunks else np.zeros(0, np.float32)
    return flat.reshape(-1, column.type.list_size)


def ranked(
    item_ids: Sequence[str],
    row_ids: NDArray[np.integer],
    vectors: NDArray[np.float32],
    query: NDArray[np.float32],
) -> list[Candidate]:
    """Return candidates by exact cosine, most similar first, ties by item id.

    The dot products are summed in float64 and rounded to float32, so that a similarity does not
    depend on how many items stand beside it.
    """
    exact = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    candidates = [
        Candidate(similarity=float(exact[row]), item_id=item_id, row_id=int(row_ids[row]))
        for row, item_id in enumerate(item_ids)
    ]
    return sorted(candidates, key=lambda candidate: (-candidate.similarity, candidate.item_id))
