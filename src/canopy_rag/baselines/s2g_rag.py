"""S2G-RAG: a judge names the gaps, an extractor takes sentences for them, a reader answers.

The judge sees the sentences taken so far, never the documents. While it names gaps, the question
with up to three of them is the next query, and of what is found the extractor takes at most six
sentences by number, which are added verbatim, in the order of the documents. A table row, with its
column names, is a sentence (P15).

Differences from the original (github.com/nianaaa/S2G-RAG, 2026):

- The judge is the untrained model that also extracts and answers (P15); the original fine-tuned a
  Llama 3.2 3B for it.
- k = 10 items and the configured rounds (3); the original takes 6 documents and up to 4 rounds. The
  paper does not say what its reproduction used.
- As in the original, the judge is asked before the first round, where "sufficient" is overruled,
  and after the last one, where its reply changes nothing: R rounds take up to 2R + 2 calls.
- The shared encoder searches, not E5 or BM25. What was found before is found again, as in the
  original's default.
- Replies are held to a JSON schema, and one that cannot be understood is repaired once, as for all
  methods here. After that, as in the original, no verdict means that evidence is missing and the
  question is searched as it stands; no numbers mean that nothing is taken.
- Numbers of no sentence are dropped and recorded. Of each item the first 40 sentences are listed,
  as in the original; the list ends where the prompt is full, which is recorded.
- The common reader answers; the original's wants a rationale beside the answer.
- An image is listed by its caption and shown as it is, a stretch of video by its subtitles; the
  original knows texts alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Annotated

from canopy_rag.baselines import _steps
from canopy_rag.baselines._gaps import JUDGE, Gap, Judged, gap_query
from canopy_rag.baselines._selectors import kept_leaves
from canopy_rag.baselines._sentences import EXTRACT, MAX_IDS, Sentence, listed
from canopy_rag.baselines.base import (
    Method,
    Parts,
    Spec,
    asked,
    one_round,
    refined_always,
)
from canopy_rag.config.values import Least
from canopy_rag.core.answer import Answer, Verdict
from canopy_rag.core.evidence import Evidence, Fallback, LeftOut
from canopy_rag.core.prompts import evidence_messages
from canopy_rag.core.protocols import LLM
from canopy_rag.core.questions import Question
from canopy_rag.pipeline.compressor import Explained
from canopy_rag.pipeline.loop import Gathered, Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.structured import Calls, ask

JUDGE_TOKENS = 256
"""Longest verdict, in tokens, as in the original."""
EXTRACT_TOKENS = 64
"""Longest list of numbers, in tokens, as in the original."""
_NO_GAPS = "(none named)"


@dataclass(frozen=True, slots=True, kw_only=True)
class S2GSettings:
    """How long it may go on."""

    rounds: Annotated[int, Least(1)] | None = None
    """Most rounds; unset: as configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S2GRAG:
    """Judge, search, extract, until the judge is content."""

    name: str
    loop: Loop
    llm: LLM
    rounds: int
    verbatim: bool = True

    async def answer(self, question: Question) -> Answer:
        """Answer one question."""
        gathered, prompt = _steps.begin(self.loop), asked(question)
        rounds = self._rounds(question.text, prompt, gathered)
        await _steps.until_deadline(self.loop, gathered, rounds)
        return await self.loop.finish(prompt, gathered)

    async def _rounds(self, text: str, prompt: str, gathered: Gathered) -> None:
        judged = await self._judge(prompt, gathered, text)
        gaps = () if judged.sufficient else judged.gaps  # nothing is known yet: overruled
        for _ in range(self.rounds):
            explained = await _steps.search(self.loop, gathered, gap_query(text, gaps))
            sentences = await self._extract(prompt, gaps, explained, gathered)
            with gathered.clock.stage("refine"):
                evidence = _take(self.loop, gathered, explained, sentences)
                evidence = await _steps.readers_share(self.loop, evidence, prompt)
            gathered.finish(evidence)
            judged = await self._judge(prompt, gathered, text)
            if judged.sufficient:
                gathered.stop = "sufficient"
                return
            gaps = judged.gaps
        gathered.stop = "last_round"

    async def _judge(self, prompt: str, gathered: Gathered, text: str) -> Judged:
        with gathered.clock.stage("judge"):
            parts = await _steps.shown(self.loop, gathered.evidence)
            judged = await ask(
                self.llm,
                JUDGE,
                evidence_messages("s2g_judge", parts, question=prompt),
                max_tokens=JUDGE_TOKENS,
                otherwise="evidence is taken to be missing",
            )
        said = judged.value or Judged(sufficient=False)
        follow_up = None if said.sufficient else gap_query(text, said.gaps)
        verdict = Verdict(sufficient=said.sufficient, follow_up=follow_up)
        gathered.count(judged, verdict=verdict if gathered.rounds and judged.value else None)
        return said

    async def _extract(
        self, prompt: str, gaps: tuple[Gap, ...], explained: list[Explained], gathered: Gathered
    ) -> list[Sentence]:
        """Return the sentences that the model chooses of this round's items."""
        sentences = listed([each.found.item for each in explained])
        if not sentences:
            return []
        hints = "\n".join(f"- {gap.query}" for gap in gaps) or _NO_GAPS
        with gathered.clock.stage("extract"):
            text, notes = await self._list(sentences, prompt, hints)
            asked_for = await ask(
                self.llm,
                EXTRACT,
                evidence_messages("s2g_extract", [text], question=prompt, gaps=hints),
                max_tokens=EXTRACT_TOKENS,
                otherwise="no sentence is taken",
            )
        by_id = {each.id: each for each in sentences}
        ids = (asked_for.value or ())[:MAX_IDS]
        unknown = [str(each) for each in ids if each not in by_id]
        if unknown:
            reason = f"sentences that do not exist are chosen: {', '.join(unknown)}"
            notes = (*notes, Fallback(stage="extract", reason=reason))
        gathered.count(asked_for)
        gathered.count(Calls(fallbacks=notes))
        return [by_id[each] for each in ids if each in by_id]

    async def _list(
        self, sentences: list[Sentence], prompt: str, hints: str
    ) -> tuple[str, tuple[Fallback, ...]]:
        """Return as many of the sentences as the prompt holds, and whether some were left out."""
        n, text = len(sentences), "\n".join(each.line for each in sentences)
        reader = self.loop.reader
        if not isinstance(reader, LLMReader):
            return text, ()
        empty = evidence_messages("s2g_extract", (), question=prompt, gaps=hints)
        room = await reader.room(empty, self.loop.selection.budget, max_tokens=EXTRACT_TOKENS)
        while n > 0 and (tokens := await self._tokens(text)) > room:
            n = min(n - 1, n * room // tokens)
            text = "\n".join(each.line for each in sentences[:n])
        if n == len(sentences):
            return text, ()
        reason = f"{n} of {len(sentences)} sentences listed: the prompt is full"
        return text, (Fallback(stage="extract", reason=reason),)

    async def _tokens(self, text: str) -> int:
        counted = await self.llm.count_tokens(text)
        return self.loop.meter.count(text) if counted is None else counted


def _take(
    loop: Loop, gathered: Gathered, explained: list[Explained], sentences: list[Sentence]
) -> Evidence:
    """Return the evidence with the chosen sentences, those of items that are held added to them."""
    if not sentences:
        before = gathered.evidence
        known = before.held | {each.item_id for each in before.left_out}
        left_out = tuple(
            LeftOut(
                item_id=found.item.id,
                rank=found.hit.rank,
                reason="no sentence is chosen",
                item=found.item,
            )
            for found in (each.found for each in explained)
            if found.item.id not in known
        )
        return replace(before, fallbacks=(), left_out=before.left_out + left_out)
    chosen: dict[int, list[int]] = defaultdict(list)
    for sentence in sentences:
        chosen[sentence.place].append(sentence.leaf)
    decided = [
        replace(each, refinement=kept_leaves(each.found.item, chosen[place]))
        for place, each in enumerate(explained)
    ]
    return _steps.add(loop, gathered, decided)


def build(name: str, parts: Parts, settings: S2GSettings) -> Method:
    """Return the method.

    Raises:
        ConfigError: If there is no chat model.
    """
    loop = one_round(refined_always(parts.loop))
    return S2GRAG(
        name=name,
        loop=replace(loop, selection=replace(loop.selection, repeat="union")),
        llm=parts.chat(name),
        rounds=settings.rounds or parts.loop.retrieval.rounds,
    )


SPECS = (
    Spec(
        name="s2g-rag",
        summary="a judge names gaps, an extractor takes sentences for them, round by round",
        module=__name__,
        build=build,
        settings=S2GSettings,
    ),
)
