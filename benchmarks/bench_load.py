"""How many searches a second the server answers: 64 clients at once, all queries distinct.

The corpus is that of `bench_search`: 10,000 made-up items of 15 nodes. The server is `canopy serve`
in a process of its own, the embedded default encoder in it; the clients are this process. First the
saturation is measured, the best throughput of several numbers of clients, then 64 clients ask for a
minute. Both run on one machine and share its CPUs; `load_before` says what else was going on.

Targets: no error but 503 with Retry-After, and that only past the stated limit; at least 0.8 of the
saturation; a 95th percentile of at most 1.5 x 64 / throughput. Writes `results/load.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bench_search import WORDS, build

from canopy_rag.encoders.registry import encoder as named_encoder

RESULT = Path(__file__).parent / "results" / "load.json"
CLIENTS = 64
SATURATION_CLIENTS = (2, 4, 8, 16, 32, 64, 96)
LEAST_OF_SATURATION = 0.8
MOST_P95 = 1.5


@dataclass
class Run:
    """What one number of clients saw."""

    clients: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def to_dict(self) -> dict[str, Any]:
        values = np.array(self.latencies) * 1000
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        return {
            "clients": self.clients,
            "seconds": round(self.seconds, 1),
            "answers": len(values),
            "per_second": round(self.per_second, 1),
            "p50_ms": round(float(p50), 1),
            "p95_ms": round(float(p95), 1),
            "p99_ms": round(float(p99), 1),
            "max_ms": round(float(values.max()), 1),
            "statuses": dict(sorted(self.statuses.items())),
        }


def query(number: int) -> str:
    """Return a query of nine words that no other number gives."""
    words = random.Random(number).choices(WORDS, k=9)
    return f"What does the {' '.join(words)} do in {number}?"


class Connection:
    """One client's connection: little more than sockets, since it shares the server's CPUs."""

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def search(self, text: str) -> tuple[int, dict[str, str]]:
        """Ask, read all of the reply, and return its status and headers."""
        body = json.dumps({"query": text}).encode()
        head = (
            f"POST /v1/search HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        await self.reader.readexactly(int(headers["content-length"]))
        return int(status.split()[1]), headers

    def close(self) -> None:
        self.writer.close()


async def load(url: str, clients: int, seconds: float, first: int) -> Run:
    """Let so many clients ask one query after the other, each on a connection of its own."""
    run, numbers = Run(clients), iter(range(first, first + 10_000_000))
    connections = [Connection(url) for _ in range(clients)]
    await asyncio.gather(*(each.open() for each in connections))
    started = time.perf_counter()

    async def one(connection: Connection) -> None:
        while time.perf_counter() - started < seconds:
            text, begun = query(next(numbers)), time.perf_counter()
            try:
                status, headers = await connection.search(text)
            except (OSError, asyncio.IncompleteReadError) as error:
                run.statuses[type(error).__name__] += 1
                await connection.open()
                continue
            if status == 200:
                run.latencies.append(time.perf_counter() - begun)
            run.statuses[
                f"{status} with Retry-After" if "retry-after" in headers else str(status)
            ] += 1
            await asyncio.sleep(float(headers.get("retry-after", 0)))

    await asyncio.gather(*map(one, connections))
    run.seconds = time.perf_counter() - started
    for each in connections:
        each.close()
    return run


async def measure(url: str, seconds: float) -> dict[str, object]:
    """Measure the saturation, then the load."""
    await load(url, 4, min(2.0, seconds), 0)
    tried = []
    for position, clients in enumerate(SATURATION_CLIENTS, start=1):
        tried.append(await load(url, clients, seconds / 6, position * 10_000_000))
    saturation = max(each.per_second for each in tried)
    run = await load(url, CLIENTS, seconds, 1_000_000_000)
    p95_limit = MOST_P95 * CLIENTS / run.per_second * 1000
    told = run.to_dict()
    allowed = {"200", "503 with Retry-After"}
    return {
        "saturation_per_second": round(saturation, 1),
        "saturation_runs": [each.to_dict() for each in tried],
        "run": told,
        "of_saturation": round(run.per_second / saturation, 3),
        "of_saturation_limit": LEAST_OF_SATURATION,
        "p95_limit_ms": round(p95_limit, 1),
        "met": {
            "no other errors": set(run.statuses) <= allowed,
            "throughput": run.per_second >= LEAST_OF_SATURATION * saturation,
            "p95": told["p95_ms"] <= p95_limit,
        },
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--items", type=int, default=10_000)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--encoder", default="minilm")
    arguments.add_argument("--out", type=Path, default=RESULT)
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="canopy-load-"))
    command = [sys.executable, "-c", "from canopy_rag.cli import main; main()", "serve", "--json"]
    command += ["--quiet", "--port", "0", "--index", str(folder / "index")]
    try:
        build(folder / "index", named_encoder(given.encoder), given.items)
        load_before = os.getloadavg()[0]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                found = asyncio.run(measure(url, given.seconds))
            finally:
                server.terminate()
    finally:
        shutil.rmtree(folder)
    result = {
        "what": "POST /v1/search, all queries distinct, clients and server on one machine",
        "items": given.items,
        "encoder": given.encoder,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_before": round(load_before, 1),
        **found,
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
