"""The runner on 100,000 questions with a scripted model: memory, and two kills that lose nothing.

Each question goes through the real `canopy` (retrieval, refinement, critic, reader) over a pool of
a few passages, so that the time is the runner's and the loop's, not a model's. The process is
killed with SIGKILL at a third and at two thirds, and started again. Its memory is read at every
thousandth answer. Writes `benchmarks/results/runner.json`.

    python benchmarks/bench_runner.py [--n 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import samples

from canopy_rag.baselines.base import Parts
from canopy_rag.baselines.registry import build
from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.protocols import ChatRequest, Completion, Entry
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload
from canopy_rag.evaluation.folder import PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import read
from canopy_rag.evaluation.results import load
from canopy_rag.evaluation.runner import Runner, Running, Work
from canopy_rag.evaluation.summary import summarise
from canopy_rag.pipeline.critic import LLMCritic
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.testing.memory_store import MemoryStore

N_ITEMS = 12
EVERY = 1000
KILLS = (1 / 3, 2 / 3)
RESAMPLES = 200


class Scripted:
    """Says at once what it always says."""

    name = "scripted"
    context_tokens = 8192
    vision = False

    async def complete(self, request: ChatRequest) -> Completion:
        judging = request.schema_name == "critic"
        text = '{"sufficient": true, "follow_up": ""}' if judging else "Maker 3"
        return Completion(text=text, prompt_tokens=100, completion_tokens=5)

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        yield (await self.complete(request)).text

    async def count_tokens(self, text: str) -> int | None:
        return len(text) // 4

    async def media_tokens(self, width: int, height: int) -> int | None:
        return None

    async def aclose(self) -> None:
        pass


def passage(number: int) -> Item:
    sentences = (f"Maker {number} made thing {number}.", "It is big and red.", "It is very old.")
    spans, position = [], 0
    for sentence in sentences:
        spans.append((position, position + len(sentence)))
        position += len(sentence) + 1
    text = " ".join(sentences)
    uri = f"toy/{number}"
    return Item(
        id=f"thing {number}",
        modality="text",
        title=f"Thing {number}",
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=uri),
    )


def question(number: int) -> Question:
    thing = number % N_ITEMS
    return Question(
        id=f"q{number}",
        # Digits as words: the encoder remembers words, and there are to be few of them.
        text=f"Who made thing {thing}, asked at {' '.join(str(number))}?",
        answers=(f"Maker {thing}",),
        kind=f"kind {number % 5}",
        gold=(GoldSpan(item_id=f"thing {thing}", start=0, stop=10),),
    )


def work(n: int) -> Work:
    encoder = HashingEncoder()
    store = MemoryStore(encoder.fingerprint)
    items = [passage(number) for number in range(N_ITEMS)]
    vectors = encoder.encode_items(items)
    entries = [
        Entry(item=item, vectors=own, source_sha256="")
        for item, own in zip(items, vectors, strict=True)
    ]
    store.replace([item.source.uri for item in items], entries)
    llm = Scripted()
    loop = Loop(
        retriever=Retriever(encoder=encoder, store=store),
        reader=LLMReader(llm=llm, style="short"),
        critic=LLMCritic(llm=llm),
        retrieval=RetrievalConfig(k=3),
        selection=SelectConfig(select="paper", min_tokens=0),
    )
    return Work(
        benchmark="toy",
        metric="squad",
        questions=[question(number) for number in range(n)],
        method=build("canopy", Parts(loop=loop, llm=llm)),
    )


def rss_mb() -> float:
    status = Path("/proc/self/status").read_text("utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return round(int(found[1]) / 1024, 1) if found else 0.0


def worker(path: Path, n: int) -> None:
    """Run into a folder, and tell number and memory at every thousandth answer."""
    folder = RunFolder(path)
    about = {
        "group": "extra", "metric": "squad", "n_total": n, "n_kept": n, "n_questions": n,
        "title": "toy", "items": {"text": N_ITEMS}, "gold_items": {"text": N_ITEMS},
    }  # fmt: skip
    models = {"llm": "scripted", "encoder": {"name": "hashing"}}
    started = time.perf_counter()
    made = work(n)

    def tell(running: Running) -> None:
        if running.n % EVERY == 0 or running.n == n:
            seconds = round(time.perf_counter() - started, 2)
            line = {"n": running.n, "rss_mb": rss_mb(), "seconds": seconds}
            print(json.dumps(line), flush=True)

    with folder.held():
        folder.begin({"benchmarks": {"toy": about}, "models": models}, {"methods": ["canopy"]})
        print(json.dumps({"n": -1, "rss_mb": rss_mb(), "seconds": 0}), flush=True)
        asyncio.run(Runner(folder, tell=tell).run([made]))


def start(path: Path, n: int, until: int | None) -> list[dict[str, Any]]:
    """Let a worker run, and kill it when it has told so many answers; return what it told."""
    told: list[dict[str, Any]] = []
    command = [sys.executable, "-u", __file__, "--worker", str(path), "--n", str(n)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told.append(json.loads(line))
            if until is not None and told[-1]["n"] >= until:
                process.kill()
                break
    expected = 0 if until is None else -9
    if process.returncode != expected:
        sys.exit(f"the worker ended with {process.returncode}, expected {expected}")
    return told


def phase(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one start of the worker: memory at its first answers, at its last, and at most."""
    answers = [each for each in told if each["n"] > 0]
    return {
        "from": answers[0]["n"],
        "to": answers[-1]["n"],
        "seconds": answers[-1]["seconds"],
        "rss_mb_before": told[0]["rss_mb"],
        "rss_mb_first": answers[0]["rss_mb"],
        "rss_mb_middle": answers[len(answers) // 2]["rss_mb"],
        "rss_mb_last": answers[-1]["rss_mb"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    n = arguments.n
    if arguments.worker is not None:
        worker(arguments.worker, n)
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "run"
        phases = [phase(start(path, n, int(share * n))) for share in KILLS]
        phases.append(phase(start(path, n, None)))
        found = [record["question"] for record in read(path / PREDICTIONS)]
        size = (path / PREDICTIONS).stat().st_size
        started = time.perf_counter()
        summarise(load(RunFolder(path)), resamples=RESAMPLES)
        seconds = time.perf_counter() - started
    result = {
        "what": f"{n:,} synthetic questions through `canopy` with a scripted model, batches of "
        f"200; killed with SIGKILL at a third and at two thirds; memory (RSS) of each start",
        "n": n,
        "kills": len(KILLS),
        "lost": n - len(set(found)),
        "doubled": len(found) - len(set(found)),
        "starts": phases,
        "predictions_mb": round(size / 1e6, 1),
        "bytes_per_prediction": round(size / n),
        "metrics_s": round(seconds, 1),
        "metrics_resamples": RESAMPLES,
        **samples.machine(),
    }
    if result["lost"] or result["doubled"]:
        sys.exit(f"predictions were lost or doubled: {json.dumps(result)}")
    samples.write("runner", result)


if __name__ == "__main__":
    main()
