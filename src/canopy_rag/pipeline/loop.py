"""The rounds of one question: retrieve, refine, and in the end read (P2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.answer import Answer, Round, RoundHit, Stop, Usage
from canopy_rag.core.evidence import Evidence, Meter
from canopy_rag.pipeline.compressor import Explained, add_round, explain
from canopy_rag.pipeline.reader import ExtractiveReader, LLMReader, Reading, meter_for
from canopy_rag.pipeline.retrieve import Retriever


@dataclass(slots=True)
class _Clock:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    def lap(self, stage: str, since: float) -> None:
        spent = time.perf_counter() - since
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Answers questions over a store.

    One round: without a critic nothing can ask for more (`stop` is `no_critic`).
    """

    retriever: Retriever
    reader: LLMReader | ExtractiveReader
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    selection: SelectConfig = field(default_factory=SelectConfig)
    meter: Meter = field(default_factory=Meter)
    """How tokens are counted where the reader cannot count them itself."""

    async def gather(self, question: str) -> _Gathered:
        """Run the rounds and return the evidence that the reader gets."""
        clock = _Clock()
        started = time.perf_counter()
        # Retrieval is arithmetic and file reading: off the event loop, so that others go on.
        explained = await asyncio.to_thread(self._search, question)
        clock.lap("retrieve", started)
        started = time.perf_counter()
        evidence = Evidence(meter=meter_for(self.reader, self.meter))
        settings = self.selection
        if isinstance(self.reader, LLMReader):
            budget = await self.reader.budget(question, settings.budget)
            settings = replace(settings, budget=budget)
        held = {entry.item.id for entry in evidence.entries}
        evidence = add_round(evidence, explained, question, settings)
        if isinstance(self.reader, LLMReader) and settings.budget is not None:
            evidence = await self.reader.fit(evidence, settings.budget, settings.cap)
        clock.lap("refine", started)
        first = _round(1, question, explained, held, evidence)
        return _Gathered(evidence, (first,), "no_critic", clock)

    async def answer(self, question: str) -> Answer:
        """Answer one question.

        Raises:
            EncodeError: If the question cannot be encoded.
            LLMError: If the reader does not answer.
        """
        gathered = await self.gather(question)
        started = time.perf_counter()
        if isinstance(self.reader, LLMReader):
            reading = await self.reader.read(question, gathered.evidence)
        else:
            reading = self.reader.read(question, gathered.evidence)
        gathered.clock.lap("read", started)
        return _answer(question, gathered, reading)

    async def stream(self, question: str) -> AsyncIterator[Evidence | str | Answer]:
        """Yield the evidence, then the pieces of the answer as they come, then the answer."""
        gathered = await self.gather(question)
        yield gathered.evidence
        started = time.perf_counter()
        if isinstance(self.reader, LLMReader):
            pieces: list[str] = []
            async for piece in self.reader.stream(question, gathered.evidence):
                pieces.append(piece)
                yield piece
            reading = self.reader.finish("".join(pieces), gathered.evidence)
        else:
            reading = self.reader.read(question, gathered.evidence)
            yield reading.text
        gathered.clock.lap("read", started)
        yield _answer(question, gathered, reading)

    def _search(self, query: str) -> list[Explained]:
        found, node_query = self.retriever.retrieve(query, self.retrieval.k)
        return explain(found, node_query, self.selection.select)


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The end of the rounds, before reading."""

    evidence: Evidence
    rounds: tuple[Round, ...]
    stop: Stop
    clock: _Clock


def _round(
    number: int, query: str, explained: list[Explained], held: set[str], evidence: Evidence
) -> Round:
    hits = tuple(
        RoundHit(
            item_id=each.found.item.id,
            rank=each.found.hit.rank,
            similarity=each.found.hit.similarity,
            held=each.found.item.id in held,
        )
        for each in explained
    )
    return Round(
        number=number,
        query=query,
        routed=(),
        hits=hits,
        n_new=sum(not hit.held for hit in hits),
        fallbacks=evidence.fallbacks,
    )


def _answer(question: str, gathered: _Gathered, reading: Reading) -> Answer:
    *earlier, last = gathered.rounds
    rounds = (*earlier, replace(last, fallbacks=last.fallbacks + reading.fallbacks))
    usage = Usage(
        llm_calls=reading.llm_calls,
        prompt_tokens=reading.prompt_tokens,
        completion_tokens=reading.completion_tokens,
        seconds=dict(gathered.clock.seconds),
    )
    return Answer(
        question=question,
        text=reading.text,
        citations=reading.citations,
        evidence=gathered.evidence,
        rounds=rounds,
        stop=gathered.stop,
        usage=usage,
    )
