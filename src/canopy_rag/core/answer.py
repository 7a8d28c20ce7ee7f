"""An answer is its own trace: evidence, citations, rounds, cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canopy_rag.core.evidence import Evidence, Fallback

Stop = Literal["sufficient", "last_round", "repeated_query", "nothing_new", "no_critic", "deadline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A mention of a fragment in an answer."""

    n: int
    """The number as the answer writes it."""
    fragment: int
    """The fragment's number in the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the critic said of the evidence (P7)."""

    sufficient: bool
    follow_up: str | None = None
    """The next round's query; None when the evidence suffices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundHit:
    """A hit as one round saw it."""

    item_id: str
    rank: int
    similarity: float
    held: bool
    """Whether something of the item was shown before this round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One retrieve, refine and judge pass."""

    number: int
    """From 1."""
    query: str
    routed: tuple[str, ...]
    """What the router chose, `none` for nothing to be searched; empty: it was not asked, or did not
    say, and all are searched."""
    hits: tuple[RoundHit, ...]
    n_new: int
    """Items of this round that were not held before."""
    verdict: Verdict | None = None
    """None when no critic was asked."""
    fallbacks: tuple[Fallback, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON interface's form of a round."""
        return _round_dict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an answer cost."""

    llm_calls: int = 0
    """Completed replies, repairs and the final answer included (D15)."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """Of all calls, by the configured prices; None without prices."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall clock by stage."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The reader's answer with everything that led to it."""

    question: str
    text: str
    citations: tuple[Citation, ...]
    evidence: Evidence
    rounds: tuple[Round, ...]
    stop: Stop
    usage: Usage

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON interface's form of an answer."""
        return {
            "question": self.question,
            "text": self.text,
            "citations": [{"n": each.n, "fragment": each.fragment} for each in self.citations],
            "evidence": self.evidence.to_dict(),
            "rounds": [each.to_dict() for each in self.rounds],
            "stop": self.stop,
            "usage": {
                "llm_calls": self.usage.llm_calls,
                "prompt_tokens": self.usage.prompt_tokens,
                "completion_tokens": self.usage.completion_tokens,
                "cost": self.usage.cost,
                "seconds": dict(self.usage.seconds),
            },
        }


def _round_dict(each: Round) -> dict[str, Any]:
    verdict = each.verdict
    return {
        "number": each.number,
        "query": each.query,
        "routed": list(each.routed),
        "hits": [
            {
                "item_id": hit.item_id,
                "rank": hit.rank,
                "similarity": hit.similarity,
                "held": hit.held,
            }
            for hit in each.hits
        ],
        "n_new": each.n_new,
        "verdict": None
        if verdict is None
        else {"sufficient": verdict.sufficient, "follow_up": verdict.follow_up},
        "fallbacks": [{"stage": note.stage, "reason": note.reason} for note in each.fallbacks],
    }
