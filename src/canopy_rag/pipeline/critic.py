"""After a round: does the evidence suffice, and if not, what to search next (P7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from canopy_rag.core.answer import Verdict
from canopy_rag.core.bridges import Clue, covers, follow_up_query
from canopy_rag.core.evidence import Evidence
from canopy_rag.core.prompts import critic_messages
from canopy_rag.core.protocols import LLM, MediaPart
from canopy_rag.core.render import head_lines, node_body
from canopy_rag.core.replies import CRITIC, is_new_query
from canopy_rag.core.trees import leaves
from canopy_rag.pipeline.reader import PictureLoader, loaded
from canopy_rag.pipeline.structured import Calls, ask

MAX_TOKENS = 256
"""Longest reply: the object with a long follow-up query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement(Calls):
    """A critic's verdict, and what it means for the rounds."""

    verdict: Verdict | None
    """What the critic said; None if it could not be had."""
    stop: Literal["sufficient", "repeated_query", "no_critic"] | None
    """Why no further round follows: a repeated or an empty follow-up query is `repeated_query`
    (D5), no verdict is `no_critic` (D15). None: the next query is `verdict.follow_up`."""


class Critic(Protocol):
    """Judges evidence."""

    async def judge(self, question: str, evidence: Evidence, queries: Sequence[str]) -> Judgement:
        """Judge the evidence gathered so far.

        Args:
            question: The user's question.
            evidence: All rounds' evidence, within the reader's cap (P9).
            queries: The rounds' queries in order, the question first.

        Raises:
            asyncio.CancelledError: If the question is given up, or its deadline passes.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMCritic:
    """A chat model judges. It sees the reader's evidence without fragment numbers."""

    llm: LLM
    max_tokens: int = MAX_TOKENS
    load: PictureLoader | None = None
    """How pictures reach the model; None: it gets their captions."""

    async def judge(self, question: str, evidence: Evidence, queries: Sequence[str]) -> Judgement:
        """Ask the model; without a verdict retrieval stops, and the fallback says so (D15).

        Raises:
            IngestError: If a picture cannot be loaded.
        """
        asked = await ask(
            self.llm,
            CRITIC,
            critic_messages(question, await self._parts(evidence), queries),
            max_tokens=self.max_tokens,
            otherwise="retrieval stops",
        )
        return Judgement(
            verdict=asked.value,
            stop=_stop(asked.value, queries),
            llm_calls=asked.llm_calls,
            prompt_tokens=asked.prompt_tokens,
            completion_tokens=asked.completion_tokens,
            cost=asked.cost,
            fallbacks=asked.fallbacks,
        )

    async def _parts(self, evidence: Evidence) -> list[str | MediaPart]:
        style = evidence.meter.style
        seen = style.media and self.load is not None
        parts = evidence.parts(replace(style, numbered=False, media=seen))
        return await loaded(parts, self.load)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesCritic:
    """Judges without a model, by words: see `core.bridges`.

    It knows English and scripts with capital letters. Evidence suffices for it if one item has all
    content words of the question, which is rare, so it mostly uses all rounds; it costs no call.
    """

    async def judge(self, question: str, evidence: Evidence, queries: Sequence[str]) -> Judgement:
        """Look for words of the question that no item has, and for names that lead on."""
        clues = _clues(evidence)
        sufficient = covers(question, clues)
        follow_up = None if sufficient else follow_up_query(question, clues, queries)
        verdict = Verdict(sufficient=sufficient, follow_up=follow_up)
        return Judgement(verdict=verdict, stop=_stop(verdict, queries))


def _clues(evidence: Evidence) -> list[Clue]:
    """Return the leaves that are shown, with their words."""
    found: list[Clue] = []
    for entry in evidence.entries:
        item = entry.item
        context = "\n".join(head_lines(item))
        for leaf in (leaf for node in entry.kept for leaf in leaves(item.nodes, node)):
            text = node_body(item, item.nodes[leaf].start, item.nodes[leaf].stop)
            found.append(
                Clue(
                    item_id=item.id,
                    title=item.title,
                    context=context,
                    text=text if entry.cut is None else text[: entry.cut.chars],
                    similarity=entry.value(leaf),
                )
            )
    return found


def _stop(
    verdict: Verdict | None, queries: Sequence[str]
) -> Literal["sufficient", "repeated_query", "no_critic"] | None:
    if verdict is None:
        return "no_critic"
    if verdict.sufficient:
        return "sufficient"
    return None if is_new_query(verdict.follow_up or "", queries) else "repeated_query"
