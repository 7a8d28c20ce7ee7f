"""The rounds of one question: retrieve, refine, judge, and in the end read (P2, P5-P8).

Round 1 searches with the question, a later one with the critic's follow-up query, and each is
refined against its own query. Questions wait for nobody: there is no barrier between rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.answer import Answer, Round, RoundHit, Stop, Usage, Verdict
from canopy_rag.core.budget import fit
from canopy_rag.core.evidence import Evidence, Fallback, Meter
from canopy_rag.core.protocols import LLM, Completion
from canopy_rag.core.replies import NONE
from canopy_rag.pipeline.aggregate import is_aggregate
from canopy_rag.pipeline.clock import Clock
from canopy_rag.pipeline.compressor import Explained, Selector, add_round, explain
from canopy_rag.pipeline.critic import Critic
from canopy_rag.pipeline.reader import ExtractiveReader, LLMReader, Reading, meter_for
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.pipeline.route import ModalityRouter, Routing
from canopy_rag.pipeline.structured import Calls, total_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Answers questions over a store. It holds no state of a question: any number may run."""

    retriever: Retriever
    reader: LLMReader | ExtractiveReader
    critic: Critic | None = None
    """Judges the evidence between rounds; None: one round."""
    router: ModalityRouter | None = None
    """Chooses the modalities of every query; None: as `retrieval.route` says without a model."""
    classifier: LLM | None = None
    """Tells aggregate questions, whose tables are passed whole (P6); None: none are."""
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    selection: SelectConfig = field(default_factory=SelectConfig)
    selector: Selector | None = None
    """Chooses regions in another way than `selection.select` says, to compare with; None: as it
    says."""
    meter: Meter = field(default_factory=Meter)
    """How tokens are counted where the reader cannot count them itself."""

    async def gather(
        self,
        question: str,
        on_round: Callable[[Round], None] | None = None,
        *,
        query: str | None = None,
    ) -> Gathered:
        """Run the rounds and return what the reader is to get.

        A deadline (`retrieval.deadline_s`) ends the rounds; what was found by then is read.

        Args:
            question: The question.
            on_round: Hears of each round when its evidence was found, and again when it was judged.
            query: What round 1 searches with; None: the question.

        Raises:
            EncodeError: If a query cannot be encoded.
            LLMError: If the reader's server cannot be reached to count tokens.
        """
        gathered = Gathered(
            evidence=Evidence(meter=meter_for(self.reader, self.meter)), on_round=on_round
        )
        try:
            async with asyncio.timeout(self.retrieval.deadline_s):
                await self._rounds(question, question if query is None else query, gathered)
        except TimeoutError:
            gathered.stop = "deadline"
        return gathered

    async def answer(self, question: str, *, query: str | None = None) -> Answer:
        """Answer one question.

        Args:
            question: The question.
            query: What round 1 searches with; None: the question.

        Raises:
            EncodeError: If a query cannot be encoded.
            LLMError: If the reader does not answer.
        """
        gathered = await self.gather(question, query=query)
        return await self.finish(question, gathered)

    async def finish(self, question: str, gathered: Gathered) -> Answer:
        """Read what the rounds have gathered and return the answer.

        Raises:
            LLMError: If the reader does not answer.
        """
        with gathered.clock.stage("read"):
            if isinstance(self.reader, LLMReader):
                reading = await self.reader.read(question, gathered.evidence)
            else:
                reading = self.reader.read(question, gathered.evidence)
        return gathered.answered(question, reading)

    async def stream(
        self, question: str, *, on_round: Callable[[Round], None] | None = None
    ) -> AsyncGenerator[Evidence | str | Answer, None]:
        """Yield the evidence, then the pieces of the answer as they come, then the answer."""
        gathered = await self.gather(question, on_round=on_round)
        yield gathered.evidence
        with gathered.clock.stage("read"):
            if isinstance(self.reader, LLMReader):
                replies: list[Completion] = []
                async for piece in self.reader.stream(question, gathered.evidence, replies.append):
                    yield piece
                reading = self.reader.finish(replies[-1], gathered.evidence)
            else:
                reading = self.reader.read(question, gathered.evidence)
                yield reading.text
        yield gathered.answered(question, reading)

    async def _rounds(self, question: str, query: str, gathered: Gathered) -> None:
        settings = self.selection
        if isinstance(self.reader, LLMReader):
            budget = await self.reader.budget(question, settings.budget)
            settings = replace(settings, budget=budget)
        queries = [query]
        while True:
            number = len(queries)
            before = gathered.evidence
            await self._round(question, queries[-1], number, settings, gathered)
            if number > 1 and gathered.evidence.entries == before.entries:
                gathered.stop = "nothing_new"
            elif number >= self.retrieval.rounds:
                gathered.stop = "last_round"
            elif self.critic is None:
                gathered.stop = "no_critic"
            else:
                with gathered.clock.stage("critic"):
                    judged = await self.critic.judge(question, gathered.evidence, queries)
                gathered.count(judged, verdict=judged.verdict)
                if judged.stop is None and judged.verdict and judged.verdict.follow_up:
                    queries.append(judged.verdict.follow_up)
                    continue
                gathered.stop = judged.stop or "repeated_query"
            return

    async def _round(
        self, question: str, query: str, number: int, settings: SelectConfig, gathered: Gathered
    ) -> None:
        clock, before = gathered.clock, gathered.evidence
        routing = Routing()
        if self.router is not None:
            with clock.stage("route"):
                routing = await self.router.route(query)
        explained = await self.timed_search(query, routing, clock)
        gathered.start(number, query, routing, explained)
        tables = {e.found.item.id for e in explained if e.found.item.modality == "table"}
        if tables and self.classifier is not None and gathered.aggregate is None:
            with clock.stage("classify"):
                classified = await is_aggregate(self.classifier, question)
            gathered.aggregate = bool(classified.value)
            gathered.count(classified)
        with clock.stage("refine"):
            whole = tables if gathered.aggregate else set()
            fresh = replace(before, meter=meter_for(self.reader, self.meter), fallbacks=())
            evidence = add_round(fresh, explained, query, settings, number=number, aggregate=whole)
            evidence = await self._fitted(evidence, settings)
        gathered.finish(evidence)

    async def _fitted(self, evidence: Evidence, settings: SelectConfig) -> Evidence:
        if isinstance(self.reader, LLMReader) and settings.budget is not None:
            return await self.reader.fit(evidence, settings.budget, settings.cap)
        return fit(evidence, settings.budget, settings.cap)

    async def timed_search(self, query: str, routing: Routing, clock: Clock) -> list[Explained]:
        """Return what `search` does, off the event loop, so that other questions go on.

        Its stage is `retrieve`. It begins when a thread is free: those who wait for others' vector
        searches would else count them (P17).

        Raises:
            EncodeError: If the query cannot be encoded.
        """

        def timed() -> list[Explained]:
            with clock.stage("retrieve"):
                return self.search(query, routing)

        return await asyncio.to_thread(timed)

    def search(self, query: str, routing: Routing) -> list[Explained]:
        """Return the hits of one query with the regions selected of each, in rank order.

        Raises:
            EncodeError: If the query cannot be encoded.
        """
        retrieval = self.retrieval
        if routing.none and retrieval.none == "answer":
            return []
        if routing.modalities:
            found = self.retriever.retrieve_each(query, retrieval.k, routing.modalities)
        elif retrieval.route == "soft":
            found = self.retriever.retrieve_shares(query, retrieval.k, retrieval.min_share)
        else:
            found = self.retriever.retrieve(query, retrieval.k)
        method = self.selector or self.selection.over("set")
        return explain(found.found, found.node_query, method, query=query)


@dataclass(slots=True, kw_only=True)
class Gathered:
    """How far one question is: what the reader will get, and the trace so far."""

    evidence: Evidence
    rounds: list[Round] = field(default_factory=list)
    stop: Stop = "no_critic"
    clock: Clock = field(default_factory=Clock)
    aggregate: bool | None = None
    """Whether the question needs whole tables; None before the first table (P6)."""
    calls: Calls = field(default_factory=Calls)
    early: tuple[Fallback, ...] = ()
    """What went wrong before the first round."""
    on_round: Callable[[Round], None] | None = None
    """Hears of the current round when its evidence was found, and when it was judged."""

    def start(self, number: int, query: str, routing: Routing, explained: list[Explained]) -> None:
        """Enter a round with its hits."""
        hits = tuple(
            RoundHit(
                item_id=each.found.item.id,
                rank=each.found.hit.rank,
                similarity=each.found.hit.similarity,
                held=self.evidence.holds(each.found.item.id),
            )
            for each in explained
        )
        routed = (NONE,) if routing.none else routing.modalities
        self.rounds.append(Round(number=number, query=query, routed=routed, hits=hits, n_new=0))
        self._note(self.early)
        self.early = ()
        self.count(routing)

    def count(self, calls: Calls, *, verdict: Verdict | None = None) -> None:
        """Add a decision's calls and fallbacks to the current round."""
        self.calls = Calls(
            llm_calls=self.calls.llm_calls + calls.llm_calls,
            prompt_tokens=self.calls.prompt_tokens + calls.prompt_tokens,
            completion_tokens=self.calls.completion_tokens + calls.completion_tokens,
            cost=total_cost([self.calls.cost, calls.cost]),
        )
        self._note(calls.fallbacks)
        if verdict is not None:
            self.rounds[-1] = replace(self.rounds[-1], verdict=verdict)
            self._tell()

    def finish(self, evidence: Evidence) -> None:
        """Take over the round's evidence."""
        n_new = len(evidence.held - self.evidence.held)
        self.rounds[-1] = replace(self.rounds[-1], n_new=n_new)
        self._note(evidence.fallbacks)
        self.evidence = evidence
        self._tell()

    def answered(self, question: str, reading: Reading) -> Answer:
        """Return the answer with its trace."""
        self._note(reading.fallbacks)
        notes = self.evidence.fallbacks + self.early  # a deadline may pass before any round
        usage = Usage(
            llm_calls=self.calls.llm_calls + reading.llm_calls,
            prompt_tokens=self.calls.prompt_tokens + reading.prompt_tokens,
            completion_tokens=self.calls.completion_tokens + reading.completion_tokens,
            cost=total_cost([self.calls.cost, reading.cost]),
            seconds=dict(self.clock.seconds),
        )
        return Answer(
            question=question,
            text=reading.text,
            citations=reading.citations,
            evidence=replace(self.evidence, fallbacks=notes) if self.early else self.evidence,
            rounds=tuple(self.rounds),
            stop=self.stop,
            usage=usage,
        )

    def _tell(self) -> None:
        if self.on_round is not None:
            self.on_round(self.rounds[-1])

    def _note(self, fallbacks: tuple[Fallback, ...]) -> None:
        if not self.rounds:
            self.early += fallbacks
            return
        last = self.rounds[-1]
        self.rounds[-1] = replace(last, fallbacks=last.fallbacks + fallbacks)
