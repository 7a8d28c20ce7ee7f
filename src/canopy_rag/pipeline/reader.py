"""From evidence to an answer: a chat model that cites, or no model at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from canopy_rag.core.answer import Citation
from canopy_rag.core.budget import Cap, fit
from canopy_rag.core.evidence import Evidence, Fallback, Meter
from canopy_rag.core.media_tokens import shrunk
from canopy_rag.core.parsing import citations, unknown_citations
from canopy_rag.core.prompts import neutral, reader_messages
from canopy_rag.core.protocols import LLM, ChatRequest, Completion, MediaPart, Message
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves

AnswerStyle = Literal["cited", "short"]
PictureLoader = Callable[[MediaPart], str]
"""Turns a picture's path and time into a `data:` URI."""

MAX_BUDGET = 16_000
"""Most evidence tokens where nobody sets a budget (D13)."""
IMAGE_PX = 1_000_000
"""Most pixels of an image sent to a model."""
FRAME_PX = 250_000
"""Most pixels of a video frame sent to a model: a segment shows up to eight."""
PICTURE_TOKENS = 1024
"""What a picture counts where nobody can tell: a megapixel at a token for each 32 x 32 pixels."""
TEMPLATE_TOKENS = 64
"""What a chat template adds around a few messages, at most."""
NO_EVIDENCE = "Nothing was found in the index."


class Reading(NamedTuple):
    """A reader's answer."""

    text: str
    citations: tuple[Citation, ...]
    prompt_tokens: int
    completion_tokens: int
    llm_calls: int
    fallbacks: tuple[Fallback, ...] = ()
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMReader:
    """A chat model reads the evidence and answers."""

    llm: LLM
    style: AnswerStyle = "cited"
    max_tokens: int = 512
    """Longest answer, in tokens."""
    load: PictureLoader | None = None
    """How pictures reach the model; None: it gets their captions."""
    window: int | None = None
    """Most tokens of prompt and answer together (P9), where the model's own are more."""

    @property
    def numbered(self) -> bool:
        """Whether the model sees fragment numbers."""
        return self.style == "cited"

    async def budget(self, question: str, wanted: int | None) -> int:
        """Return the evidence tokens that the model's context leaves, at most `wanted` (D13).

        Args:
            question: What instructions and question take is left out of the budget.
            wanted: The user's budget; None: 16,000.
        """
        return await self.room(
            reader_messages(question, (), self.style), wanted, max_tokens=self.max_tokens
        )

    async def room(
        self, messages: tuple[Message, ...], wanted: int | None, *, max_tokens: int
    ) -> int:
        """Return the evidence tokens that a prompt leaves of the model's context (P9).

        Args:
            messages: The prompt without its evidence.
            wanted: The user's budget; None: 16,000.
            max_tokens: Longest reply, in tokens.
        """
        most = MAX_BUDGET if wanted is None else wanted
        asked = await self._tokens(messages)  # a server tells its window with the first count
        windows = [each for each in (self.llm.context_tokens, self.window) if each is not None]
        if not windows:
            return most
        rest = asked + max_tokens + TEMPLATE_TOKENS
        return max(1, min(most, min(windows) - rest))

    async def fit(self, evidence: Evidence, budget: int, cap: Cap) -> Evidence:
        """Return evidence within `budget` of the model's own tokens, where it can count them.

        Evidence is first held to an estimate; the model's own count corrects the estimate until
        it fits. Without a count the estimate stands and says so.

        Args:
            evidence: What would be shown without a limit.
            budget: Most tokens, pictures included.
            cap: Which fragments go first.
        """
        evidence, pictures_exact = await self._with_picture_sizes(evidence)
        allowed = budget
        while True:
            fitted = fit(evidence, allowed, cap)
            text = fitted.prompt_text
            counted = await self.llm.count_tokens(neutral(text))
            if counted is None:
                return fitted
            exact = counted + fitted.picture_tokens
            if exact > budget and allowed > 1:
                allowed = max(1, min(allowed - 1, allowed * budget // exact))
                continue
            if exact > budget:
                reason = f"{exact} tokens for a budget of {budget}: nothing smaller can be made"
                notes = (*fitted.fallbacks, Fallback(stage="budget", reason=reason))
                fitted = replace(fitted, fallbacks=notes)
            return await self._counted(fitted, text, counted, pictures_exact)

    async def read(self, question: str, evidence: Evidence) -> Reading:
        """Answer a question over evidence.

        Raises:
            LLMError: If the model does not answer.
        """
        return self._reading(
            await self.llm.complete(await self._request(question, evidence)), evidence
        )

    async def stream(
        self, question: str, evidence: Evidence, ended: Callable[[Completion], None]
    ) -> AsyncIterator[str]:
        """Yield the pieces of an answer as they come.

        Args:
            question: The question.
            evidence: What the model gets.
            ended: Called once with the whole reply, after the last piece.
        """
        async for piece in self.llm.stream(await self._request(question, evidence), ended):
            yield piece

    def finish(self, reply: Completion, evidence: Evidence) -> Reading:
        """Return the reading of a streamed answer."""
        return self._reading(reply, evidence)

    def _reading(self, reply: Completion, evidence: Evidence) -> Reading:
        n_fragments = len(evidence.fragments)
        cited = citations(reply.text, n_fragments) if self.numbered else []
        unknown = unknown_citations(reply.text, n_fragments) if self.numbered else []
        return Reading(
            reply.text.strip(),
            tuple(Citation(n=each.n, fragment=each.n) for each in cited),
            reply.prompt_tokens,
            reply.completion_tokens,
            llm_calls=1,
            fallbacks=_fallbacks(unknown, cut=reply.cut),
            cost=reply.cost,
        )

    async def _request(self, question: str, evidence: Evidence) -> ChatRequest:
        parts = await loaded(evidence.parts(), self.load)
        return ChatRequest(
            messages=reader_messages(question, parts, self.style), max_tokens=self.max_tokens
        )

    async def _tokens(self, messages: tuple[Message, ...]) -> int:
        text = "\n".join(
            part for message in messages for part in message.content if isinstance(part, str)
        )
        counted = await self.llm.count_tokens(text)
        return len(text) // 3 if counted is None else counted

    async def _with_picture_sizes(self, evidence: Evidence) -> tuple[Evidence, bool]:
        """Return the evidence with the model's tokens for its pictures, and whether all are known.

        Pictures that nobody can tell the tokens of count as `PICTURE_TOKENS`.
        """
        if evidence.meter.count_media is None:
            return evidence, True
        sizes = {_sent(part) for part in evidence.parts() if isinstance(part, MediaPart)}
        counts = {size: await self.llm.media_tokens(*size) for size in sizes if all(size)}
        known = {size: count for size, count in counts.items() if count is not None}
        meter = replace(
            evidence.meter, count_media=lambda part: known.get(_sent(part), PICTURE_TOKENS)
        )
        return replace(evidence, meter=meter), len(known) == len(sizes)

    async def _counted(
        self, evidence: Evidence, text: str, tokens: int, pictures_exact: bool
    ) -> Evidence:
        """Return the evidence with a meter that knows the model's own counts of it."""
        whole = evidence.whole.prompt_text
        counted = tokens if whole == text else await self.llm.count_tokens(neutral(whole))
        known = {text: tokens, whole: tokens if counted is None else counted}
        estimate = evidence.meter.count
        meter = replace(
            evidence.meter,
            count=lambda asked: known[asked] if asked in known else estimate(asked),
            exact=pictures_exact,
        )
        return replace(evidence, meter=meter)


async def loaded(
    parts: Sequence[str | MediaPart], load: PictureLoader | None
) -> list[str | MediaPart]:
    """Return the parts with their pictures loaded, in order; without a loader as they are.

    Pictures are decoded and scaled off the event loop.

    Raises:
        IngestError: If a picture cannot be loaded.
    """
    if load is None:
        return list(parts)
    return [
        MediaPart(media=await asyncio.to_thread(load, part), time=part.time)
        if isinstance(part, MediaPart)
        else part
        for part in parts
    ]


def _sent(part: MediaPart) -> tuple[int, int]:
    """Return the size in which a picture is sent; zeros when its own is unknown."""
    if not (part.width and part.height):
        return 0, 0
    return shrunk(part.width, part.height, IMAGE_PX if part.time is None else FRAME_PX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractiveReader:
    """Answers without a model: the sentences, rows or segments most similar to the question."""

    n_leaves: int = 3
    """Most regions quoted."""

    numbered: bool = False

    def read(self, question: str, evidence: Evidence) -> Reading:
        """Quote the best leaves of the evidence, most similar first, with their citations.

        Args:
            question: The question; similarities are those of the rounds' queries.
            evidence: What was found.

        Returns:
            A text that says that no model was asked. Leaves without words are not quoted.
        """
        numbers = {(each.item_id, each.node): each.n for each in evidence.fragments}
        found: list[tuple[float, int, str]] = []
        for entry in evidence.entries:
            for node in entry.kept:
                for leaf in leaves(entry.item.nodes, node):
                    region = entry.item.nodes[leaf]
                    text = node_body(entry.item, region.start, region.stop)
                    if entry.cut is not None:
                        text = text[: entry.cut.chars].rstrip()
                    if text.strip():
                        found.append((entry.value(leaf), -numbers[entry.item.id, node], text))
        if not found:
            return Reading(NO_EVIDENCE, (), 0, 0, 0)
        best = sorted(found, key=lambda each: each[:2], reverse=True)[: self.n_leaves]
        lines = ["No language model was asked. Closest to the question:"]
        lines += [f"- {' '.join(text.split())} [{-number}]" for _, number, text in best]
        cited = dict.fromkeys(-number for _, number, _ in best)
        return Reading(
            "\n".join(lines), tuple(Citation(n=n, fragment=n) for n in cited), 0, 0, llm_calls=0
        )


def _fallbacks(unknown: list[int], *, cut: bool) -> tuple[Fallback, ...]:
    """Return what was wrong with a reply: its length, or citations of what was not shown."""
    reasons = ["the answer was cut at its longest length"] if cut else []
    if unknown:
        reasons.append(f"fragments that do not exist are cited: {', '.join(map(str, unknown))}")
    return tuple(Fallback(stage="read", reason=reason) for reason in reasons)


def meter_for(reader: LLMReader | ExtractiveReader, meter: Meter) -> Meter:
    """Return the meter of evidence that `reader` gets, counting as `meter` does."""
    return replace(meter, numbered=reader.numbered)
