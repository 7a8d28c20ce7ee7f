"""Indexing on Ray with two workers of this machine, beside the local engine.

Documents of the Natural Questions sample, written as Markdown files. The same folder is indexed in
turns by the local engine with one and with two parsers, by Ray with two workers, and by Ray while
one of the workers is killed. A cluster is started once; each run starts its own workers, which load
the model. What the process that writes spends per item bounds how many workers it can serve. Writes
`benchmarks/results/ray.json`.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import documents
import numpy as np
import ray
from samples import machine, parser, require, write

from canopy_rag.api import Index
from canopy_rag.config import Config
from canopy_rag.core.coding import dense
from canopy_rag.core.protocols import Entry
from canopy_rag.indexing.on_ray import RaySettings, connected
from canopy_rag.pipeline.files import FileParser
from canopy_rag.store import LanceStore
from canopy_rag.testing.hashing import HashingEncoder

LOCAL, BESIDE = "local", "local --workers 2"
RAY, KILLED = "ray --workers 2", "ray --workers 2, one killed"


class Run:
    """One indexing run from nothing, and what it took."""

    def __init__(self, folder: Path, target: Path, engine: str, workers: int, kill: bool) -> None:
        shutil.rmtree(target, ignore_errors=True)
        self._kill, self._n_workers = kill, workers
        self._began, used = time.perf_counter(), time.process_time()
        self.first_s = 0.0
        self.index = Index.open(target, create=True, config=Config())
        report = self.index.add(folder, engine=engine, workers=workers, on_progress=self._hear)
        self.seconds = time.perf_counter() - self._began
        self.cpu_s = time.process_time() - used
        if report.failed:
            raise SystemExit(f"not indexed: {report.failed}")
        if self._kill:
            raise SystemExit("the run was over before a worker could be killed; take more files")
        self.items = report.items

    def _hear(self, done: int, total: int, current: str, items: int) -> None:
        if current and not self.first_s:
            self.first_s = time.perf_counter() - self._began
        if self._kill and done > total // 4:
            self._kill = False
            pid = next(iter(worker_pids()), None)
            if pid is None:
                raise SystemExit("no worker found")
            os.kill(pid, signal.SIGKILL)


def worker_pids() -> list[int]:
    """Return the workers at work in the cluster that this process started; Linux only."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            title = (each / "cmdline").read_bytes()
            if (
                title.startswith(b"ray::RayWorker")
                and _parent(_parent(int(each.name))) == os.getpid()
            ):
                found.append(int(each.name))
        except OSError:
            continue  # it has ended meanwhile
    return sorted(found)


def _parent(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("PPid")).split()[1])


def most_apart(one: Index, other: Index) -> float:
    """Return the largest difference between entries of node vectors of the same items."""
    ids = [item_id for item_id in item_ids(one)]
    ours, theirs = one.store.vectors(ids), other.store.vectors(ids)
    if set(ours) != set(theirs):
        raise SystemExit("the engines made other items")
    pairs = ((dense(ours[key][1].rows), dense(theirs[key][1].rows)) for key in ours)
    return max(float(np.abs(mine - its).max()) for mine, its in pairs)


def item_ids(index: Index) -> list[str]:
    """Return the ids of all items."""
    query = index.encoder.encode_queries(["all"]).retrieval[0]
    return [found.item.id for found in index.store.search(query, index.info()["items"]["total"])]


def costs(folder: Path, target: Path) -> dict[str, float]:
    """Return what an item takes of one core beside its encoding, and its bytes on the way.

    Vectors are made up: what is measured depends on their size alone.
    """
    read, encoder = FileParser(Config().ingest), HashingEncoder(dim=384)
    store = LanceStore.create(target, encoder.fingerprint)
    used = time.process_time()
    files = [
        list(read(path, path.name, lambda _uri, _note: None)) for path in sorted(folder.iterdir())
    ]
    parse_s = time.process_time() - used
    entries = [
        [
            Entry(item=item, vectors=vectors, source_sha256="")
            for item, vectors in zip(items, encoder.encode_items(items), strict=True)
        ]
        for items in files
    ]
    used = time.process_time()
    sent = pickle.dumps([packed for own in entries for packed in store.packer(own)])
    pack_s = time.process_time() - used
    store.replace({entries[0][0].uri}, entries[0])  # loads the engine
    used = time.process_time()
    received = pickle.loads(sent)
    n_items = store.replace({packed.uri for packed in received}, received)
    write_s = time.process_time() - used
    return {
        "parse_ms": round(1000 * parse_s / n_items, 3),
        "pack_ms": round(1000 * pack_s / n_items, 3),
        "write_ms": round(1000 * write_s / n_items, 3),
        "sent_bytes": round(len(sent) / n_items),
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--files", type=int, default=600)
    made.add_argument("--repeats", type=int, default=3)
    arguments = made.parse_args()
    texts = documents.texts(documents.natural_questions(require(arguments.data, "nq")))
    began = time.perf_counter()
    connected(RaySettings(workers=2))
    start_s = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        documents.write(folder, dict(list(texts.items())[: arguments.files]))
        make = partial(Run, folder)
        ways: dict[str, Callable[[], Run]] = {
            LOCAL: partial(make, Path(name) / "local", "local", 1, kill=False),
            BESIDE: partial(make, Path(name) / "beside", "local", 2, kill=False),
            RAY: partial(make, Path(name) / "ray", "ray", 2, kill=False),
            KILLED: partial(make, Path(name) / "killed", "ray", 2, kill=True),
        }
        runs: dict[str, list[Run]] = {way: [] for way in ways}
        names = list(ways)
        for number in range(arguments.repeats):
            first = number % len(names)
            for way in names[first:] + names[:first]:
                runs[way].append(ways[way]())
                print(f"  {way}: {runs[way][-1].seconds:.1f} s", flush=True)
        result = {
            "what": "indexing on Ray with two local workers, beside the local engine, in turns",
            **machine(),
            "ray": ray.__version__,
            "files": arguments.files,
            "repeats": arguments.repeats,
            "cluster_start_s": round(start_s, 1),
            **measured(runs),
            "per_item": costs(folder, Path(name) / "made-up"),
        }
    ray.shutdown()
    print(json.dumps(result, indent=1))
    write("ray", result)


def measured(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Return what the runs say."""
    n_items = runs[LOCAL][0].items
    info = {way: own[-1].index.info() for way, own in runs.items()}
    median = {way: statistics.median(run.seconds for run in own) for way, own in runs.items()}
    first = {way: statistics.median(run.first_s for run in own) for way, own in runs.items()}
    cpu = {way: statistics.median(run.cpu_s for run in own) for way, own in runs.items()}
    return {
        "items": n_items,
        "nodes": info[LOCAL]["nodes"],
        "rows": {
            way: {
                "items_per_s": round(n_items / median[way], 1),
                "rate_to_local": round(median[LOCAL] / median[way], 3),
                "first_file_s": round(first[way], 2),
                "cpu_of_this_process_ms_per_item": round(1000 * cpu[way] / n_items, 3),
                "same_digest": info[way]["digest"] == info[LOCAL]["digest"],
                "vectors_most_apart": round(
                    most_apart(runs[LOCAL][-1].index, runs[way][-1].index), 6
                ),
            }
            for way in runs
        },
        "kill_costs_s": round(median[KILLED] - median[RAY], 2),
        "index_bytes_per_item": round(info[RAY]["bytes"] / n_items),
    }


if __name__ == "__main__":
    main()
