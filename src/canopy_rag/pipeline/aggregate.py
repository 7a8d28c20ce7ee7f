"""Whether a question needs whole tables: asked of the question alone (P6)."""

from __future__ import annotations

from canopy_rag.core.prompts import aggregate_messages
from canopy_rag.core.protocols import LLM
from canopy_rag.core.replies import AGGREGATE
from canopy_rag.pipeline.structured import Structured, ask

MAX_TOKENS = 64
"""Longest reply: the object and some white space."""


async def is_aggregate(
    llm: LLM, question: str, *, max_tokens: int = MAX_TOKENS
) -> Structured[bool]:
    """Classify a question, once, when a table is first among its retrieved items (P6).

    Args:
        llm: The model.
        question: The user's question, not a follow-up query.
        max_tokens: Longest reply, in tokens.

    Returns:
        True if retrieved tables are to be passed whole. Without a decision they are refined like
        everything else, and the fallback says so; the value is None then (D15).
    """
    return await ask(
        llm,
        AGGREGATE,
        aggregate_messages(question),
        max_tokens=max_tokens,
        otherwise="tables are refined",
    )
