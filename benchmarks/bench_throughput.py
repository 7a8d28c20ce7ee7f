"""What the loop adds to its calls: 200 questions, 32 calls in flight, each answered after 100 ms.

Encoder and store are made up, so that only the loop and the client are measured: each question has
three rounds, so two calls of the critic and one of the reader. Against it stands a bare loop over
the `openai` SDK that sends the same requests, recorded from the loop, each question's in order. The
server runs in another process. Both are timed in turns, so that other work on the machine falls on
both. Writes `benchmarks/results/throughput.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.protocols import Fingerprint, Found
from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Hit, Item, Modality, Source, TextPayload, item_id
from canopy_rag.core.vectors import ItemVectors, QueryVectors, node_matrix, pool
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.pipeline.critic import LLMCritic
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.retrieve import Retriever

N_QUESTIONS = 200
IN_FLIGHT = 32
DELAY_S = 0.1
CALLS = 3
REPEATS = 15
LIMIT = 1.15
"""Ours takes at most this many times as long as the bare loop."""
DIM = 16
N_LEAVES = 6
PER_ROUND = 150
"""Items of each round."""
RESULT = Path(__file__).parent / "results" / "throughput.json"
MODEL = "made-up"


class Server:
    """Answers chat completions after a fixed delay; anything else is not found but `/recorded`."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.in_flight = self.peak = 0

    async def serve(self) -> None:
        """Serve on a free port, printed first, until the process is ended."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 22)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                status, reply = await self._reply(head.split(" ", 2)[1], body.decode())
                content = json.dumps(reply).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _reply(self, path: str, body: str) -> tuple[str, Any]:
        if path.endswith("/recorded"):
            recorded, peak = self.bodies, self.peak
            self.bodies, self.peak = [], 0
            return "200 OK", {"bodies": recorded, "peak": peak}
        if not path.endswith("/chat/completions"):
            return "404 Not Found", {"error": {"message": "no such path"}}
        self.bodies.append(body)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        await asyncio.sleep(DELAY_S)
        self.in_flight -= 1
        text = "It was lit in 1863 [1]."
        if '"response_format"' in body:
            follow_up = f"follow-up {1 + body.count('follow-up 1')} to what is missing"
            text = json.dumps({"sufficient": False, "follow_up": follow_up})
        return "200 OK", {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 700, "completion_tokens": 12, "total_tokens": 712},
        }


class FakeEncoder:
    """Gives every round's queries vectors of their own, at no cost."""

    fingerprint = Fingerprint(model="fake", revision="0", mode="late", instruction="", dim=DIM)
    media: frozenset[Modality] = frozenset()
    languages = None

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries."""
        rows = np.stack([_vector(query) for query in queries])
        return QueryVectors(retrieval=rows, node=rows)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Not asked."""
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        """Count words."""
        return len(text.split())


def _vector(query: str) -> NDArray[np.float32]:
    number = 0 if query.startswith("Question") else int(query.split(" ")[1])
    rng = np.random.default_rng(zlib.crc32(query.encode()))
    vector = rng.normal(size=DIM).astype(np.float32)
    vector /= np.linalg.norm(vector)
    vector[0] = number  # read by the store: each round finds items of its own
    return vector


class FakeStore:
    """Finds other items in every round, at no cost."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self._found = [_found(number, rng) for number in range(CALLS * PER_ROUND)]

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        modalities: Sequence[Modality] | None = None,
        text: str | None = None,
    ) -> list[Found]:
        """Return `k` neighbours of a place that the query gives."""
        place = int(abs(float(query[1])) * 1e6) % (PER_ROUND - k)
        first = PER_ROUND * int(query[0]) + place
        return self._found[first : first + k]

    def get(self, item_ids: Sequence[str]) -> list[Item]:
        """Not asked."""
        raise NotImplementedError


def _found(number: int, rng: np.random.Generator) -> Found:
    parts = [
        f"Sentence {place} of item {number} tells of the lighthouse on Skerry and its keepers."
        for place in range(N_LEAVES)
    ]
    text = " ".join(parts)
    starts = np.cumsum([0, *(len(part) + 1 for part in parts)])
    spans = [(int(a), int(a) + len(part)) for a, part in zip(starts, parts, strict=False)]
    nodes = text_tree(len(text), [spans], (), 2)
    rows = rng.normal(size=(N_LEAVES, DIM)).astype(np.float32)
    vectors = pool(nodes, rows, [16] * N_LEAVES, rows[0], 4)
    uri = f"made-up/{number}.txt"
    item = Item(
        id=item_id(uri, 0),
        modality="text",
        title=f"Made-up {number}",
        payload=TextPayload(text=text),
        nodes=nodes,
        source=Source(uri=uri),
    )
    hit = Hit(
        item_id=item.id, corpus="main", similarity=float(node_matrix(nodes, vectors)[0, 0]), rank=1
    )
    return Found(hit=hit, item=item, nodes=vectors)


@contextmanager
def server() -> Iterator[str]:
    """Run the server in a process; yield its base URL."""
    command = [sys.executable, __file__, "--serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


def recorded(url: str) -> dict[str, Any]:
    """Return the requests since the last time, and the most in flight at once."""
    with urlopen(f"{url}/recorded") as reply:
        found: dict[str, Any] = json.load(reply)
    return found


async def ours(url: str) -> tuple[float, float]:
    """Return seconds and seconds of CPU for all questions by the loop."""
    llm = OpenAIChat(url, MODEL, max_in_flight=IN_FLIGHT)
    loop = Loop(
        retriever=Retriever(encoder=FakeEncoder(), store=FakeStore()),
        reader=LLMReader(llm=llm),
        critic=LLMCritic(llm=llm),
    )
    await loop.answer("Question warm: who kept the light?")  # connections, prompts, imports
    started, cpu = time.perf_counter(), time.process_time()
    answers = await asyncio.gather(
        *(loop.answer(f"Question {n}: who kept the light?") for n in range(N_QUESTIONS))
    )
    seconds = time.perf_counter() - started, time.process_time() - cpu
    await llm.aclose()
    if {answer.usage.llm_calls for answer in answers} != {CALLS}:
        raise AssertionError(
            "a question did not take two calls of the critic and one of the reader"
        )
    return seconds


async def bare(url: str, questions: Sequence[Sequence[dict[str, Any]]]) -> tuple[float, float]:
    """Return seconds and seconds of CPU for the same requests over the SDK."""
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def answer(calls: Sequence[dict[str, Any]]) -> None:
        for call in calls:
            async with gate:
                reply = await client.chat.completions.create(**call)
            assert reply.choices[0].message.content

    await answer(questions[0])
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(answer(each) for each in questions))
    seconds = time.perf_counter() - started, time.process_time() - cpu
    await client.close()
    return seconds


def by_question(bodies: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Return the recorded requests of each question, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        number = re.search(r"Question (\d+): who", body)
        if number is not None:
            found.setdefault(number[1], []).append(json.loads(body))
    if len(found) != N_QUESTIONS or {len(each) for each in found.values()} != {CALLS}:
        raise AssertionError("the recorded requests are not three for each question")
    return list(found.values())


def measure(url: str) -> dict[str, Any]:
    """Time both in turns."""
    asyncio.run(ours(url))
    questions = by_question(recorded(url)["bodies"])
    asyncio.run(bare(url, questions))
    recorded(url)
    runs: dict[str, list[tuple[float, float]]] = {"loop": [], "bare SDK": []}
    peaks: dict[str, int] = {}
    for repeat in range(REPEATS):
        for name in sorted(runs, reverse=bool(repeat % 2)):
            timed = ours(url) if name == "loop" else bare(url, questions)
            runs[name].append(asyncio.run(timed))
            peaks[name] = recorded(url)["peak"]
    size = statistics.mean(len(json.dumps(call)) for each in questions for call in each)
    rows = {
        name: {
            "median_s": round(statistics.median(wall for wall, _ in own), 3),
            "least_s": round(min(wall for wall, _ in own), 3),
            "most_s": round(max(wall for wall, _ in own), 3),
            "cpu_ms_per_call": round(
                1000 * statistics.median(cpu for _, cpu in own) / (N_QUESTIONS * CALLS), 2
            ),
            "peak_in_flight": peaks[name],
        }
        for name, own in runs.items()
    }
    return {"rows": rows, "request_bytes": round(size)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().serve:
        asyncio.run(Server().serve())
        return
    import openai

    with server() as url:
        measured = measure(url)
    rows = measured["rows"]
    ratio = rows["loop"]["median_s"] / rows["bare SDK"]["median_s"]
    result = {
        "what": "wall clock of 200 questions of three calls, loop against bare SDK, in turns",
        "questions": N_QUESTIONS,
        "calls_per_question": CALLS,
        "in_flight": IN_FLIGHT,
        "server_delay_s": DELAY_S,
        "least_possible_s": round(N_QUESTIONS * CALLS / IN_FLIGHT * DELAY_S, 3),
        "repeats": REPEATS,
        "openai": openai.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "nice": os.nice(0) if hasattr(os, "nice") else None,
        **measured,
        "ratio": round(ratio, 3),
        "ratio_limit": LIMIT,
    }
    for name, row in rows.items():
        print(f"{name:10} median {row['median_s']:.2f} s, {row['cpu_ms_per_call']} ms CPU per call")
    print(f"ratio {ratio:.2f} (limit {LIMIT})")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
