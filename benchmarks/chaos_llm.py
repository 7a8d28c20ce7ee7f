"""A chat server that does everything wrong, as router, classifier, critic and reader.

Questions go through `Canopy` as shipped, over a small real index, every second one streamed. Half
of the questions meet one fault that lasts: each request about them meets it, retries included. The
others meet a fault, or none, drawn for each request. The server is a bare socket: it also says what
is no HTTP.

Of each question is noted whether it ended in an answer or in a typed error, and how long it took.
Every call for a decision whose fault ruined it must be a `Fallback` of the answer: those that are
missing are counted. At the end nothing may be left: tasks, file descriptors, threads.

Targets: no crash, no question past the bound (the time that all its calls may take together, by the
time-outs set), no departure unrecorded, nothing left. Writes `results/chaos-llm.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import platform
import random
import re
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import canopy_rag as canopy
from canopy_rag.config import load
from canopy_rag.core.answer import Answer
from canopy_rag.core.errors import CanopyError
from canopy_rag.testing import corpus

RESULT = Path(__file__).parent / "results" / "chaos-llm.json"
TIMEOUT_S = 3.0
RETRIES = 1
IN_FLIGHT = 32
CALLS = 13
"""Most calls of a question: three rounds, routed (docs/threat-model.md)."""
PAUSE_S = 1.0
"""Longest pause before the second attempt: a first one of half a second, doubled at random."""
GIVEN_UP_S = 600.0
"""A question that takes longer counts as hung."""
GOOD = {
    "router": '{"modalities": ["text", "table"]}',
    "aggregate": '{"aggregate": false}',
    "critic": '{"sufficient": false, "follow_up": "What else is known of it?"}',
    "reader": "It was so, as the material says [1].",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the server was asked."""

    body: dict[str, Any]
    stage: str
    stream: bool
    draw: random.Random


class Wire:
    """Writes replies, right and wrong ones."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: str = "200 OK", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status}", *map(": ".join, named.items()), "Connection: close", "", ""]
        await self.raw("\r\n".join(lines).encode())

    async def whole(
        self, body: bytes, kind: str = "application/json", status: str = "200 OK", **more: str
    ) -> None:
        await self.head(status, content_type=kind, content_length=str(len(body)), **more)
        await self.raw(body)

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def reset(self) -> None:
        self._writer.transport.abort()


def completion(content: Any, **changes: Any) -> dict[str, Any]:
    """Return a chat completion; changes to its message."""
    message = {"role": "assistant", "content": content} | changes
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    payload = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


async def says(wire: Wire, request: Request, content: Any, **changes: Any) -> None:
    """Reply as a server that is right, with a text that may be wrong."""
    if not request.stream:
        await wire.whole(json.dumps(completion(content, **changes)).encode())
        return
    await wire.head(content_type="text/event-stream")
    await wire.raw(event({"content": content} | changes) + event({}, "stop") + b"data: [DONE]\n\n")


Fault = Callable[[Wire, Request], Awaitable[None]]
FAULTS: dict[str, Fault] = {}
RUINS: set[str] = set()
"""Faults that leave no reply of the schema, whatever is tried."""


def fault(*, ruins: bool) -> Callable[[Fault], Fault]:
    def enter(function: Fault) -> Fault:
        name = function.__name__.replace("_", " ")
        FAULTS[name] = function
        if ruins:
            RUINS.add(name)
        return function

    return enter


@fault(ruins=False)
async def late_but_right(wire: Wire, request: Request) -> None:
    await asyncio.sleep(TIMEOUT_S / 5)
    await says(wire, request, GOOD[request.stage])


@fault(ruins=True)
async def silence(wire: Wire, request: Request) -> None:
    await asyncio.sleep(3 * TIMEOUT_S)


@fault(ruins=True)
async def closed_at_once(wire: Wire, request: Request) -> None:
    return


@fault(ruins=True)
async def reset_at_once(wire: Wire, request: Request) -> None:
    wire.reset()


@fault(ruins=True)
async def dropped_in_mid_reply(wire: Wire, request: Request) -> None:
    if request.stream:
        await wire.head(content_type="text/event-stream")
        await wire.raw(event({"content": "It was"}))
    else:
        await wire.head(content_type="application/json", content_length="5000")
        await wire.raw(b'{"choices": [')


@fault(ruins=True)
async def no_http(wire: Wire, request: Request) -> None:
    await wire.raw(request.draw.randbytes(2000))


@fault(ruins=True)
async def garbage_for_json(wire: Wire, request: Request) -> None:
    await wire.whole(request.draw.randbytes(2000))


@fault(ruins=True)
async def garbage_events(wire: Wire, request: Request) -> None:
    await wire.head(content_type="text/event-stream")
    await wire.raw(b"data: " + request.draw.randbytes(500).replace(b"\n", b"") + b"\n\n")


@fault(ruins=True)
async def a_web_page(wire: Wire, request: Request) -> None:
    await wire.whole(b"<!doctype html><title>Sign in</title>" * 5000, "text/html")


@fault(ruins=False)
async def a_wrong_content_type(wire: Wire, request: Request) -> None:
    body = json.dumps(completion(GOOD[request.stage])).encode()
    await wire.whole(body, request.draw.choice(["text/plain", "image/png", "x", ""]))


@fault(ruins=True)
async def another_language(wire: Wire, request: Request) -> None:
    words = ["Das genügt nicht, bitte weitersuchen.", "證據不足。", "لا يكفي", "Недостаточно."]
    await says(wire, request, request.draw.choice(words))


@fault(ruins=True)
async def contradictory_json(wire: Wire, request: Request) -> None:
    texts = {
        "critic": '{"sufficient": true, "follow_up": ""} {"sufficient": false, "follow_up": "x"}',
        "aggregate": '{"aggregate": true} {"aggregate": false}',
        "router": '{"modalities": ["text"]} {"modalities": ["table"]}',
    }
    await says(wire, request, texts.get(request.stage, "Yes [1]. No [2]. Both [99]."))


@fault(ruins=True)
async def huge_json(wire: Wire, request: Request) -> None:
    await says(wire, request, '{"sufficient": false, "follow_up": "' + "why " * 500_000 + '"}')


@fault(ruins=True)
async def deep_json(wire: Wire, request: Request) -> None:
    await wire.whole(b'{"choices": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")


@fault(ruins=True)
async def prompt_echo(wire: Wire, request: Request) -> None:
    await says(wire, request, json.dumps(request.body["messages"]))


@fault(ruins=True)
async def empty_choices(wire: Wire, request: Request) -> None:
    await wire.whole(b'{"object": "chat.completion", "choices": []}')


@fault(ruins=True)
async def wrong_types(wire: Wire, request: Request) -> None:
    bodies = [
        b"[]",
        b"null",
        b'"choices"',
        b'{"choices": {"0": {}}}',
        b'{"choices": [7]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": [{"message": [], "delta": []}], "usage": []}',
        b'{"error": {"message": ["no"], "code": {}}}',
    ]
    await wire.whole(request.draw.choice(bodies))


@fault(ruins=True)
async def invalid_utf8(wire: Wire, request: Request) -> None:
    body = json.dumps(completion("@")).encode().replace(b"@", b"\xff\xfe\x00\xc3\x28")
    await wire.whole(body)


@fault(ruins=True)
async def half_a_surrogate_pair(wire: Wire, request: Request) -> None:
    text = '{"sufficient": false, "follow_up": "\ud83d what \udc00"}'
    await says(
        wire, request, "so it is \ud800 [1]" if request.stage == "reader" else f"\ud800{text}"
    )


@fault(ruins=False)
async def a_follow_up_of_half_a_pair(wire: Wire, request: Request) -> None:
    texts = {"critic": json.dumps({"sufficient": False, "follow_up": "what \ud800 of it"})}
    await says(wire, request, texts.get(request.stage, GOOD[request.stage]))


@fault(ruins=True)
async def uncalled_tools(wire: Wire, request: Request) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
    await says(wire, request, None, tool_calls=[call])


@fault(ruins=True)
async def thoughts_alone(wire: Wire, request: Request) -> None:
    await says(wire, request, "<think>" + "hm " * 1000)


@fault(ruins=False)
async def lies_about_usage(wire: Wire, request: Request) -> None:
    reply = completion(GOOD[request.stage])
    reply["usage"] = {"prompt_tokens": -5, "completion_tokens": "many", "total_tokens": 1e308}
    await wire.whole(json.dumps(reply).encode())


@fault(ruins=True)
async def too_many_requests(wire: Wire, request: Request) -> None:
    await wire.whole(b'{"error": {"message": "slow down"}}', status="429 Too Many Requests")


@fault(ruins=True)
async def too_many_for_an_hour(wire: Wire, request: Request) -> None:
    await wire.whole(b"{}", status="429 Too Many Requests", retry_after="3600")


@fault(ruins=True)
async def http_500(wire: Wire, request: Request) -> None:
    await wire.whole(b"Internal Server Error", "text/plain", "500 Internal Server Error")


@fault(ruins=True)
async def http_502(wire: Wire, request: Request) -> None:
    await wire.whole(b"<html>Bad Gateway</html>", "text/html", "502 Bad Gateway")


@fault(ruins=True)
async def an_error_of_status_200(wire: Wire, request: Request) -> None:
    await wire.whole(b'{"error": {"message": "out of memory", "code": 500}}')


@fault(ruins=True)
async def a_redirect_elsewhere(wire: Wire, request: Request) -> None:
    await wire.whole(b"", status="307 Temporary Redirect", location="http://192.0.2.1/v1/steal")


@fault(ruins=True)
async def wrong_chunks(wire: Wire, request: Request) -> None:
    await wire.head(content_type="application/json", transfer_encoding="chunked")
    await wire.raw(b"ffffffffffffffff\r\n{}\r\nzz\r\n")


@fault(ruins=True)
async def a_long_head(wire: Wire, request: Request) -> None:
    await wire.raw(b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 300_000 + b"\r\n\r\n{}")


@fault(ruins=True)
async def a_gzip_bomb(wire: Wire, request: Request) -> None:
    await wire.whole(_bomb(), content_encoding="gzip")


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 100_000_000, 9)


@fault(ruins=True)
async def drop_by_drop(wire: Wire, request: Request) -> None:
    """A reply whose every byte comes in time, and which takes hours."""
    if request.stream:
        await wire.head(content_type="text/event-stream")
        whole = event({"content": "It was so. " * 2000})
    else:
        whole = json.dumps(completion(GOOD[request.stage])).encode() * 2000
        await wire.head(content_type="application/json", content_length=str(len(whole)))
    for byte in whole:
        await wire.raw(bytes([byte]))
        await asyncio.sleep(TIMEOUT_S / 10)


@fault(ruins=True)
async def blank_lines_without_end(wire: Wire, request: Request) -> None:
    await wire.head(content_type="text/event-stream")
    while True:
        await wire.raw(b"\n")
        await asyncio.sleep(TIMEOUT_S / 10)


@fault(ruins=True)
async def a_stream_without_end(wire: Wire, request: Request) -> None:
    await wire.head(content_type="text/event-stream")
    while True:
        await wire.raw(event({"content": "and so on "}) * 100)
        await asyncio.sleep(0.02)


@fault(ruins=True)
async def a_body_without_end(wire: Wire, request: Request) -> None:
    await wire.head(content_type="application/json", transfer_encoding="chunked")
    await wire.chunk(b'{"choices": [{"message": {"content": "')
    while True:
        await wire.chunk(b"and so on " * 100_000)


class ChaosServer:
    """The server, in a thread and an event loop of its own.

    Args:
        seed: Of all draws.
        only: The faults that happen; None: all.
    """

    def __init__(self, seed: int = 0, only: list[str] | None = None) -> None:
        self._seed = seed
        self.names = sorted(only or FAULTS)
        self.seen: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """Question -> (stage, fault) of each request about it; the fault is empty for none."""
        _bomb()  # now, since it would hold up all others
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""

    def lasting(self, number: int) -> str | None:
        """Return the fault of a question that lasts; None for those that draw."""
        return None if number % 2 else self.names[number // 2 % len(self.names)]

    def __enter__(self) -> ChaosServer:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            found = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            content = await reader.readexactly(int(found[1]) if found else 0)
            if "/chat/completions" not in head.partition("\r\n")[0]:
                await wire.whole(b"{}", status="404 Not Found")
            else:
                await self._reply(wire, json.loads(content))
        writer.close()

    async def _reply(self, wire: Wire, body: dict[str, Any]) -> None:
        prompt = json.dumps(body["messages"])
        found = re.search(r"Of question (\d+)", prompt)
        number = int(found[1]) if found else -1  # a repair shows the reply alone
        schema = body.get("response_format", {}).get("json_schema", {})
        stage = schema.get("name", "reader")
        seen = self.seen[str(number)]
        draw = random.Random(f"{self._seed} {number} {len(seen)}")
        name = self.lasting(number)
        if name is None:
            name = draw.choice(self.names) if draw.random() < 0.5 else ""
        seen.append((stage, name))
        request = Request(body=body, stage=stage, stream=bool(body.get("stream")), draw=draw)
        if name:
            await FAULTS[name](wire, request)
        else:
            await says(wire, request, GOOD[stage])


@dataclass
class Outcomes:
    """How the questions ended."""

    ends: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By lasting fault, or `drawn`."""
    fallbacks: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Messages of typed errors, as far as they do not quote the server."""
    seconds: list[float] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)


async def one(rag: canopy.Canopy, server: ChaosServer, number: int, found: Outcomes) -> None:
    """Ask a question and note how it ended."""
    sample = corpus.questions()[number % len(corpus.questions())].question
    question = f"Of question {number}: {sample}"
    lasting = server.lasting(number)
    kind = lasting or "drawn"
    began = time.monotonic()
    try:
        async with asyncio.timeout(GIVEN_UP_S):
            answer = await _asked(rag, question, streamed=number % 4 > 1)
        json.dumps(answer.to_dict())
        found.ends[kind]["answered"] += 1
        _check(answer, lasting, server.seen[str(number)], found)
    except CanopyError as error:
        found.ends[kind]["typed error"] += 1
        said = re.sub(r"http://\S+", "URL", str(error))
        found.errors[re.sub(r"(answered [^:]*|[^:]*).*", r"\1", said, flags=re.DOTALL)[:90]] += 1
    except TimeoutError:
        found.ends[kind]["hung"] += 1
    except Exception as error:  # what the campaign looks for
        found.ends[kind]["crashed"] += 1
        found.crashes.append(f"{kind}: {error!r}"[:300])
    found.seconds.append(time.monotonic() - began)


async def _asked(rag: canopy.Canopy, question: str, *, streamed: bool) -> Answer:
    if not streamed:
        return await rag.aask(question)
    parts = [part async for part in rag.astream(question)]
    assert isinstance(parts[-1], Answer)
    return parts[-1]


def _check(
    answer: Answer, lasting: str | None, seen: list[tuple[str, str]], found: Outcomes
) -> None:
    """Compare the record with what happened."""
    noted = [note.stage for each in answer.rounds for note in each.fallbacks]
    found.fallbacks.update(noted)
    if lasting in RUINS:
        ruined = {stage for stage, _ in seen} - {"reader"} - set(noted)
        found.unrecorded += [f"{lasting}: {stage}" for stage in sorted(ruined)]


@asynccontextmanager
async def opened(folder: Path, url: str) -> AsyncIterator[canopy.Canopy]:
    """A question answerer with every decision made by the model, over the packaged corpus."""
    corpus.copy_to(folder / "files")
    settings = {
        "index.path": str(folder / "index"),
        "encoder.name": "hashing",
        "retrieval.route": "llm",
        "retrieval.critic": "llm",
        "llm.timeout_s": TIMEOUT_S,
        "llm.max_retries": RETRIES,
    }
    config = load(settings, {})
    index = canopy.Index.open(create=True, config=config)
    await asyncio.to_thread(index.add, folder / "files")
    rag = canopy.Canopy(index, llm=url, model="m", config=config)
    yield rag
    await rag.aclose()


async def campaign(n: int, server: ChaosServer, folder: Path) -> dict[str, Any]:
    """Ask `n` questions and return what was seen."""
    found = Outcomes()
    numbers = iter(range(1, n + 1))
    async with opened(folder, server.url) as rag:
        # Connections, threads and pools that stay are there before the count.
        await asyncio.gather(*(one(rag, server, 2 * each, Outcomes()) for each in range(8)))
        server.seen.clear()

        async def asking() -> None:
            for number in numbers:
                await one(rag, server, number, found)

        before = left()
        await asyncio.gather(*(asking() for _ in range(IN_FLIGHT)))
        after = await settled(before)
    return {
        "questions": n,
        "requests": sum(map(len, server.seen.values())),
        "faults": dict(
            Counter(name for seen in server.seen.values() for _, name in seen if name).most_common()
        ),
        "ends": {name: dict(own) for name, own in sorted(found.ends.items())},
        "answered": sum(own["answered"] for own in found.ends.values()),
        "typed_errors": sum(own["typed error"] for own in found.ends.values()),
        "errors": dict(found.errors.most_common()),
        "hung": sum(own["hung"] for own in found.ends.values()),
        "crashed": sum(own["crashed"] for own in found.ends.values()),
        "crashes": found.crashes[:20],
        "fallbacks": dict(found.fallbacks),
        "unrecorded": dict(Counter(found.unrecorded)),
        "longest_s": round(max(found.seconds), 1),
        "bound_s": CALLS * ((1 + RETRIES) * TIMEOUT_S + RETRIES * PAUSE_S),
        "before": before,
        "after": after,
    }


def left() -> dict[str, float]:
    """Return what could pile up."""
    status = Path("/proc/self/status").read_text()
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    assert rss is not None
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": threading.active_count(),
        "rss_mb": round(int(rss[1]) / 1024, 1),
    }


async def settled(before: dict[str, float]) -> dict[str, float]:
    """Return what is left, once what ends by itself has ended."""
    for _ in range(100):
        after = left()
        if all(after[name] <= before[name] for name in ("tasks", "descriptors")):
            break
        await asyncio.sleep(0.1)
    return after


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--questions", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", action="append", choices=sorted(FAULTS))
    arguments.add_argument("--out", type=Path, default=RESULT)
    given = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="canopy-chaos-") as folder,
        ChaosServer(given.seed, given.only) as server,
    ):
        found = asyncio.run(campaign(given.questions, server, Path(folder)))
    result = {
        "what": "questions through the whole loop, a chat server that misbehaves in every role",
        "timeout_s": TIMEOUT_S,
        "retries": RETRIES,
        "in_flight": IN_FLIGHT,
        "kinds_of_fault": len(FAULTS),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **found,
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
