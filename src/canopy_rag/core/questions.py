"""Questions with known answers and located gold, for evaluation and training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSpan:
    """A place in an item that holds evidence for a question's answer."""

    item_id: str
    start: float
    """Begin of the half-open interval, in the item's unit."""
    stop: float
    """Its end. Equal to `start` where the item is known to hold evidence, but no place in it, or
    only what is always shown (a table's header): the item is wanted, and no leaf of it is gold."""
    column: int | None = None
    """The gold cell's column, 0-based, in a table; None for whole rows and other items."""
    hop: int | None = None
    """Which step of a multi-hop question it belongs to, from 0; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a benchmark."""

    id: str
    text: str
    answers: tuple[str, ...]
    """Accepted answers; for several spans that are wanted together see `metric` of the dataset."""
    kind: str
    """Reasoning type, as the benchmark names it; by it results are broken down and splits made."""
    gold: tuple[GoldSpan, ...]
    contexts: tuple[str, ...] = ()
    """Keys of the titles, tables or contexts that its gold items belong to: questions that share
    one are on the same side of a split (P16)."""
    options: tuple[str, ...] = ()
    """Choices of a multiple-choice question, in order; the answer is then the letter."""
    scale: str = ""
    """TAT-QA's scale of the answer: `thousand`, `million`, `billion`, `percent` or empty."""
    follow_ups: tuple[str, ...] = ()
    """Oracle queries of the later rounds, where the benchmark decomposes its questions."""
