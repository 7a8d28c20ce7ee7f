"""Search of many items in memory: their vectors in bytes, put into partitions by likeness.

The inverted file of IVF indices (Sivic and Zisserman, ICCV 2003; FAISS calls it IVF-SQ8), made from
the vectors of one version of a table. A search looks at the partitions whose centres are nearest to
the query, until it has seen `SCANNED` items; the best of those are then compared exactly, by the
vectors in the table. It is numpy alone: a partition lies in one piece and is multiplied as a block.
Next to LanceDB's own index this saves the reads and the switches of threads, which are most of what
that costs (docs/speed.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.types import MODALITIES, Modality

SCANNED = 32_000
"""Items that a search looks at, the last partition rounded up; all when there are fewer."""
_ROWS_TRAINED = 32  # per partition
_ROUNDS = 8
_BLOCK = 2_048  # rows turned into float32 at a time: what a core's cache holds
BYTES = 14
"""Of an item, beside one for each entry of its vector."""
_MOST_LATE = 0.05
"""Share of items that may have come or gone since the partitions were made."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Items side by side."""

    codes: NDArray[np.int8]
    """`(n_items, dim)`; an entry of a vector is its code times the item's scale."""
    scales: NDArray[np.float32]
    row_ids: NDArray[np.uint64]
    modalities: NDArray[np.uint8]
    """Places in `MODALITIES`."""
    gone: NDArray[np.bool_]
    """Those that the table has no more."""

    def __len__(self) -> int:
        return len(self.row_ids)

    def matching(self, wanted: NDArray[np.intp] | None) -> Block:
        """Return the items that are there and of some modalities; None for all."""
        keep = ~self.gone
        if wanted is not None:
            keep &= np.isin(self.modalities, wanted)
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def take(self, places: NDArray[np.integer] | slice) -> Block:
        """Return some of the items."""
        return Block(
            codes=self.codes[places],
            scales=self.scales[places],
            row_ids=self.row_ids[places],
            modalities=self.modalities[places],
            gone=self.gone[places],
        )


def block(
    vectors: NDArray[np.floating], row_ids: NDArray[np.integer], modalities: Sequence[Modality]
) -> Block:
    """Return items as a block.

    Args:
        vectors: `(n_items, dim)`.
        row_ids: Of the items, in the same order.
        modalities: Of the items, in the same order.
    """
    numbers = np.asarray(vectors, np.float32)
    scales = np.abs(numbers).max(axis=1, initial=1e-12) / 127
    code_of = {modality: code for code, modality in enumerate(MODALITIES)}
    return Block(
        codes=np.rint(numbers / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float32),
        row_ids=np.asarray(row_ids, np.uint64),
        modalities=np.array([code_of[each] for each in modalities], np.uint8),
        gone=np.zeros(len(numbers), np.bool_),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partitions:
    """All items of one version of a table, those of each partition side by side."""

    centres: NDArray[np.float32]
    """Unit vectors, `(n_partitions, dim)`."""
    begins: NDArray[np.int64]
    """Where each partition begins in `items`, and the end, `(n_partitions + 1,)`."""
    items: Block
    late: Block
    """Those that came since the partitions were made; every search looks at them."""
    counts: NDArray[np.int64]
    """Items of each modality in each partition, `(n_partitions, n_modalities)`."""

    def nearest(
        self, query: NDArray[np.float32], n: int, modalities: Sequence[Modality] | None
    ) -> list[int]:
        """Return the row ids of about the `n` most similar items, best first, ties by row id.

        Args:
            query: Unit vector, `(dim,)`.
            n: Most items.
            modalities: Only items of these; None for all.
        """
        wanted = None
        if modalities is not None:
            wanted = np.array([MODALITIES.index(each) for each in modalities], np.intp)
        row_ids, values = [], []
        for part in self._parts(query, wanted):
            own = part.matching(wanted)
            values.append(_products(own, query))
            row_ids.append(own.row_ids)
        if not values:
            return []
        similarities, ids = np.concatenate(values), np.concatenate(row_ids)
        places = np.arange(len(ids))
        if len(ids) > n:
            places = np.flatnonzero(similarities >= np.partition(similarities, -n)[-n])
        best = places[np.lexsort((ids[places], -similarities[places]))][:n]
        return [int(row_id) for row_id in ids[best]]

    def updated(self, row_ids: NDArray[np.integer]) -> tuple[Partitions, NDArray[np.uint64]] | None:
        """Return the partitions without what is gone, and the row ids that are missing in them.

        A row id stands for one content as long as it is there: rows are never changed in place.

        Args:
            row_ids: All that the table has now.

        Returns:
            None if so much changed that partitions are to be made anew.
        """
        now = np.sort(np.asarray(row_ids, np.uint64))
        known = np.concatenate([self.items.row_ids, self.late.row_ids])
        there = _is_in(known, now)
        new = now[~_is_in(now, np.sort(known))]
        n_items = len(self.items)
        n_late = len(self.late) + len(new) + n_items - int(there[:n_items].sum())
        if n_late > _MOST_LATE * len(self.items):
            return None
        items = replace(self.items, gone=~there[:n_items])
        late = self.late.take(np.flatnonzero(there[n_items:]))
        return replace(self, items=items, late=late), new

    def with_late(self, more: Block) -> Partitions:
        """Return partitions that have more items."""
        return replace(self, late=_joined([self.late, more]))

    def _parts(
        self, query: NDArray[np.float32], wanted: NDArray[np.intp] | None
    ) -> Iterator[Block]:
        """Yield what a search has to look at."""
        if len(self.late):
            yield self.late
        counts = self.counts if wanted is None else self.counts[:, wanted]
        own = counts.sum(axis=1)
        order = np.argsort(-np.einsum("ij,j->i", self.centres, query), kind="stable")
        order = order[own[order] > 0]
        enough = int(np.searchsorted(np.cumsum(own[order]), SCANNED)) + 1
        for partition in order[:enough].tolist():
            yield self.items.take(slice(self.begins[partition], self.begins[partition + 1]))


def make(centres: NDArray[np.float32], parts: Iterator[Block]) -> Partitions:
    """Return partitions of items that come in several parts.

    Args:
        centres: Of `train`.
        parts: At least one.
    """
    blocks, labels = [], []
    for part in parts:
        # The scale of a vector does not change which centre is nearest.
        labels.append(_labels(part.codes, centres))
        blocks.append(part)
    whole = _joined(blocks)
    del blocks
    label = np.concatenate(labels)
    sizes = np.bincount(label, minlength=len(centres))
    begins = np.concatenate([[0], np.cumsum(sizes)])
    items = whole.take(np.argsort(label, kind="stable"))
    counts = np.zeros((len(centres), len(MODALITIES)), np.int64)
    np.add.at(counts, (label, whole.modalities), 1)
    return Partitions(
        centres=centres, begins=begins, items=items, late=items.take(slice(0, 0)), counts=counts
    )


def n_partitions(n_items: int) -> int:
    """Return how many partitions items are put into."""
    return max(1, min(n_items, math.isqrt(4 * n_items)))


def n_trained(n_items: int) -> int:
    """Return how many vectors the centres are made from."""
    return min(n_items, _ROWS_TRAINED * n_partitions(n_items))


def train(sample: NDArray[np.floating], n_centres: int) -> NDArray[np.float32]:
    """Return centres by spherical k-means, the same ones for the same sample.

    Args:
        sample: Unit vectors, `(n, dim)`, at least `n_centres`.
        n_centres: How many at most; equal ones are one.
    """
    vectors = np.asarray(sample, np.float32)
    first = np.random.default_rng(0).choice(len(vectors), n_centres, replace=False)
    centres = vectors[first]
    for _ in range(_ROUNDS):
        label = _labels(vectors, centres)
        order = np.argsort(label, kind="stable")
        present, begins = np.unique(label[order], return_index=True)
        sums = np.add.reduceat(vectors[order], begins, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        # A centre that no vector is nearest to, or whose vectors cancel out, stays where it is.
        centres[present] = np.where(
            lengths > 0, sums / np.maximum(lengths, 1e-12), centres[present]
        )
    return np.unique(centres, axis=0)


def _labels(
    vectors: NDArray[np.float32] | NDArray[np.int8], centres: NDArray[np.float32]
) -> NDArray[np.intp]:
    """Return the nearest centre of each vector."""
    parts = [
        np.argmax(vectors[begin : begin + _BLOCK].astype(np.float32) @ centres.T, axis=1)
        for begin in range(0, len(vectors), _BLOCK)
    ]
    return np.concatenate(parts)


def _products(part: Block, query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the approximate similarity of each item to the query."""
    values = np.empty(len(part), np.float32)
    numbers = np.empty((min(_BLOCK, len(part)), part.codes.shape[1]), np.float32)
    for begin in range(0, len(part), _BLOCK):
        end = min(begin + _BLOCK, len(part))
        own = numbers[: end - begin]
        np.copyto(own, part.codes[begin:end], casting="safe")
        # Not `@`: threads of BLAS would wait for each other on a busy machine.
        np.einsum("ij,j->i", own, query, out=values[begin:end])
    values *= part.scales
    return values


def _joined(parts: Sequence[Block]) -> Block:
    return Block(
        codes=np.concatenate([part.codes for part in parts]),
        scales=np.concatenate([part.scales for part in parts]),
        row_ids=np.concatenate([part.row_ids for part in parts]),
        modalities=np.concatenate([part.modalities for part in parts]),
        gone=np.concatenate([part.gone for part in parts]),
    )


def _is_in(values: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which values are among ascending ones."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[places] == values)
