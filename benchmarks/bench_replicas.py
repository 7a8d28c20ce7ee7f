"""Several chat servers behind one model: throughput against what they can do, share, errors.

Four servers, each with so many places and a latency, as a vLLM has; a request that finds all places
taken waits. `ideal` is the sum of what the servers can do together: places through latency, of a
server that is gone nothing, of one that flaps its share of the time. Clients keep 40 requests in
flight. Compared: canopy's choice (fewest in flight, a circuit breaker for each server, pauses that
servers ask for); the same with two drawn at random and the less busy one taken; and taking turns
(round robin). All three try again at another server.

Each is done twice. In virtual time, the code that chooses and retries is the one that ships, and
servers are coroutines: ten minutes each, which no other load on the machine touches. On loopback,
everything is the one that ships: replies count once the first are there, two latencies after the
start; there the clients' own CPU time, and all else that runs, is in the figures. Errors count from
the start. Writes `results/replicas.json`.
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
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import virtual_time

from canopy_rag.core.errors import LLMError
from canopy_rag.llms._errors import AttemptError
from canopy_rag.llms._replicas import Replica, Replicas
from canopy_rag.llms._retry import Retrying
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import ChatServer, Received, Served, refuses, says
from canopy_rag.testing.llm_contract import ask

RESULT = Path(__file__).parent / "results" / "replicas.json"
PLACES = 8
IN_FLIGHT = 40
TIMEOUT_S = 10.0
FLAP_S = 2.0
ROUND_TRIP_S = 0.005
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

    def fault(self, now: float) -> str | None:
        """Return what a request that has just come ends in: `down`, `hung`, a 429, or nothing."""
        if self.kind in ("limited", "busy"):
            self.let_through = [each for each in self.let_through if now - each < 1.0]
            if len(self.let_through) >= PER_SECOND:
                return "says when" if self.kind == "limited" else "does not"
            self.let_through.append(now)
        down = {
            "gone": True,
            "flapping": bool((now - self.began) // FLAP_S % 2),
            "failing": self.n_asked % 50 == 0,
        }
        return "down" if down.get(self.kind) else "hung" if self.kind == "hung" else None

    def __call__(self, received: Received) -> Served:
        """Reply on loopback."""
        with self.lock:
            self.n_asked += 1
            fault = self.fault(time.monotonic())
        if fault == "down":
            return refuses(500, "out of order")
        if fault == "hung":
            return Served(hangs=True)
        if fault is not None:
            return refuses(429, "slow down", **({"Retry_After": "1"} if "when" in fault else {}))
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


class Coroutines:
    """The same servers in virtual time: what a request to one of them ends in.

    Args:
        servers: How they are.
        replicas: In the same order.
    """

    def __init__(self, servers: list[Simulated], replicas: Replicas) -> None:
        self._of = dict(zip(replicas.all, servers, strict=True))
        self._places = {each: asyncio.Semaphore(PLACES) for each in replicas.all}

    async def __call__(self, replica: Replica) -> str:
        """Answer.

        Raises:
            AttemptError: As the client tells it.
        """
        server, now = self._of[replica], asyncio.get_running_loop().time()
        server.n_asked += 1
        await asyncio.sleep(ROUND_TRIP_S)
        fault = server.fault(now)
        if fault == "hung":
            await asyncio.sleep(TIMEOUT_S)
            raise AttemptError("silence", retryable=True, down=True)
        if fault is not None:
            wait = 1.0 if fault == "says when" else None
            status = 500 if fault == "down" else 429
            raise AttemptError(
                fault, status=status, retryable=True, retry_after_s=wait, down=status == 500
            )
        async with self._places[replica]:
            await asyncio.sleep(server.latency_s)
        server.n_replied += 1
        return "so it is"


async def simulated(servers: list[Simulated], policy: str, seconds: float) -> dict[str, Any]:
    """Return what comes of so many virtual seconds."""
    loop = asyncio.get_running_loop()
    random.seed(0)
    urls = [f"http://server{number}/v1" for number in range(len(servers))]
    replicas = POLICIES[policy](urls, clock=loop.time)
    retrying = Retrying(replicas=replicas, timeout_s=TIMEOUT_S, max_retries=3, backoff_s=0.5)
    answer = Coroutines(servers, replicas)

    async def call() -> None:
        replica, _ = await retrying(answer)
        replicas.give_back(replica, failed=False)

    for each in servers:
        each.began = loop.time()
    return await watched(servers, call, loop.time, seconds)


async def watched(
    servers: list[Simulated],
    call: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
    seconds: float,
) -> dict[str, Any]:
    """Keep the servers busy and return what came of it."""
    latencies: list[float] = []
    errors: Counter[str] = Counter()
    begun = clock() + 2 * min(each.latency_s for each in servers)

    async def client() -> None:
        while True:
            asked = clock()
            try:
                await call()
            except LLMError as error:
                errors[f"status {error.status}"] += 1
            else:
                if clock() >= begun:
                    latencies.append(clock() - asked)

    clients = [asyncio.create_task(client()) for _ in range(IN_FLIGHT)]
    await asyncio.sleep(begun + seconds - clock())
    took, n_asked = clock() - begun, sum(each.n_asked for each in servers)
    n_replied = [each.n_replied for each in servers]
    for each in clients:
        each.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    latencies.sort()
    per_second = len(latencies) / took
    return {
        "per_second": per_second,
        "of_ideal": per_second / sum(each.ideal for each in servers),
        "errors": errors.total(),
        "kinds_of_error": dict(errors),
        "asked_per_reply": n_asked / max(1, sum(n_replied)),
        "share": [each / max(1, sum(n_replied)) for each in n_replied],
        "p50_s": latencies[len(latencies) // 2],
        "p95_s": latencies[round(0.95 * (len(latencies) - 1))],
    }


async def measured(servers: list[Simulated], policy: str, seconds: float) -> dict[str, Any]:
    """Return what comes of so many seconds on loopback."""
    with ExitStack() as stack:
        listening = [stack.enter_context(ChatServer(then=each)) for each in servers]
        chat = OpenAIChat(
            [each.url for each in listening], "m", timeout_s=TIMEOUT_S, max_in_flight=IN_FLIGHT
        )
        replicas = POLICIES[policy]([each.url for each in listening])
        chat._replicas = replicas
        chat._retrying = replace(chat._retrying, replicas=replicas)

        async def call() -> None:
            await chat.complete(ask("How?"))

        found = await watched(servers, call, time.monotonic, seconds)
        await chat.aclose()
        for each in listening:
            each.release()
    return found


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
    arguments.add_argument("--virtual", type=float, default=600.0, help="virtual seconds")
    arguments.add_argument("--repeats", type=int, default=2)
    arguments.add_argument("--unit", type=float, default=1.0, help="latency of the fast servers")
    arguments.add_argument("--only", choices=sorted(scenarios(1.0)))
    arguments.add_argument("--out", type=Path, default=RESULT)
    given = arguments.parse_args()
    asyncio.run(warmed())
    names = [given.only] if given.only else list(scenarios(given.unit))
    in_theory: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, policy in product(names, POLICIES):
        work = simulated(scenarios(given.unit)[name], policy, given.virtual)
        in_theory.setdefault(name, {})[policy] = middle([virtual_time.run(work)])
        print("virtual", name, policy, json.dumps(in_theory[name][policy]), flush=True)
    for _, name, policy in product(range(given.repeats), names, POLICIES):
        run = asyncio.run(measured(scenarios(given.unit)[name], policy, given.seconds))
        runs.setdefault(name, {}).setdefault(policy, []).append(run)
        print("loopback", name, policy, json.dumps(run), flush=True)
    result = {
        "what": "chat completions over four servers, closed loop",
        "in_flight": IN_FLIGHT,
        "places": PLACES,
        "unit_s": given.unit,
        "seconds": given.seconds,
        "repeats": given.repeats,
        "timeout_s": TIMEOUT_S,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "virtual_seconds": given.virtual,
        "virtual": in_theory,
        "loopback": {
            name: {policy: middle(own) for policy, own in policies.items()}
            for name, policies in runs.items()
        },
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
