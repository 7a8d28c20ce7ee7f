"""`canopy serve` under mixed load for twenty minutes: does anything pile up, does anything break?

The server is `canopy serve --allow-upload` in a process of its own, with the embedded encoder, over
the packaged corpus of four modalities. Its chat model is a server on loopback that follows a script
and now and then answers 500. The load is all that callers do, and what they should not: searches,
explanations, compression, answers whole and streamed, chat completions, clients that vanish in
mid-stream or in mid-head, uploads, MCP sessions and calls, items, pages and media, the explorer's
files, wrong keys, and bad requests of many kinds.

Every few seconds: resident memory, file descriptors, threads, tasks of the event loop. Memory's
slope is a least-squares line over all but the first quarter, told per minute and per request. At
the end the load stops, and what is still at work is counted.

Targets: no 5xx but 503 with Retry-After and the 502 of a chat model that was told to fail; after
the load no task and no place more than before it. Writes `results/soak.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from canopy_rag.testing import corpus
from canopy_rag.testing.chat_server import ChatServer, Received, Served, refuses, says, streams

RESULT = Path(__file__).parent / "results" / "soak.json"
KEY = "key-of-the-soak"
WORKERS = 6
TIMEOUT_S = 120.0
FAILS = 0.02
"""Share of the chat model's replies that are a 500."""
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "soak", "version": "1"},
    },
}


def scripted(received: Received) -> Served:
    """Answer as a chat model of few words; which words hangs on the prompt alone."""
    body = received.body
    prompt = json.dumps(body["messages"])
    draw = random.Random(f"{len(prompt)}{prompt[-200:]}{time.monotonic_ns()}")
    if draw.random() < FAILS:
        return refuses(500, "told to fail")
    name = body.get("response_format", {}).get("json_schema", {}).get("name")
    if name == "critic":
        enough = draw.random() < 0.6
        follow_up = "" if enough else f"What about the {draw.choice(WORDS)}?"
        return says(json.dumps({"sufficient": enough, "follow_up": follow_up}))
    if name == "aggregate":
        return says('{"aggregate": false}')
    if name == "router":
        return says('{"modalities": ["text", "table"]}')
    words = [f"{word} " for word in draw.choices(WORDS, k=60)]
    return streams(*words, "[1].") if body.get("stream") else says("".join(words) + "[1].")


WORDS = tuple(
    sorted({word for each in corpus.questions() for word in re.findall(r"\w{4,}", each.question)})
)


@dataclass
class Load:
    """Clients of one server."""

    url: str
    client: httpx.AsyncClient
    items: list[dict[str, Any]]
    seed: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unexpected: list[str] = field(default_factory=list)
    done: bool = False

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def question(self) -> str:
        return f"What of the {' '.join(self.draw.sample(WORDS, 3))}?"

    async def search(self) -> httpx.Response:
        return await self.client.post("/v1/search", json={"query": self.question()})

    async def explain(self) -> httpx.Response:
        return await self.client.post("/v1/explain", json={"query": self.question(), "texts": True})

    async def compress(self) -> httpx.Response:
        documents = [
            " ".join(f"{' '.join(self.draw.choices(WORDS, k=9))}." for _ in range(20))
            for _ in range(self.draw.randint(1, 6))
        ]
        body = {"query": self.question(), "documents": documents}
        return await self.client.post("/v1/compress", json=body)

    async def ask(self) -> httpx.Response:
        return await self.client.post("/v1/ask", json={"query": self.question()})

    async def ask_streamed(self) -> httpx.Response:
        body = {"query": self.question(), "stream": True, "progress": True}
        return await self.client.post("/v1/ask", json=body)

    async def chat(self) -> httpx.Response:
        return await self.client.post("/v1/chat/completions", json=self._chat())

    async def chat_streamed(self) -> httpx.Response:
        return await self.client.post("/v1/chat/completions", json=self._chat() | {"stream": True})

    def _chat(self) -> dict[str, Any]:
        message = {"role": "user", "content": self.question()}
        return {"model": "canopy", "messages": [message]}

    async def vanish(self) -> None:
        """Ask, read a little of the reply or nothing, and go."""
        path, body = self.draw.choice(
            [
                ("/v1/ask", {"query": self.question(), "stream": True}),
                ("/v1/ask", {"query": self.question()}),
                ("/v1/chat/completions", self._chat() | {"stream": True}),
                ("/v1/search", {"query": self.question()}),
            ]
        )
        await self._cut(path, json.dumps(body).encode(), self.draw.choice([0, 1, 300]))

    async def _cut(
        self, path: str, body: bytes, n_read: int, headers: str = "", part: float = 1.0
    ) -> None:
        host, port = self.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEY}\r\n{headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        request = head.encode() + body
        writer.write(request[: round(part * len(request))])
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await writer.drain()
            if n_read:
                await asyncio.wait_for(reader.readexactly(n_read), TIMEOUT_S)
        writer.transport.abort()

    async def cut_request(self) -> None:
        """Go in the middle of a request's head or body."""
        await self._cut("/v1/search", b'{"query": "pears"}' * 9, 0, part=self.draw.random())

    async def upload(self) -> httpx.Response:
        """Send a file; twenty names take turns, so that the index stays as large as it is."""
        text = "\n\n".join(f"The {' '.join(self.draw.choices(WORDS, k=8))}." for _ in range(30))
        number = self.draw.randrange(20)
        return await self.client.post(
            "/v1/uploads",
            params={"name": f"note {number}.md"},
            content=f"# Note {number}\n\n{text}\n".encode(),
            headers={"Content-Type": "application/octet-stream"},
        )

    async def uploads(self) -> httpx.Response:
        return await self.client.get("/v1/uploads")

    async def mcp(self) -> httpx.Response:
        """Open a session, call a tool or vanish in the call, and close it."""
        opened = await self.client.post("/mcp", json=HELLO, headers=MCP_HEADERS)
        session = opened.headers.get("mcp-session-id")
        if session is None:
            return opened
        headers = MCP_HEADERS | {"mcp-session-id": session}
        tool, name = self.draw.choice([("search_evidence", "query"), ("ask", "question")])
        params = {"name": tool, "arguments": {name: self.question()}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        try:
            if self.draw.random() < 0.3:
                told = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
                await self._cut("/mcp", json.dumps(call).encode(), self.draw.choice([0, 1]), told)
                return opened
            return await self.client.post("/mcp", json=call, headers=headers)
        finally:
            await self.client.delete("/mcp", headers=headers)

    async def item(self) -> httpx.Response:
        """An item, its picture or video, or a page of its PDF."""
        item = self.draw.choice(self.items)
        paths = [f"/v1/items/{item['id']}"]
        paths += [item["media"]] if item.get("media") else []
        paths += [page["image"] for page in item.get("pages", ())]
        return await self.client.get(self.draw.choice(paths))

    async def page(self) -> httpx.Response:
        name = self.draw.choice(["/", "/static/main.js", "/static/item.js", "/openapi.json"])
        return await self.client.get(name)

    async def meta(self) -> httpx.Response:
        return await self.client.get(self.draw.choice(["/health", "/metrics", "/v1/info"]))

    async def bad(self) -> httpx.Response:
        """What no caller should send."""
        post, get = self.client.post, self.client.get
        query = {"query": "x"}
        calls: list[Callable[[], Awaitable[httpx.Response]]] = [
            lambda: post("/v1/search", content=b"{", headers={"Content-Type": "application/json"}),
            lambda: post("/v1/search", json={"query": "x" * 30_000}),
            lambda: post("/v1/search", json=query | {"k": 10**9}),
            lambda: post("/v1/search", json=query | {"unknown": 1}),
            lambda: post("/v1/search", content=b"x", headers={"Content-Type": "text/plain"}),
            lambda: post("/v1/compress", json=query | {"documents": [{"path": "/etc/passwd"}]}),
            lambda: post("/v1/ask", json={"query": " "}),
            lambda: post("/v1/chat/completions", json={"model": "canopy", "messages": []}),
            lambda: post("/v1/uploads?name=x.exe", content=b"x", headers=_OCTETS),
            lambda: post("/mcp", content=b"[]", headers={"Content-Type": "application/json"}),
            lambda: get("/v1/items/none"),
            lambda: get("/v1/items/..%2f..%2fetc%2fpasswd/media"),
            lambda: get("/no/such/path"),
            lambda: get("/v1/models", headers={"Authorization": "Bearer the wrong one"}),
            lambda: get("/v1/models", headers={"Host": "evil.example"}),
            lambda: get("/v1/models", headers={"Origin": "http://evil.example"}),
            lambda: self.client.request("PATCH", "/v1/search", json=query),
        ]
        return await self.draw.choice(calls)()

    async def work(self) -> None:
        """Do one thing after the other until told to stop."""
        names, weights = zip(*MIX.items(), strict=True)
        while not self.done:
            (name,) = self.draw.choices(names, weights)
            try:
                reply = await getattr(self, name)()
                status = "cut by the client" if reply is None else self._status(name, reply)
            except httpx.HTTPError as error:
                status = type(error).__name__
                self.unexpected.append(f"{name}: {error!r}")
            self.statuses[name][status] += 1

    def _status(self, name: str, reply: httpx.Response) -> str:
        status = reply.status_code
        told = status == 503 and "retry-after" in reply.headers
        failing_llm = status == 502 and "told to fail" in reply.text
        if status >= 500 and not (told or failing_llm):
            self.unexpected.append(f"{name}: {status} {reply.text[:300]}")
        return f"{status} with Retry-After" if told else str(status)


_OCTETS = {"Content-Type": "application/octet-stream"}
MIX = {
    "search": 20, "explain": 4, "compress": 6, "ask": 8, "ask_streamed": 8, "chat": 4,
    "chat_streamed": 6, "vanish": 8, "cut_request": 4, "upload": 1, "uploads": 2, "mcp": 6,
    "item": 8, "page": 4, "meta": 3, "bad": 8,
}  # fmt: skip
"""How often each is done, in parts of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The server's process at one moment."""

    seconds: float
    requests: int
    rss_mb: float
    descriptors: int
    threads: int
    tasks: int
    at_work: int


async def sampled(load: Load, pid: int, started: float) -> Sample:
    """Look at the process, and ask it for its tasks."""
    status = Path(f"/proc/{pid}/status").read_text()
    metrics = (await load.client.get("/metrics")).text
    places = re.findall(r"^canopy_\w+_in_flight (\S+)$", metrics, re.MULTILINE)
    return Sample(
        seconds=time.monotonic() - started,
        requests=sum(map(Counter.total, load.statuses.values())),
        rss_mb=_number(r"VmRSS:\s+(\d+)", status) / 1024,
        descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        threads=int(_number(r"Threads:\s+(\d+)", status)),
        tasks=int(_number(r"^canopy_tasks (\S+)$", metrics)),
        at_work=int(sum(map(float, places))),
    )


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None, f"{pattern} is not in the text"
    return float(found[1])


async def settled(load: Load, pid: int, started: float, before: Sample) -> Sample:
    """Return the sample after the load, when all has ended, or after a minute."""
    await load.client.aclose()  # and with it the connections that were kept
    load.client = client_of(load.url)
    for _ in range(60):
        sample = await sampled(load, pid, started)
        if sample.at_work == 0 and sample.tasks <= before.tasks:
            break
        await asyncio.sleep(1.0)
    return sample


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=TIMEOUT_S,
        trust_env=False,
    )


async def run(
    url: str, pid: int, chat: ChatServer, minutes: float, every_s: float
) -> dict[str, Any]:
    """Load the server, watch it, and return what was seen."""
    load = Load(url, client_of(url), [])
    found = (await load.client.post("/v1/search", json={"query": "all", "k": 100})).json()
    for each in found["items"]:
        load.items.append((await load.client.get(f"/v1/items/{each['id']}")).json())
    started = time.monotonic()
    before = await sampled(load, pid, started)
    samples: list[Sample] = []
    workers = [asyncio.create_task(load.work()) for _ in range(WORKERS)]
    while time.monotonic() - started < 60 * minutes:
        await asyncio.sleep(every_s)
        samples.append(await sampled(load, pid, started))
        chat.received.clear()
    load.done = True
    await asyncio.gather(*workers)
    after = await settled(load, pid, started, before)
    await load.client.aclose()
    return report(load, before, samples, after)


def report(load: Load, before: Sample, samples: list[Sample], after: Sample) -> dict[str, Any]:
    """Return the result in the form that is written."""
    steady = [each for each in samples if each.seconds >= samples[-1].seconds / 4]
    minutes = [each.seconds / 60 for each in steady]
    rss = [each.rss_mb for each in steady]
    per_minute = float(np.polyfit(minutes, rss, 1)[0])
    per_request = float(np.polyfit([each.requests for each in steady], rss, 1)[0])
    last_half = [each.rss_mb for each in samples if each.seconds >= samples[-1].seconds / 2]

    def told(sample: Sample) -> dict[str, float]:
        return {
            "minutes": round(sample.seconds / 60, 2),
            "requests": sample.requests,
            "rss_mb": round(sample.rss_mb, 1),
            "descriptors": sample.descriptors,
            "threads": sample.threads,
            "tasks": sample.tasks,
            "at_work": sample.at_work,
        }

    n_samples = max(1, len(samples) // 20)
    return {
        "minutes": round(samples[-1].seconds / 60, 1),
        "requests": after.requests,
        "statuses": {name: dict(sorted(own.items())) for name, own in load.statuses.items()},
        "unexpected": load.unexpected[:20],
        "n_unexpected": len(load.unexpected),
        "rss_mb_per_minute": round(per_minute, 3),
        "rss_kb_per_request": round(1024 * per_request, 3),
        "rss_mb_spread_of_last_half": round(max(last_half) - min(last_half), 1),
        "most": {
            name: max(getattr(each, name) for each in samples)
            for name in ("descriptors", "threads", "tasks", "at_work")
        },
        "before": told(before),
        "after": told(after),
        "samples": [told(each) for each in samples[::n_samples]],
    }


@contextlib.contextmanager
def served(folder: Path, llm: str) -> Any:
    """Start `canopy serve` over the packaged corpus; yields its URL and process id."""
    canopy = [sys.executable, "-c", "from canopy_rag.cli import main; main()"]
    corpus.copy_to(folder / "files")
    place = ["--index", str(folder / "index")]
    plain = os.environ | {"CANOPY_INDEX_ISOLATE": "false"}  # these files are known
    index = [*canopy, "index", str(folder / "files"), *place, "--quiet"]
    subprocess.run(index, check=True, env=plain)
    (folder / "canopy.toml").write_text("[llm]\ntimeout_s = 10.0\n")
    command = [*canopy, "serve", *place, "--port", "0", "--llm", llm, "--model", "m"]
    command += ["--allow-upload", "--json", "--quiet"]
    environment = os.environ | {"CANOPY_SERVER_API_KEY": KEY}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=folder
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            process.terminate()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=20.0)
    arguments.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    arguments.add_argument("--out", type=Path, default=RESULT)
    given = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="canopy-soak-") as folder,
        ChatServer(then=scripted) as chat,
    ):
        with served(Path(folder), chat.url) as (url, pid):
            found = asyncio.run(run(url, pid, chat, given.minutes, given.every))
        lines = (Path(folder) / "log").read_text().splitlines()
    faults = [line for line in lines if re.search(r"Traceback|ERROR|Task .* never", line)]
    result = {
        "what": "canopy serve under mixed load, clients and server on one machine",
        "workers": WORKERS,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **found,
        "errors_in_log": len(faults),
        "first_errors_in_log": sorted({re.sub(r"^\S+ \S+ ", "", line)[:200] for line in faults})[
            :9
        ],
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({name: each for name, each in result.items() if name != "samples"}, indent=2))


if __name__ == "__main__":
    main()
