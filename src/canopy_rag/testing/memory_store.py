"""A store in memory: exact, small, and what every other store is compared with."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core import codec
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry, Fingerprint, Found, Packed, Packer
from canopy_rag.core.types import Hit, Item, Modality


class MemoryStore:
    """Keeps entries in a dictionary and compares a query with all of them.

    Args:
        fingerprint: Of the encoder whose vectors it holds.
    """

    def __init__(self, fingerprint: Fingerprint) -> None:
        self.fingerprint = fingerprint
        self.identity = uuid.uuid4().hex
        self.needs_compaction = False
        self._entries: dict[tuple[str, str], Entry] = {}

    def check(self, fingerprint: Fingerprint) -> None:
        """Raise a `StoreError` if vectors of this encoder do not belong here."""
        if not fingerprint.agrees(self.fingerprint):
            raise StoreError(
                f"the store holds vectors of {self.fingerprint}, not of {fingerprint}; use that "
                "encoder, or index again"
            )

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        modalities: Sequence[Modality] | None = None,
        text: str | None = None,
        corpora: Sequence[str] | None = None,
    ) -> list[Found]:
        """Return the `k` items nearest to `query`, ties by item id; `text` is not looked at."""
        del text
        if query.shape != (self.fingerprint.dim,):
            raise StoreError(
                f"the query has the shape {query.shape}, vectors here {self.fingerprint.dim} "
                "entries; encode it with the encoder of the store"
            )
        for corpus in corpora or ():
            if corpus not in {name for name, _ in self._entries}:
                raise StoreError(f"no corpus {corpus!r}; search one that was indexed")
        found = []
        for (corpus, item_id), entry in self._entries.items():
            if modalities is not None and entry.item.modality not in modalities:
                continue
            if corpora is None or corpus in corpora:
                dot = entry.vectors.item.astype(np.float64) @ query.astype(np.float64)
                found.append((-float(np.float32(dot)), item_id, corpus, entry))
        found.sort(key=lambda each: each[:3])
        return [
            Found(
                hit=Hit(item_id=item_id, corpus=corpus, similarity=-negative, rank=rank),
                item=entry.item,
                nodes=entry.vectors.nodes,
            )
            for rank, (negative, item_id, corpus, entry) in enumerate(found[: max(k, 0)], 1)
        ]

    def get(self, item_ids: Sequence[str]) -> list[Item]:
        """Return the items of these ids, in order; a `StoreError` names one that is not there."""
        there = {item_id: entry.item for (_, item_id), entry in self._entries.items()}
        for item_id in item_ids:
            if item_id not in there:
                raise StoreError(f"no item {item_id!r}; it may have been removed: search again")
        return [there[item_id] for item_id in item_ids]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Do nothing: there is one process."""
        yield

    @property
    def packer(self) -> Packer:
        """Leaves entries as they are."""
        return _pack

    def replace(self, uris: Collection[str], entries: Iterable[Entry | Packed]) -> int:
        """Put `entries` in the place of all items of the sources `uris`."""
        new: dict[tuple[str, str], Entry] = {}
        for entry in _unpacked(entries):
            key = (entry.item.corpus, entry.item.id)
            if entry.item.source.uri not in uris:
                raise StoreError(
                    f"item {entry.item.id!r} is of {entry.item.source.uri!r}, not of {sorted(uris)}"
                )
            if key in new:
                raise StoreError(f"item {entry.item.id!r} comes twice")
            if entry.vectors.item.shape != (self.fingerprint.dim,):
                raise StoreError(
                    f"item {entry.item.id!r}: a vector of shape {entry.vectors.item.shape}; "
                    f"vectors of this store have {self.fingerprint.dim} entries"
                )
            new[key] = entry
        self.remove(uris)
        self._entries.update(new)
        return len(new)

    def remove(self, uris: Collection[str]) -> int:
        """Remove all items of these sources; return how many there were."""
        gone = [key for key, entry in self._entries.items() if entry.item.source.uri in uris]
        for key in gone:
            del self._entries[key]
        return len(gone)

    def sources(self) -> dict[str, int]:
        """Return the number of items of every source that has some."""
        counts: dict[str, int] = {}
        for entry in self._entries.values():
            uri = entry.item.source.uri
            counts[uri] = counts.get(uri, 0) + 1
        return counts

    def compact(self) -> None:
        """Do nothing: what was removed is gone."""

    def digest(self) -> str:
        """Return a SHA-256 over the item ids and contents, sorted."""
        lines = []
        for (corpus, item_id), entry in self._entries.items():
            content = codec.dumps(entry.item).encode("utf-8", "surrogatepass")
            lines.append(f"{corpus}\0{item_id}\0{hashlib.sha256(content).hexdigest()}\n")
        return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _pack(entries: Sequence[Entry]) -> list[Packed]:
    return [
        Packed(uri=one.uri, corpus=one.corpus, ids=one.ids, n_nodes=one.n_nodes, rows=one)
        for one in entries
    ]


def _unpacked(entries: Iterable[Entry | Packed]) -> Iterator[Entry]:
    for entry in entries:
        yield entry.rows if isinstance(entry, Packed) else entry
