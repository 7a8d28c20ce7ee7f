"""One structured call: asked with a schema, read strictly, repaired once, else without a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from canopy_rag.core.errors import LLMError, OutputParseError
from canopy_rag.core.evidence import Fallback
from canopy_rag.core.prompts import repair_messages
from canopy_rag.core.protocols import LLM, ChatRequest, Completion, Message
from canopy_rag.core.replies import Form, Reply

T = TypeVar("T")
_Asking = Callable[[Sequence[Message]], Awaitable[Completion]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What asking a model took, and what went wrong with it."""

    llm_calls: int = 0
    """Completed replies, repairs included (D15)."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """In the currency of `llm.price_in` and `llm.price_out`; None without prices."""
    fallbacks: tuple[Fallback, ...] = ()
    """At most one per decision; its stage is the name of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structured(Calls, Generic[T]):
    """The outcome of a structured call."""

    value: T | None
    """What the model decided; None if that could not be had: the caller takes the safe meaning."""


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum of the costs that are known, or None if none is."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


async def ask(
    llm: LLM, form: Form[T], messages: Sequence[Message], *, max_tokens: int, otherwise: str
) -> Structured[T]:
    """Ask a model for a decision.

    A reply that is not of the schema is recorded as a `Fallback` even when it can be understood or
    is repaired. One that cannot be understood is shown to the model once more with the schema; an
    empty one is not, since nothing in it could be repaired (D15). A model that does not answer is
    recorded too: the question can still be read without this decision.

    Args:
        llm: The model.
        form: The kind of decision.
        messages: The prompt.
        max_tokens: Longest reply, in tokens; of the repair as well.
        otherwise: What happens without a decision, for the record.

    Raises:
        asyncio.CancelledError: If the question is given up, or its deadline passes.
    """
    replies: list[Completion] = []

    async def reply(prompt: Sequence[Message]) -> Completion:
        request = ChatRequest(
            messages=tuple(prompt),
            max_tokens=max_tokens,
            schema_name=form.name,
            schema=form.schema,
        )
        replies.append(await llm.complete(request))
        return replies[-1]

    decided = await _decide(form, messages, reply)
    value = None if isinstance(decided, str) else decided.value
    reason = f"{decided}; {otherwise}" if isinstance(decided, str) else decided.problem
    return Structured(
        value=value,
        llm_calls=len(replies),
        prompt_tokens=sum(each.prompt_tokens for each in replies),
        completion_tokens=sum(each.completion_tokens for each in replies),
        cost=total_cost(each.cost for each in replies),
        fallbacks=() if reason is None else (Fallback(stage=form.name, reason=reason),),
    )


async def _decide(form: Form[T], messages: Sequence[Message], reply: _Asking) -> Reply[T] | str:
    """Return the decision with what was wrong on the way, or why there is none."""
    try:
        first = await reply(messages)
    except LLMError as error:
        return f"no reply: {error}"
    try:
        read = form.read(first.text)
    except OutputParseError as error:
        problem = _told("the reply", first, str(error))
    else:
        if read.problem is None:
            return read
        return replace(read, problem=f"{_told('the reply', first, read.problem)}; understood")
    if not first.text.strip():
        return problem
    try:
        second = await reply(repair_messages(first.text, form.schema))
    except LLMError as error:
        return f"{problem}; no repair: {error}"
    try:
        return replace(form.read(second.text), problem=f"{problem}; repaired")
    except OutputParseError as error:
        return f"{problem}; {_told('its repair', second, str(error))}"


def _told(what: str, reply: Completion, problem: str) -> str:
    cut = " (cut at max_tokens)" if reply.cut else ""
    return f"{what} is not of the schema: {problem}{cut}"
