"""Questions through methods, in batches, so that a kill loses nothing and doubles nothing (P17).

A prediction is written when its question has ended, and never again. What a run holds in memory is
one batch, and one number for each question that was answered before.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from canopy_rag.baselines.base import Method
from canopy_rag.core.errors import CanopyError, DataError
from canopy_rag.core.questions import Question
from canopy_rag.datasets.base import Metric
from canopy_rag.evaluation.folder import BATCHES, FAILURES, PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import Journal
from canopy_rag.evaluation.latency import Batch, Timeline
from canopy_rag.evaluation.measure import prediction
from canopy_rag.evaluation.metrics import headline
from canopy_rag.evaluation.replies import RememberingLLM
from canopy_rag.pipeline.clock import watching

BATCH = 200
"""Questions of a batch. Paper: 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One method on one benchmark."""

    benchmark: str
    metric: Metric
    questions: Sequence[Question]
    method: Method


@dataclass(slots=True, kw_only=True)
class Running:
    """How far a piece of work is, for whoever watches: sums over the questions answered so far."""

    benchmark: str
    method: str
    total: int
    """Questions that it has."""
    figure: str
    """The score that is summed up: `f1` or `accuracy`."""
    n: int = 0
    score: float = 0.0
    tokens: int = 0
    llm_calls: int = 0
    failed: int = 0


Tell = Callable[[Running], None]
"""Hears of every question that has ended."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did."""

    n_done: int = 0
    """Questions answered by this process."""
    n_before: int = 0
    """Questions that had been answered before."""
    failures: list[str] = field(default_factory=list)
    """One line for each question that got no answer."""


class Runner:
    """Runs pieces of work one after the other into a folder that this process holds.

    Args:
        folder: Where to; what it has of these questions and methods is not done again.
        llm: What counts calls and cached replies; None: no chat model is asked.
        batch: Questions of a batch. All of a batch are at work at once; how many requests are in
            flight is for the chat model's client.
        tell: Hears of every question that has ended.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        llm: RememberingLLM | None = None,
        batch: int = BATCH,
        tell: Tell | None = None,
    ) -> None:
        self._folder = folder
        self._llm = llm
        self._batch = batch
        self._tell = tell or (lambda running: None)
        self._outcome = Outcome()

    async def run(self, works: Sequence[Work]) -> Outcome:
        """Answer what is not answered yet.

        A question that fails is noted in `failures.jsonl`, and the others go on; the next run asks
        it again. When all questions of a batch fail, the run ends with the first one's error: a
        server that is down would fail the others too.

        Raises:
            DataError: If a line of the predictions is damaged or stands there twice, or two
                questions of a benchmark have one id.
            CanopyError: If every question of a batch fails.
        """
        with (
            Journal(self._folder / PREDICTIONS) as predictions,
            Journal(self._folder / BATCHES) as batches,
            Journal(self._folder / FAILURES) as failures,
        ):
            done, progress = self._read(predictions, works)
            for journal in (batches, failures):
                for _ in journal.open():
                    pass
            for work, running in zip(works, progress, strict=True):
                for questions in _batches(work, done, self._batch):
                    taken = await self._run_batch(work, questions, running, predictions, failures)
                    batches.append(taken._asdict())
                    for journal in (predictions, batches):
                        journal.sync()
        return self._outcome

    def _read(
        self, predictions: Journal, works: Sequence[Work]
    ) -> tuple[set[bytes], list[Running]]:
        """Return the keys of what was answered before, and how far each piece of work is."""
        progress = [
            Running(
                benchmark=work.benchmark,
                method=work.method.name,
                total=len(work.questions),
                figure=headline(work.metric),
            )
            for work in works
        ]
        for work in works:
            if len({question.id for question in work.questions}) < len(work.questions):
                raise DataError(f"{work.benchmark}: two questions have one id")
        by_name = {(each.benchmark, each.method): each for each in progress}
        done: set[bytes] = set()
        for record in predictions.open():
            key = _key(record["benchmark"], record["method"], record["question"])
            if key in done:
                raise DataError(
                    f"{predictions.path}: question {record['question']!r} of "
                    f"{record['benchmark']!r} by {record['method']!r} stands there twice"
                )
            done.add(key)
            running = by_name.get((record["benchmark"], record["method"]))
            if running is not None:
                _count(running, record)
        for running in progress:
            self._outcome.n_before += running.n
            self._tell(running)
        return done, progress

    async def _run_batch(
        self,
        work: Work,
        questions: Sequence[Question],
        running: Running,
        predictions: Journal,
        failures: Journal,
    ) -> Batch:
        timeline = Timeline()
        n_cached = self._llm.n_cached if self._llm else 0
        n_before = running.n
        errors: list[CanopyError] = []

        async def one(question: Question) -> None:
            name = {"benchmark": work.benchmark, "method": work.method.name}
            try:
                answer = await work.method.answer(question)
            except CanopyError as error:
                reason = f"{type(error).__name__}: {error}"
                failures.append({**name, "question": question.id, "reason": reason})
                self._outcome.failures.append(
                    f"{work.benchmark}, {work.method.name}, {question.id}: {reason}"
                )
                running.failed += 1
                errors.append(error)
            else:
                record = prediction(answer, question, metric=work.metric, **name)
                predictions.append(record)
                _count(running, record)
                self._outcome.n_done += 1
            self._tell(running)

        started = time.perf_counter()
        with watching(timeline):
            async with asyncio.TaskGroup() as group:
                for question in questions:
                    group.create_task(one(question))
        if len(errors) == len(questions):
            errors[0].add_note(
                f"all {len(questions)} questions of a batch failed ({work.benchmark}, "
                f"{work.method.name}); what was answered before is kept: run it again to go on"
            )
            raise errors[0]
        return Batch(
            benchmark=work.benchmark,
            method=work.method.name,
            n=running.n - n_before,
            counted_s=timeline.counted_s,
            wall_s=time.perf_counter() - started,
            search_s=timeline.search_s,
            n_cached=(self._llm.n_cached if self._llm else 0) - n_cached,
        )


def _batches(work: Work, done: set[bytes], size: int) -> Iterator[list[Question]]:
    """Yield the questions that are to be asked, in order."""
    held: list[Question] = []
    for question in work.questions:
        if _key(work.benchmark, work.method.name, question.id) not in done:
            held.append(question)
            if len(held) == size:
                yield held
                held = []
    if held:
        yield held


def _key(benchmark: str, method: str, question_id: str) -> bytes:
    name = f"{benchmark}\0{method}\0{question_id}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(name, digest_size=12).digest()


def _count(running: Running, record: dict[str, object]) -> None:
    scores, evidence, usage = record["scores"], record["evidence"], record["usage"]
    assert isinstance(scores, dict)
    assert isinstance(evidence, dict)
    assert isinstance(usage, dict)
    running.n += 1
    running.score += scores[running.figure]
    running.tokens += evidence["tokens"]
    running.llm_calls += usage["llm_calls"]
