"""Search at 10,000 to 1,000,000 items of 12 nodes: latency, recall, memory, size; against others.

The corpus is made up from real vectors (`scale_corpus`). Each engine runs in a process of its own
and is asked one query at a time, in turns with all others and with the embedding of the same
question by the default encoder, so that other work on the machine falls on all of them. A search
includes reading its ten hits: trees, payloads and vectors of nodes for canopy-rag, as many bytes
from SQLite and a mapped file for libraries that hold vectors alone, payloads alone for the others.

`canopy` is the store by default; `canopy-disk` is its index on disk, which is searched until a
table is warm. `--peers` names a Python that has faiss-cpu, usearch, qdrant-client, pymilvus and
milvus-lite. Writes `benchmarks/results/scale.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import samples
import scale_corpus
from numpy.typing import NDArray
from scale_engine import K

from canopy_rag.core.protocols import Encoder
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.store import LanceStore
from canopy_rag.store.rows import arrow, schema

ENGINE = Path(__file__).parent / "scale_engine.py"
MOST = {"qdrant": 10_000, "milvus": 10_000, "faiss-hnsw": 100_000, "usearch": 100_000}
"""Items up to which an engine is asked: local Qdrant and Milvus Lite compare every vector."""
OWN = ("canopy", "canopy-disk")
PEERS = ("faiss-ivf", "faiss-hnsw", "usearch", "qdrant", "milvus")
COMMIT = 100_000
BLOCK = 50_000


def prepare(folder: Path, made_from: scale_corpus.Real, n_items: int) -> None:
    """Write vectors, queries and the true neighbours, unless they are there."""
    if (folder / "exact.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    dim = made_from.items.shape[1]
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (n_items, dim))
    begin = 0
    for part in scale_corpus.made_vectors(made_from.items, n_items):
        vectors[begin : begin + len(part)] = part
        begin += len(part)
    np.save(folder / "queries.npy", made_from.queries)
    np.save(folder / "exact.npy", exact(vectors, made_from.queries))


def exact(vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the places of each query's `K` nearest vectors."""
    best = np.zeros((len(queries), 0), np.float32)
    places = np.zeros((len(queries), 0), np.intp)
    for begin in range(0, len(vectors), BLOCK):
        values = queries @ vectors[begin : begin + BLOCK].T
        own = np.argpartition(-values, K - 1, axis=1)[:, :K]
        best = np.hstack([best, np.take_along_axis(values, own, axis=1)])
        places = np.hstack([places, own + begin])
        order = np.argsort(-best, axis=1)[:, :K]
        best = np.take_along_axis(best, order, axis=1)
        places = np.take_along_axis(places, order, axis=1)
    return places


def index(folder: Path, encoder: Encoder) -> dict[str, Any]:
    """Write the corpus into an index, unless it is there, and compact it."""
    took: dict[str, Any] = {}
    if not (folder / "index" / "index.json").exists():
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        store = LanceStore.create(folder / "index", encoder.fingerprint)
        started, cpu = time.perf_counter(), time.process_time()
        with store.writing():
            table, layout = store._catalog.add("main"), store._catalog.layout
            for first in range(0, len(vectors), COMMIT):
                parts = _chunks(vectors[first : first + COMMIT])
                rows = arrow().RecordBatchReader.from_batches(
                    schema(layout), scale_corpus.batches(parts, layout, first)
                )
                table.replace((), rows, known=False)
            took["write_s"] = round(time.perf_counter() - started, 1)
            store.compact()
        took["build_s"] = round(time.perf_counter() - started, 1)
        took["build_cpu_s"] = round(time.process_time() - cpu, 1)
    files = [path for path in (folder / "index").rglob("*") if path.is_file()]
    return {**took, "mb": round(sum(path.stat().st_size for path in files) / 1e6)}


def _chunks(vectors: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for begin in range(0, len(vectors), scale_corpus.CHUNK):
        yield np.asarray(vectors[begin : begin + scale_corpus.CHUNK])


class Served:
    """An engine in its own process."""

    def __init__(self, python: str, kind: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [python, str(ENGINE), "serve", kind, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seconds: list[float] = []
        self.found: list[list[int]] = []
        self.mb: dict[str, int] = {}
        self.ready_s = self._read()["ready_s"]

    def ask(self, number: int, *, count: bool) -> None:
        """Have one query answered."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        answer = self._read()
        if count:
            self.seconds.append(answer["s"])
            self.found.append(answer["places"])
            self.mb = answer["mb"]

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        read: dict[str, Any] = json.loads(self._process.stdout.readline())
        return read


def measure(
    engines: dict[str, Served], encoder: Encoder, questions: list[str], truth: NDArray[np.intp]
) -> dict[str, Any]:
    """Ask all engines all queries in turns; return their figures, and the embedding's."""
    for number in range(10):
        for engine in engines.values():
            engine.ask(number, count=False)
    embedding = []
    for number, question in enumerate(questions):
        started = time.perf_counter()
        encoder.encode_queries([question])
        embedding.append(time.perf_counter() - started)
        for engine in engines.values():
            engine.ask(number, count=True)
    scale = float(np.median(embedding))
    return {
        "embedding": _times(embedding),
        "engines": {
            name: {
                **_times(engine.seconds),
                "p50_to_embedding": round(float(np.median(engine.seconds)) / scale, 2),
                "p95_to_embedding": round(float(np.percentile(engine.seconds, 95)) / scale, 2),
                "recall": round(_recall(engine.found, truth), 4),
                "resident_mb": engine.mb,
                "ready_s": engine.ready_s,
            }
            for name, engine in engines.items()
        },
    }


def _times(seconds: list[float]) -> dict[str, float]:
    return {f"p{p}_ms": round(1000 * float(np.percentile(seconds, p)), 2) for p in (50, 95)}


def _recall(found: list[list[int]], truth: NDArray[np.intp]) -> float:
    wanted = truth[: len(found), :K].tolist()
    return float(np.mean([len({*a} & {*b}) / K for a, b in zip(found, wanted, strict=True)]))


def of_size(
    n_items: int, made_from: scale_corpus.Real, encoder: Encoder, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return all figures at one size."""
    folder = arguments.folder / str(n_items)
    prepare(folder, made_from, n_items)
    built: dict[str, dict[str, Any]] = {"canopy": index(folder, encoder)}
    asked = [peer for peer in arguments.engines if n_items <= MOST.get(peer, n_items)]
    for peer in asked if arguments.peers else []:
        command = [arguments.peers, str(ENGINE), "build", peer, str(folder)]
        line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        built[peer] = json.loads(line.splitlines()[-1])
        print(peer, built[peer], flush=True)
    engines = {name: Served(sys.executable, name, folder) for name in OWN}
    if arguments.peers:
        engines |= {name: Served(arguments.peers, name, folder) for name in asked}
    try:
        result = measure(engines, encoder, made_from.questions, np.load(folder / "exact.npy"))
    finally:
        for engine in engines.values():
            engine.close()
    for name, own in result["engines"].items():
        own.update(built.get(name, {}))
        print(n_items, name, own, flush=True)
    return {"items": n_items, **result}


def growth(sizes: list[dict[str, Any]], name: str) -> float | None:
    """Return the exponent of a power of the size between the first and the last size."""
    own = [size for size in sizes if name in size["engines"]]
    if len(own) < 2:
        return None
    first, last = own[0], own[-1]
    times = last["engines"][name]["p50_ms"] / first["engines"][name]["p50_ms"]
    return round(math.log(times) / math.log(last["items"] / first["items"]), 3)


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--peers", help="Python that has the other engines (default: none)")
    parser.add_argument("--engines", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--folder", type=Path, help="keep all files here, use those there")
    arguments = parser.parse_args()
    data = samples.require(arguments.data, *samples.BENCHMARKS)
    made_from = scale_corpus.real(data, arguments.queries)
    temporary = None
    if arguments.folder is None:
        arguments.folder = temporary = Path(tempfile.mkdtemp())
    try:
        encoder = named_encoder("minilm")
        sizes = [of_size(n, made_from, encoder, arguments) for n in arguments.sizes]
    finally:
        if temporary is not None:
            shutil.rmtree(temporary)
    report(sizes, made_from)


def report(sizes: list[dict[str, Any]], made_from: scale_corpus.Real) -> None:
    """Write the result."""
    half = made_from.items[: len(made_from.items) // 2]
    made = np.concatenate(list(scale_corpus.made_vectors(half, len(made_from.items))))
    names = list(dict.fromkeys(name for size in sizes for name in size["engines"]))
    samples.write(
        "scale",
        {
            "what": "one search with its ten hits' payloads and vectors of nodes, in turns",
            "nodes_per_item": 1 + len(scale_corpus.GROUPS) + sum(scale_corpus.GROUPS),
            "queries": len(made_from.questions),
            **samples.machine(),
            "hardness": {
                "real": scale_corpus.hardness(made_from.items, made_from.queries),
                "made_up_from_half": scale_corpus.hardness(made, made_from.queries),
            },
            "growth_exponent": {name: growth(sizes, name) for name in names},
            "sizes": sizes,
        },
    )


if __name__ == "__main__":
    main()
