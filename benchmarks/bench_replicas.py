"""Several chat servers behind one model: throughput against what they can do, share, errors.

Four servers on loopback, each with so many places and a latency, as a vLLM has; a request that
finds all places taken waits. `ideal` is the sum of what the servers can do together: places through
latency, of a server that is gone nothing, of one that flaps its share of the time. Clients keep 40
requests in flight. Replies count once the first are there, two latencies after the start; errors
count from the start.

Compared, in turns, in one run: canopy's choice (fewest in flight, a circuit breaker for each
server, pauses that servers ask for); the same with two drawn at random and the less busy one taken;
and taking turns (round robin). All three try again at another server. Writes
`results/replicas.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import LLMError
from canopy_rag.llms._replicas import Replica, Replicas
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import ChatServer, Received, Served, refuses, says
from canopy_rag.testing.llm_contract import ask

RESULT = Path(__file__).parent / "results" / "replicas.json"
PLACES = 8
IN_FLIGHT = 40
TIMEOUT_S = 10.0
FLAP_S = 2.0
PER_SECOND = 2
"""What the server with a rate limit lets through."""


@dataclass
class Simulated:
    """A server that is as fast and as well as it is told to be.

    Args:
        latency_s: Of each request, once it has a place.
        kind: `well`, `failing` (one request in 50 is a 500), `gone` (500 at once), `hung` (no
            reply), `flapping` (by turns well and 500), `limited` (429 with Retry-After beyond two a
            second) or `busy` (429 without it).
    """

    latency_s: float
    kind: str = "well"
    n_replied: int = 0
    n_asked: int = 0
    places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(PLACES))
    began: float = field(default_factory=time.monotonic)
    let_through: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ideal(self) -> float:
        """Return how many requests a second it can do."""
        whole = PLACES / self.latency_s
        share = {"well": 1.0, "failing": 1.0, "flapping": 0.5}.get(self.kind, 0.0)
        return min(whole, PER_SECOND) if self.kind in ("limited", "busy") else share * whole

    def __call__(self, received: Received) -> Served:
        """Reply."""
        now = time.monotonic()
        with self.lock:
            self.n_asked += 1
            if self.kind in ("limited", "busy"):
                self.let_through = [each for each in self.let_through if now - each < 1.0]
                if len(self.let_through) >= PER_SECOND:
                    told = {"Retry_After": "1"} if self.kind == "limited" else {}
                    return refuses(429, "slow down", **told)
                self.let_through.append(now)
        if self.kind == "gone" or (self.kind == "flapping" and (now - self.began) // FLAP_S % 2):
            return refuses(500, "out of order")
        if self.kind == "failing" and self.n_asked % 50 == 0:
            return refuses(500, "out of order")
        if self.kind == "hung":
            return Served(hangs=True)
        with self.places:
            time.sleep(self.latency_s)
        with self.lock:
            self.n_replied += 1
        return says("so it is")


class Turns(Replicas):
    """Takes turns, whoever is busy or broken."""

    def _best(self, tried: Sequence[Replica]) -> Replica:
        return min(self.all, key=lambda each: (tried.count(each), each.last_used))


class TwoDrawn(Replicas):
    """The better one of two drawn at random."""

    def _best(self, tried: Sequence[Replica]) -> Replica:
        everything = self.all
        self.all = random.sample(everything, 2)
        try:
            return super()._best(tried)
        finally:
            self.all = everything


POLICIES: dict[str, type[Replicas]] = {
    "canopy": Replicas,
    "two drawn": TwoDrawn,
    "round robin": Turns,
}


def scenarios(unit: float) -> dict[str, list[Simulated]]:
    """Return fresh servers of each scenario; `unit` is the latency of the fast ones."""

    def beside(kind: str) -> list[Simulated]:
        return [*(Simulated(unit) for _ in range(3)), Simulated(unit, kind)]

    return {
        "latencies 1, 1, 2, 4": [Simulated(unit * each) for each in (1, 1, 2, 4)],
        "one 4 times slower": [*(Simulated(unit) for _ in range(3)), Simulated(unit * 4)],
        "each fails once in 50": [Simulated(unit, "failing") for _ in range(4)],
        "one gone": beside("gone"),
        "one hung": beside("hung"),
        "one flapping": beside("flapping"),
        "one rate-limited, says when": beside("limited"),
        "one rate-limited, does not": beside("busy"),
        "three gone": [Simulated(unit), *(Simulated(unit, "gone") for _ in range(3))],
    }


async def measured(servers: list[Simulated], policy: str, seconds: float) -> dict[str, Any]:
    """Keep the servers busy and return what came of it."""
    with ExitStack() as stack:
        listening = [stack.enter_context(ChatServer(then=each)) for each in servers]
        chat = OpenAIChat(
            [each.url for each in listening], "m", timeout_s=TIMEOUT_S, max_in_flight=IN_FLIGHT
        )
        replicas = POLICIES[policy]([each.url for each in listening])
        chat._replicas = replicas
        chat._retrying = replace(chat._retrying, replicas=replicas)
        latencies: list[float] = []
        errors: Counter[str] = Counter()
        begun = time.monotonic() + 2 * min(each.latency_s for each in servers)

        async def client() -> None:
            while True:
                asked = time.monotonic()
                try:
                    await chat.complete(ask("How?"))
                except LLMError as error:
                    errors[f"status {error.status}"] += 1
                else:
                    if time.monotonic() >= begun:
                        latencies.append(time.monotonic() - asked)

        clients = [asyncio.create_task(client()) for _ in range(IN_FLIGHT)]
        await asyncio.sleep(begun + seconds - time.monotonic())
        n_asked = sum(each.n_asked for each in servers)
        n_replied = [each.n_replied for each in servers]
        took = time.monotonic() - begun
        for each in clients:
            each.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await chat.aclose()
        for each in listening:
            each.release()
    n_all = max(1, sum(n_replied))
    ideal = sum(each.ideal for each in servers)
    latencies.sort()
    return {
        "per_second": len(latencies) / took,
        "of_ideal": len(latencies) / took / ideal,
        "errors": sum(errors.values()),
        "kinds_of_error": dict(errors),
        "asked_per_reply": n_asked / n_all,
        "share": [each / n_all for each in n_replied],
        "p50_s": latencies[len(latencies) // 2],
        "p95_s": latencies[round(0.95 * (len(latencies) - 1))],
    }


async def warmed() -> None:
    """Ask once: packages are loaded at first use."""
    with ChatServer(says("so it is")) as server:
        chat = OpenAIChat(server.url, "m")
        await chat.complete(ask("How?"))
        await chat.aclose()


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of the repeats; errors are summed."""
    names = ("per_second", "of_ideal", "asked_per_reply", "p50_s", "p95_s")
    kinds = sum((Counter(each["kinds_of_error"]) for each in runs), Counter[str]())
    return {
        **{name: round(statistics.median(each[name] for each in runs), 3) for name in names},
        "share": [
            round(statistics.median(own), 3)
            for own in zip(*(e["share"] for e in runs), strict=True)
        ],
        "errors": kinds.total(),
        "kinds_of_error": dict(kinds),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=12.0)
    arguments.add_argument("--repeats", type=int, default=2)
    arguments.add_argument("--unit", type=float, default=1.0, help="latency of the fast servers")
    arguments.add_argument("--only", choices=sorted(scenarios(1.0)))
    arguments.add_argument("--out", type=Path, default=RESULT)
    given = arguments.parse_args()
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    asyncio.run(warmed())
    for _ in range(given.repeats):
        for name in [given.only] if given.only else scenarios(given.unit):
            for policy in POLICIES:
                servers = scenarios(given.unit)[name]
                run = asyncio.run(measured(servers, policy, given.seconds))
                runs.setdefault(name, {}).setdefault(policy, []).append(run)
                print(name, policy, json.dumps(run), flush=True)
    result = {
        "what": "chat completions over four servers on loopback, closed loop",
        "in_flight": IN_FLIGHT,
        "places": PLACES,
        "unit_s": given.unit,
        "seconds": given.seconds,
        "repeats": given.repeats,
        "timeout_s": TIMEOUT_S,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "scenarios": {
            name: {policy: middle(own) for policy, own in policies.items()}
            for name, policies in runs.items()
        },
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
