"""Reading all of an index to tell whether it is as it was written: `canopy verify`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import CanopyError, StoreError
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import NodeVectors, similarities
from canopy_rag.store.catalog import Catalog
from canopy_rag.store.checksums import Damage
from canopy_rag.store.location import Location
from canopy_rag.store.matrix import vectors_of
from canopy_rag.store.rows import (
    ITEM_COLUMNS,
    VECTOR_COLUMNS,
    arrow,
    digest_of,
    to_items,
    to_node_vectors,
)
from canopy_rag.store.table import ItemTable

_UNIT = 0.01
"""Half precision changes the length of a vector by less."""
_AT_A_TIME = 256


@dataclass(slots=True, kw_only=True)
class Verification:
    """What reading all of an index told."""

    n_items: int = 0
    """Items that are sound."""
    damaged: list[Damage] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged


def verify(catalog: Catalog, place: Location) -> Verification:
    """Compare files with their checksums, read every row of every table, and search each once.

    A table with a file that is not as it was written is not read: the engine may crash on it.

    Args:
        catalog: Opens the tables.
        place: Where they are.

    Raises:
        StoreError: If a file cannot be read.
    """
    report = Verification(damaged=place.damaged())
    for corpus, name in sorted(catalog.meta.corpora.items()):
        file = f"tables/{name}.lance"
        if any(each.file.startswith(f"{file}/") for each in report.damaged):
            continue
        try:
            _read_all(catalog.tables([corpus])[corpus], corpus, file, report)
        except CanopyError as error:
            report.damaged.append(Damage(file=file, reason=str(error)))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            reason = f"holds a row that is no item ({type(error).__name__}: {error})"
            report.damaged.append(Damage(file=file, reason=reason))
    return report


def _read_all(table: ItemTable, corpus: str, file: str, report: Verification) -> None:
    columns = [*ITEM_COLUMNS, *VECTOR_COLUMNS, "vector", "digest"]
    seen: set[str] = set()
    first = None
    for batch in table.batches(columns, _AT_A_TIME):
        rows = arrow().Table.from_batches([batch])
        vectors = vectors_of(rows)
        digests = rows.column("digest").to_pylist()
        nodes = to_node_vectors(rows, table.dim)
        for place, item in enumerate(to_items(rows, corpus)):
            problem = ""
            if item.id in seen:
                problem = "is there twice"
            elif digest_of(item) != digests[place]:
                problem = "has other content than was written"
            elif not _are_vectors(vectors[place].astype(np.float32), item, nodes[place]):
                problem = "has vectors that are none"
            seen.add(item.id)
            if problem:
                reason = f"item {item.id!r} of {item.source.uri!r} {problem}"
                report.damaged.append(Damage(file=file, reason=reason))
            else:
                report.n_items += 1
        first = vectors[0].astype(np.float32) if first is None and len(vectors) else first
    if len(seen) != len(table):
        raise StoreError(f"{len(seen):,} of {len(table):,} items can be read")
    if first is not None:
        table.nearest(first, 1, None)


def _are_vectors(own: NDArray[np.float32], item: Item, nodes: NodeVectors) -> bool:
    if not abs(float(np.linalg.norm(own)) - 1) < _UNIT:
        return False
    return bool(np.isfinite(similarities(item.nodes, nodes, own)).all())
