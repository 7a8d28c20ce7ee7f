"""DPR's 21 million passages on a cluster: a simulation from what an item costs on one core.

Workers parse, encode and pack batches; one process writes what comes back, in the order of arrival.
A worker whose parts pile up waits, a worker that is lost loses the batch it is at and is replaced
after a while, and some are slow for good. What an item costs on a core comes from
`benchmarks/results/ray.json`; the rate of a GPU is an assumption, to be replaced by yours
(`--gpu-rate`). Writes `benchmarks/results/cluster.json`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from samples import RESULTS, write

PASSAGES = 21_015_324
"""Of Wikipedia, a hundred words each (Karpukhin et al. 2020, https://arxiv.org/abs/2004.04906)."""
PARTS_AHEAD = 8
"""Parts that a worker holds before it waits, as in `indexing.on_ray`."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What is simulated. Seconds are those of one item."""

    workers: int
    make_s: float
    """Of a worker, for parsing, encoding and packing, whichever holds it up."""
    write_s: float
    """Of the process that writes."""
    items: int = PASSAGES
    part: int = 97
    """Items that come back together: 1,024 nodes."""
    lost_every_h: float = 24.0
    """Of each worker, on average."""
    replaced_s: float = 120.0
    slow: float = 0.05
    """Share of the workers that take twice as long."""
    seed: int = 7


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    hours: float = 0.0
    lost: int = 0
    """Workers."""
    again: int = 0
    """Items that were made twice."""
    writing: float = 0.0
    """Share of the time in which the process that writes was busy."""
    written: int = 0


class Simulation:
    """Plays a cluster until every item is written.

    Args:
        cluster: What is simulated.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._draw = random.Random(cluster.seed)
        n_slow = round(cluster.slow * cluster.workers)
        self._item_s = [
            cluster.make_s * (2 if number < n_slow else 1) for number in range(cluster.workers)
        ]
        self._dies = [self._life_s() for _ in self._item_s]
        self._held = [0] * cluster.workers
        self._blocked: set[int] = set()
        self._to_write: deque[tuple[int, int]] = deque()
        self._is_writing = False
        self._left = cluster.items
        self._now = self._busy_s = 0.0
        self._events: list[tuple[float, int, str, int, int]] = []
        self._n_events = 0
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Return what came of it."""
        happen = {
            "made": self._made,
            "written": self._written,
            "lost": self._lost,
            "replaced": self._replaced,
        }
        for worker in range(self._cluster.workers):
            self._begin(worker)
        while self._events:
            self._now, _, what, worker, items = heapq.heappop(self._events)
            happen[what](worker, items)
            self._write()
        self._outcome.hours = self._now / 3600
        self._outcome.writing = self._busy_s / self._now
        return self._outcome

    def _life_s(self) -> float:
        return self._draw.expovariate(1 / (3600 * self._cluster.lost_every_h))

    def _at(self, when: float, what: str, worker: int, items: int) -> None:
        self._n_events += 1
        heapq.heappush(self._events, (when, self._n_events, what, worker, items))

    def _begin(self, worker: int) -> None:
        """Let a worker make a part, or wait if it holds too many."""
        if self._held[worker] >= PARTS_AHEAD:
            self._blocked.add(worker)
        elif self._left:
            items = min(self._cluster.part, self._left)
            self._left -= items
            ends = self._now + items * self._item_s[worker]
            if self._dies[worker] < ends:
                self._at(max(self._now, self._dies[worker]), "lost", worker, items)
            else:
                self._at(ends, "made", worker, items)

    def _made(self, worker: int, items: int) -> None:
        self._held[worker] += 1
        self._to_write.append((worker, items))
        self._begin(worker)

    def _write(self) -> None:
        if self._to_write and not self._is_writing:
            worker, items = self._to_write.popleft()
            self._is_writing = True
            self._busy_s += items * self._cluster.write_s
            self._at(self._now + items * self._cluster.write_s, "written", worker, items)

    def _written(self, worker: int, items: int) -> None:
        self._is_writing = False
        self._held[worker] -= 1
        self._outcome.written += items
        if worker in self._blocked:
            self._blocked.discard(worker)
            self._begin(worker)

    def _lost(self, worker: int, items: int) -> None:
        self._outcome.lost += 1
        self._outcome.again += items
        self._left += items
        self._dies[worker] = self._now + self._cluster.replaced_s + self._life_s()
        self._at(self._now + self._cluster.replaced_s, "replaced", worker, 0)

    def _replaced(self, worker: int, _items: int) -> None:
        self._begin(worker)


def row(kind: str, units: int, cluster: Cluster, price: float) -> dict[str, Any]:
    """Return one line of the result; `price` is of a unit's hour."""
    outcome = Simulation(cluster).run()
    if outcome.written != cluster.items:
        raise SystemExit(f"{outcome.written} of {cluster.items} items were written")
    perfect_h = cluster.items * cluster.make_s / cluster.workers / 3600
    return {
        "kind": kind,
        "units": units,
        "workers": cluster.workers,
        "hours": round(outcome.hours, 2),
        "perfect_hours": round(perfect_h, 2),
        "items_per_s": round(cluster.items / outcome.hours / 3600),
        "writing": round(outcome.writing, 3),
        "lost_workers": outcome.lost,
        "items_again": outcome.again,
        "cost": round(outcome.hours * units * price, 2),
    }


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--items", type=int, default=PASSAGES)
    made.add_argument("--gpu-rate", type=float, default=4000.0, help="items/s that a GPU encodes")
    made.add_argument("--gpu-price", type=float, default=2.0, help="of a GPU-hour")
    made.add_argument("--core-price", type=float, default=0.05, help="of a core-hour")
    made.add_argument("--cores", type=int, nargs="*", default=[2, 16, 64, 256])
    made.add_argument("--gpus", type=int, nargs="*", default=[1, 4, 8, 16])
    arguments = made.parse_args()
    own = json.loads((RESULTS / "ray.json").read_text("utf-8"))
    cost = own["per_item"]
    core_s = (
        own["rows"]["local"]["cpu_of_this_process_ms_per_item"] / 1000 + cost["parse_ms"] / 1000
    )
    write_s = cost["write_ms"] / 1000
    # Packing is in the process of the encoder, so that several share a fast GPU.
    sharing = math.ceil(arguments.gpu_rate * cost["pack_ms"] / 1000)
    rows = [
        row(
            "core",
            n,
            Cluster(workers=n, make_s=core_s, write_s=write_s, items=arguments.items),
            arguments.core_price,
        )
        for n in arguments.cores
    ]
    for n in arguments.gpus:
        shared_s = sharing / arguments.gpu_rate
        cluster = Cluster(
            workers=n * sharing, make_s=shared_s, write_s=write_s, items=arguments.items
        )
        rows.append(row("GPU", n, cluster, arguments.gpu_price))
    result = {
        "what": "a simulation of indexing on a cluster, from costs per item measured on one core",
        "items": arguments.items,
        "core_items_per_s": round(1 / core_s, 1),
        "assumed_gpu_items_per_s": arguments.gpu_rate,
        "workers_per_gpu": sharing,
        "cores_per_gpu": math.ceil(
            arguments.gpu_rate * (cost["parse_ms"] + cost["pack_ms"]) / 1000
        ),
        "price": {"core-hour": arguments.core_price, "GPU-hour": arguments.gpu_price},
        "assumed": {
            "a worker is lost every (h)": Cluster.lost_every_h,
            "and replaced after (s)": Cluster.replaced_s,
            "workers that take twice as long": Cluster.slow,
        },
        "per_item": cost,
        "index_gb": round(arguments.items * own["index_bytes_per_item"] / 1e9, 1),
        "sent_gb": round(arguments.items * cost["sent_bytes"] / 1e9, 1),
        "rows": rows,
    }
    print(json.dumps(result, indent=1))
    write("cluster", result)


if __name__ == "__main__":
    main()
