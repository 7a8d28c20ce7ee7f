"""Steps of methods that have a loop of their own: prompts within the window, and calls counted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from canopy_rag.core.budget import fit
from canopy_rag.core.evidence import Evidence
from canopy_rag.core.protocols import Completion, MediaPart, Message
from canopy_rag.pipeline.compressor import Explained, add_round
from canopy_rag.pipeline.loop import Gathered, Loop
from canopy_rag.pipeline.reader import LLMReader, loaded, meter_for
from canopy_rag.pipeline.route import Routing
from canopy_rag.pipeline.structured import Calls


def begin(loop: Loop) -> Gathered:
    """Return a question's trace before its first round."""
    return Gathered(evidence=Evidence(meter=meter_for(loop.reader, loop.meter)))


async def until_deadline(loop: Loop, gathered: Gathered, rounds: Coroutine[Any, Any, None]) -> None:
    """Run the rounds until they end or the configured deadline does it."""
    try:
        async with asyncio.timeout(loop.retrieval.deadline_s):
            await rounds
    except TimeoutError:
        gathered.stop = "deadline"


async def search(loop: Loop, gathered: Gathered, query: str) -> list[Explained]:
    """Search with a query and enter its round."""
    explained = await loop.timed_search(query, Routing(), gathered.clock)
    gathered.start(len(gathered.rounds) + 1, query, Routing(), explained)
    return explained


def add(loop: Loop, gathered: Gathered, explained: list[Explained]) -> Evidence:
    """Return the evidence with the current round's items, not held to a budget."""
    current = gathered.rounds[-1]
    fresh = replace(gathered.evidence, fallbacks=())
    return add_round(fresh, explained, current.query, loop.selection, number=current.number)


async def within(
    loop: Loop, evidence: Evidence, messages: tuple[Message, ...], *, max_tokens: int
) -> Evidence:
    """Return what of the evidence fits into a prompt, as configured (P9).

    Args:
        loop: Its reader counts, where it can; its settings cap.
        evidence: Everything.
        messages: The prompt without evidence.
        max_tokens: Longest reply, in tokens.
    """
    settings, reader = loop.selection, loop.reader
    if isinstance(reader, LLMReader):
        budget = await reader.room(messages, settings.budget, max_tokens=max_tokens)
        return await reader.fit(evidence, budget, settings.cap)
    return fit(evidence, settings.budget, settings.cap)


async def readers_share(loop: Loop, evidence: Evidence, prompt: str) -> Evidence:
    """Return what of the evidence fits into the reader's prompt, as in the loop."""
    settings, reader = loop.selection, loop.reader
    if isinstance(reader, LLMReader):
        budget = await reader.budget(prompt, settings.budget)
        return await reader.fit(evidence, budget, settings.cap)
    return fit(evidence, settings.budget, settings.cap)


async def shown(loop: Loop, evidence: Evidence) -> list[str | MediaPart]:
    """Return evidence as parts of a prompt, without fragment numbers, pictures loaded."""
    load = loop.reader.load if isinstance(loop.reader, LLMReader) else None
    style = evidence.meter.style
    seen = style.media and load is not None
    return await loaded(evidence.parts(replace(style, numbered=False, media=seen)), load)


def one_call(reply: Completion) -> Calls:
    """Return what one plain call took."""
    return Calls(
        llm_calls=1,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cost=reply.cost,
    )
