"""What a whole search costs, beside embedding its query: 10,000 items of 15 nodes, 10 hits.

The corpus is made up: sentences of random words, leaf vectors scattered around a topic. The query
is embedded by the embedded default encoder. Both are timed in turns, query by query, so that other
work on the machine falls on both. Writes `benchmarks/results/search.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from canopy_rag.config import SelectConfig
from canopy_rag.core.evidence import Evidence, Meter
from canopy_rag.core.protocols import Encoder, Entry
from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload, item_id
from canopy_rag.core.vectors import ItemVectors, node_matrix, pool
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.pipeline.compressor import add_round, explain
from canopy_rag.store import LanceStore

N_LEAVES = 8
"""Sentences of an item; halving makes 15 nodes of them."""
PER_SOURCE = 10
LIMIT_SEARCH = 3.0
"""A whole search takes at most this many times as long as embedding its query."""
LIMIT_REFINE = 0.05
"""Refinement takes at most this share of a whole search."""
T = TypeVar("T")
RESULT = Path(__file__).parent / "results" / "search.json"
WORDS = [
    "river",
    "stone",
    "harbour",
    "engine",
    "winter",
    "treaty",
    "signal",
    "copper",
    "garden",
    "orbit",
    "market",
    "fever",
    "bridge",
    "violin",
    "desert",
    "ledger",
    "cotton",
    "glacier",
    "senate",
    "pigment",
    "furnace",
    "lantern",
    "meadow",
    "circuit",
]


def sentences(rng: np.random.Generator, n: int) -> list[str]:
    """Return sentences of about twenty words."""
    picked = rng.choice(WORDS, size=(n, 20))
    return [" ".join(row).capitalize() + "." for row in picked]


def entries(n_items: int, dim: int, seed: int) -> Iterator[Entry]:
    """Yield items around 200 topics, 15 nodes each."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(200, dim)).astype(np.float32)
    for number in range(n_items):
        uri = f"made-up/{number // PER_SOURCE}.txt"
        parts = sentences(rng, N_LEAVES)
        text = " ".join(parts)
        starts = np.cumsum([0, *(len(part) + 1 for part in parts)])
        spans = [(int(a), int(a) + len(part)) for a, part in zip(starts, parts, strict=False)]
        nodes = text_tree(len(text), [spans], (), 2)
        leaves = topics[number % 200] + rng.normal(size=(N_LEAVES, dim)).astype(np.float32)
        vectors = replace(
            pool(nodes, leaves, [26] * N_LEAVES, topics[number % 200], 4),
            tokens=rng.integers(1_000, 30_000, 26 * N_LEAVES).astype(np.uint16),
        )
        item = Item(
            id=item_id(uri, number % PER_SOURCE),
            modality="text",
            title=f"Made-up document {number // PER_SOURCE}",
            payload=TextPayload(text=text),
            nodes=nodes,
            source=Source(uri=uri, ordinal=number % PER_SOURCE),
        )
        whole = ItemVectors(item=node_matrix(nodes, vectors)[0], nodes=vectors)
        yield Entry(item=item, vectors=whole, source_sha256="0" * 64)


def build(folder: Path, encoder: Encoder, n_items: int) -> LanceStore:
    """Write the corpus, several commits as an indexing run makes them, and compact it."""
    store = LanceStore.create(folder, encoder.fingerprint)
    waiting: list[Entry] = []
    with store.writing():
        for entry in entries(n_items, encoder.fingerprint.dim, seed=11):
            waiting.append(entry)
            if len(waiting) == 500:
                store.replace({each.item.source.uri for each in waiting}, waiting)
                waiting = []
        if waiting:
            store.replace({each.item.source.uri for each in waiting}, waiting)
        store.compact()
    return store


class Stopwatch:
    """Collects the durations of stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def time(self, stage: str, call: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = call()
        self.seconds.setdefault(stage, []).append(time.perf_counter() - started)
        return result

    def medians_ms(self) -> dict[str, float]:
        return {name: 1000 * float(np.median(runs)) for name, runs in self.seconds.items()}


def measure(store: LanceStore, encoder: Encoder, n_queries: int, k: int) -> dict[str, float]:
    """Return the median of each stage in milliseconds, and of the whole."""
    rng = np.random.default_rng(5)
    queries = [
        "What does the " + " ".join(rng.choice(WORDS, size=9)) + "?" for _ in range(n_queries)
    ]
    settings = SelectConfig(budget=16_000)
    meter = Meter(count=encoder.count_tokens)

    def once(query: str, watch: Stopwatch) -> None:
        started = time.perf_counter()
        vectors = watch.time("embed the query", lambda: encoder.encode_queries([query]))
        found = watch.time("store", lambda: store.search(vectors.retrieval[0], k))
        explained = watch.time(
            "refine", lambda: explain(found, vectors.of(0), settings.over("set"))
        )
        watch.time(
            "evidence", lambda: add_round(Evidence(meter=meter), explained, query, settings).text
        )
        watch.seconds.setdefault("whole search", []).append(time.perf_counter() - started)
        watch.time("embedding alone", lambda: encoder.encode_queries([query]))

    for query in queries[:5]:
        once(query, Stopwatch())
    watch = Stopwatch()
    for query in queries:
        once(query, watch)
    return watch.medians_ms()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--index", type=Path, help="keep the corpus here, or use the one there")
    arguments = parser.parse_args()
    encoder = named_encoder("minilm")
    folder = arguments.index or Path(tempfile.mkdtemp()) / "index"
    try:
        if (folder / "index.json").exists():
            store = LanceStore.open(folder, fingerprint=encoder.fingerprint)
        else:
            store = build(folder, encoder, arguments.items)
        report(store, encoder, arguments)
    finally:
        if arguments.index is None:
            shutil.rmtree(folder.parent)


def report(store: LanceStore, encoder: Encoder, arguments: argparse.Namespace) -> None:
    """Measure, print, and write the result."""
    opened = time.perf_counter()
    fresh = LanceStore.open(str(store.path))
    fresh.search(encoder.encode_queries(["first"]).retrieval[0], arguments.k)
    first_ms = 1000 * (time.perf_counter() - opened)
    stages = measure(store, encoder, arguments.queries, arguments.k)
    embedding = stages["embedding alone"]
    result = {
        "what": "one search, medians in milliseconds, embedding timed in turns with the whole",
        "items": store.count()["total"],
        "nodes_per_item": 2 * N_LEAVES - 1,
        "k": arguments.k,
        "queries": arguments.queries,
        "encoder": encoder.fingerprint.model,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "ms": {name: round(value, 3) for name, value in stages.items()},
        "first_search_ms": round(first_ms, 1),
        "store_to_embedding": round(stages["store"] / embedding, 2),
        "search_to_embedding": round(stages["whole search"] / embedding, 2),
        "search_to_embedding_limit": LIMIT_SEARCH,
        "refine_share": round(stages["refine"] / stages["whole search"], 3),
        "refine_share_limit": LIMIT_REFINE,
    }
    for name, value in stages.items():
        print(f"{name:18} {value:7.2f} ms")
    print(f"whole search = {result['search_to_embedding']} x embedding (limit {LIMIT_SEARCH})")
    print(f"refinement = {result['refine_share']:.1%} of it (limit {LIMIT_REFINE:.0%})")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
