"""Vectors of many items, made once: kept in `benchmarks/.cache` by encoder and by items."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core import codec
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors, NodeVectors
from canopy_rag.encoders.registry import encoder

CACHE = Path(__file__).parent / ".cache"
BATCH = 64

_own: dict[str, Encoder] = {}
"""The encoder of a worker process."""


def encoded(items: Sequence[Item], name: str, processes: int = 1) -> list[ItemVectors]:
    """Return the vectors of items in late pooling, from the cache if they were made before.

    Args:
        items: Each once.
        name: Of the encoder.
        processes: That encode side by side.
    """
    written = [codec.dumps(item) for item in items]
    digest = hashlib.sha256(repr(encoder(name).fingerprint).encode())
    for text in written:
        digest.update(text.encode("utf-8", "surrogatepass"))
    path = CACHE / f"{digest.hexdigest()[:24]}.npz"
    if not path.exists():
        started = time.perf_counter()
        print(f"encoding {len(items):,} items with {name}", flush=True)
        _save(path, _encode(items, [len(text) for text in written], name, processes))
        print(f"encoded in {time.perf_counter() - started:.0f} s", flush=True)
    return _saved(path, items)


def _encode(
    items: Sequence[Item], lengths: Sequence[int], name: str, processes: int
) -> list[ItemVectors]:
    # Of similar length together: a batch costs what its longest sequence costs.
    order = sorted(range(len(items)), key=lengths.__getitem__)
    groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    batches = [[items[row] for row in rows] for rows in groups]
    made: dict[int, ItemVectors] = {}
    for rows, vectors in zip(groups, _batches(batches, name, processes), strict=True):
        made.update(zip(rows, vectors, strict=True))
    return [made[row] for row in range(len(items))]


def _batches(
    batches: Sequence[Sequence[Item]], name: str, processes: int
) -> Iterator[list[ItemVectors]]:
    if processes == 1:
        _start(name)
        yield from map(_work, batches)
        return
    with get_context("spawn").Pool(processes, _start, (name,)) as pool:
        yield from pool.imap(_work, batches)


def _start(name: str) -> None:
    _own["encoder"] = encoder(name)


def _work(items: Sequence[Item]) -> list[ItemVectors]:
    return _own["encoder"].encode_items(items)


def _save(path: Path, vectors: Sequence[ItemVectors]) -> None:
    path.parent.mkdir(exist_ok=True)
    arrays: dict[str, NDArray[np.generic]] = {
        "items": np.stack([each.item for each in vectors]),
        "rows": np.concatenate([each.nodes.rows for each in vectors]),
        "weights": np.concatenate([each.nodes.weights for each in vectors]),
        "norms": np.concatenate([each.nodes.norms for each in vectors]),
    }
    tokens = [each.nodes.tokens for each in vectors if each.nodes.tokens is not None]
    if tokens:
        arrays["tokens"] = np.concatenate(tokens)
        arrays["n_tokens"] = np.array([len(own) for own in tokens])
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(file, **arrays)
    unfinished.replace(path)


def _saved(path: Path, items: Sequence[Item]) -> list[ItemVectors]:
    with np.load(path) as file:
        saved = {name: file[name] for name in file.files}
    found: list[ItemVectors] = []
    row = node = token = 0
    for place, (item, vector) in enumerate(zip(items, saved["items"], strict=True)):
        n_rows = sum(not each.children for each in item.nodes) + 1
        n_tokens = int(saved["n_tokens"][place]) if "tokens" in saved else 0
        nodes = NodeVectors(
            rows=saved["rows"][row : row + n_rows],
            weights=saved["weights"][row : row + n_rows],
            norms=saved["norms"][node : node + len(item.nodes)],
            tokens=saved["tokens"][token : token + n_tokens] if "tokens" in saved else None,
        )
        found.append(ItemVectors(item=vector, nodes=nodes))
        row, node, token = row + n_rows, node + len(item.nodes), token + n_tokens
    return found
