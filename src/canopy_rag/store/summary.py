"""What an index holds, in numbers: the parts of `canopy info`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from canopy_rag.core.protocols import Fingerprint
from canopy_rag.core.types import MODALITIES
from canopy_rag.store.location import IndexMeta
from canopy_rag.store.table import ItemTable

_LINES = 10_000


def digest(tables: Mapping[str, ItemTable]) -> str:
    """Return a SHA-256 over the item ids and contents of corpora, sorted."""
    total = hashlib.sha256()
    # Corpus by corpus, id by id: what sorting all lines would give, and a part of them at a time.
    for corpus in sorted(tables):
        rows = tables[corpus].rows(["id", "digest"]).sort_by("id")
        for part in rows.to_batches(max_chunksize=_LINES):
            item_ids, digests = (part.column(name).to_pylist() for name in ("id", "digest"))
            lines = [
                f"{corpus}\0{item_id}\0{content}\n"
                for item_id, content in zip(item_ids, digests, strict=True)
            ]
            total.update("".join(lines).encode())
    return total.hexdigest()


def of_tables(tables: Mapping[str, ItemTable]) -> dict[str, Any]:
    """Return what the tables tell: nodes, digest, indices."""
    return {
        "nodes": sum(
            int(table.rows(["n_nodes"]).column("n_nodes").to_numpy().sum())
            for table in tables.values()
        ),
        "digest": digest(tables),
        "indices": sorted({name for table in tables.values() for name in table.indexed()}),
    }


def of_meta(meta: IndexMeta) -> dict[str, Any]:
    """Return what the description tells."""
    return {
        "encoder": meta.encoder.model,
        "embedded": {
            modality: "media" if modality in meta.media else "text" for modality in MODALITIES
        },
        "adapter": meta.adapter or None,
        "format_version": meta.format_version,
        "vectors": meta.vectors,
        "fingerprint": dataclasses.asdict(meta.encoder),
        "corpora": sorted(meta.corpora),
        "hybrid": meta.hybrid,
        "created": meta.created,
    }


def named(fingerprint: Fingerprint) -> str:
    """Return an encoder in words."""
    details = ", ".join(
        f"{name} {value!r}"
        for name, value in dataclasses.asdict(fingerprint).items()
        if name != "model"
    )
    return f"{fingerprint.model!r} ({details})"
