"""One engine of `bench_scale.py` in a process of its own: builds its index, then answers queries.

`python scale_engine.py build ENGINE FOLDER` writes the index and prints what it took.
`python scale_engine.py serve ENGINE FOLDER` reads the numbers of queries from its input and answers
each with a line of JSON: seconds, places of the ten hits, resident MB. Every engine returns the ten
items with their payloads and vectors of nodes. A library that holds vectors alone gets them beside
it from SQLite (payloads) and a mapped file (vectors of nodes), the fastest way that we know.

It imports nothing of canopy-rag unless its engine is `canopy`, so that it runs in an environment
with the other engines alone.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

K = 10
NODE_BYTES = 9 * (192 + 12)
"""Of an item's nine rows in 4 bits with their scales: what canopy-rag reads for them."""
PAYLOAD_BYTES = 1_800
"""Of an item's text, tree and source: what canopy-rag reads for them, as JSON."""
CHUNK = 50_000
Search = Callable[[np.ndarray], list[int]]


class Side:
    """Payloads and vectors of nodes for a library that holds item vectors alone."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "side.sqlite")
        self._rows = np.load(folder / "side.npy", mmap_mode="r")

    def fetch(self, places: list[int]) -> int:
        """Read payloads and rows; return how many bytes that were."""
        marks = ",".join("?" * len(places))
        found = self._database.execute(
            f"SELECT id, payload FROM items WHERE id IN ({marks})", places
        ).fetchall()
        payloads = {place: json.loads(payload) for place, payload in found}
        return sum(len(payloads[place]["text"]) + self._rows[place].nbytes for place in places)

    @staticmethod
    def build(folder: Path, n_items: int) -> None:
        """Write both files, once for all libraries."""
        if (folder / "side.npy").exists():
            return
        text = json.dumps({"text": "x" * PAYLOAD_BYTES})
        with sqlite3.connect(folder / "side.sqlite") as database:
            database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, payload TEXT)")
            database.executemany(
                "INSERT INTO items VALUES (?, ?)", ((n, text) for n in range(n_items))
            )
        rows = np.lib.format.open_memmap(folder / "part.npy", "w+", np.uint8, (n_items, NODE_BYTES))
        for begin in range(0, n_items, CHUNK):
            rows[begin : begin + CHUNK] = 7
        rows.flush()
        (folder / "part.npy").rename(folder / "side.npy")


def chunks(folder: Path) -> Iterator[np.ndarray]:
    """Yield the item vectors."""
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    for begin in range(0, len(vectors), CHUNK):
        yield np.ascontiguousarray(vectors[begin : begin + CHUNK])


def build_faiss(folder: Path, kind: str) -> None:
    import faiss

    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    metric = faiss.METRIC_INNER_PRODUCT
    n_lists = max(1, round(2 * len(vectors) ** 0.5))
    what = {"faiss-ivf": f"IVF{n_lists},SQ8", "faiss-hnsw": "HNSW16,SQ8"}[kind]
    index = faiss.index_factory(vectors.shape[1], what, metric)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(vectors), min(len(vectors), 40 * n_lists), replace=False))
    index.train(np.ascontiguousarray(vectors[chosen]))
    for part in chunks(folder):
        index.add(part)
    faiss.write_index(index, str(folder / f"{kind}.faiss"))


def open_faiss(folder: Path, kind: str) -> Search:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.read_index(str(folder / f"{kind}.faiss"))
    if kind == "faiss-ivf":
        # As many items as canopy-rag's partitions look at.
        index.nprobe = max(1, round(32_000 / index.ntotal * index.nlist))
    else:
        index.hnsw.efSearch = 128
    return lambda query: index.search(query[None], K)[1][0].tolist()


def build_usearch(folder: Path, kind: str) -> None:
    from usearch.index import Index

    index = Index(ndim=384, metric="ip", dtype="f16")
    first = 0
    for part in chunks(folder):
        index.add(np.arange(first, first + len(part)), part)
        first += len(part)
    index.save(str(folder / f"{kind}.usearch"))


def open_usearch(folder: Path, kind: str) -> Search:
    from usearch.index import Index

    index = Index.restore(str(folder / f"{kind}.usearch"), view=True)
    index.expansion_search = 128
    return lambda query: index.search(query, K).keys.tolist()


def build_qdrant(folder: Path, kind: str) -> None:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / f"{kind}.qdrant"))
    client.create_collection(
        "items", vectors_config=models.VectorParams(size=384, distance=models.Distance.DOT)
    )
    first = 0
    for part in chunks(folder):
        payload = [{"text": "x" * PAYLOAD_BYTES}] * len(part)
        ids = list(range(first, first + len(part)))
        client.upload_collection("items", vectors=part, ids=ids, payload=payload)
        first += len(part)
    client.close()


def open_qdrant(folder: Path, kind: str) -> Search:
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(folder / f"{kind}.qdrant"))

    def search(query: np.ndarray) -> list[int]:
        found = client.query_points("items", query=query.tolist(), limit=K, with_payload=True)
        return [int(point.id) for point in found.points]

    return search


def build_milvus(folder: Path, kind: str) -> None:
    from pymilvus import MilvusClient

    client = MilvusClient(str(folder / f"{kind}.db"))
    client.create_collection("items", dimension=384, metric_type="IP")
    first = 0
    for part in chunks(folder):
        for begin in range(0, len(part), 2_000):
            own = part[begin : begin + 2_000]
            rows = [
                {"id": first + n, "vector": row, "text": "x" * PAYLOAD_BYTES}
                for n, row in enumerate(own.tolist())
            ]
            client.insert("items", rows)
            first += len(own)
    client.close()


def open_milvus(folder: Path, kind: str) -> Search:
    from pymilvus import MilvusClient

    client = MilvusClient(str(folder / f"{kind}.db"))
    client.load_collection("items")

    def search(query: np.ndarray) -> list[int]:
        (found,) = client.search("items", [query.tolist()], limit=K, output_fields=["text"])
        return [int(hit["id"]) for hit in found]

    return search


def open_canopy(folder: Path, kind: str) -> Search:
    """Return the store's own search; places of items are told by their sources."""
    from canopy_rag.store import LanceStore, MemoryLimits

    limits = MemoryLimits(exact_bytes=0, partitioned_bytes=0) if kind == "canopy-disk" else None
    store = LanceStore.open(folder / "index", limits=limits)
    queries = np.load(folder / "queries.npy")

    def search(query: np.ndarray) -> list[int]:
        found = store.search(query, K)
        sources = [each.item.source for each in found]
        return [int(s.uri[8:-4].lstrip("/")) * K + s.ordinal for s in sources]

    for query in queries[:12]:
        search(query)
    for table in store._catalog.tables().values():
        table.settle()
    return search


BUILD: dict[str, Callable[[Path, str], None]] = {
    "faiss-ivf": build_faiss,
    "faiss-hnsw": build_faiss,
    "usearch": build_usearch,
    "qdrant": build_qdrant,
    "milvus": build_milvus,
}
OPEN: dict[str, Callable[[Path, str], Search]] = {
    "canopy": open_canopy,
    "canopy-disk": open_canopy,
    "faiss-ivf": open_faiss,
    "faiss-hnsw": open_faiss,
    "usearch": open_usearch,
    "qdrant": open_qdrant,
    "milvus": open_milvus,
}
VECTORS_ALONE = ("faiss-ivf", "faiss-hnsw", "usearch")


def resident_mb() -> dict[str, int]:
    """Return resident memory now and at most, and what of it is no mapped file; Linux alone."""
    status = Path("/proc/self/status").read_text("utf-8")
    sizes = {line.split(":")[0]: line.split() for line in status.splitlines() if "kB" in line}
    names = {"now": "VmRSS", "own": "RssAnon", "most": "VmHWM"}
    return {name: int(sizes[field][1]) // 1024 for name, field in names.items()}


def say(what: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def build(kind: str, folder: Path) -> None:
    """Build and say what it took."""
    for old in folder.glob(f"{kind}.*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    if kind in VECTORS_ALONE:
        Side.build(folder, len(np.load(folder / "vectors.npy", mmap_mode="r")))
    wall, cpu = time.perf_counter(), time.process_time()
    BUILD[kind](folder, kind)
    size = sum(
        path.stat().st_size
        for top in folder.glob(f"{kind}.*")
        for path in ([top] if top.is_file() else top.rglob("*"))
        if path.is_file()
    )
    say(
        {
            "build_s": round(time.perf_counter() - wall, 1),
            "build_cpu_s": round(time.process_time() - cpu, 1),
            "mb": round(size / 1e6),
        }
    )


def serve(kind: str, folder: Path) -> None:
    """Answer queries until the input ends."""
    started = time.perf_counter()
    queries = np.load(folder / "queries.npy")
    search = OPEN[kind](folder, kind)
    side = Side(folder) if kind in VECTORS_ALONE else None
    say({"ready_s": round(time.perf_counter() - started, 1)})
    for line in sys.stdin:
        query = queries[int(line)]
        begin = time.perf_counter()
        places = search(query)
        if side is not None:
            side.fetch(places)
        say({"s": time.perf_counter() - begin, "places": places, "mb": resident_mb()})


if __name__ == "__main__":
    {"build": build, "serve": serve}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
