"""Disjoint parts of a benchmark's questions: train, validation and test (P16).

Training reads `train` only, choices look at `validation` only, and `test` is looked at once per
release candidate. Order comes from SHA-256 alone, so that parts are the same on every platform and
Python version.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal, TypeAlias, get_args

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.questions import Question

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
_UNUSED = "unused"
_Need: TypeAlias = dict[str, dict[str, int]]
"""Part -> kind -> how many questions it still wants; below 0 when it has too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many questions each part gets: a share of all, or a number (P16).

    If numbers ask for more than there is, test comes first, then validation, then train.

    >>> PAPER
    Sizes(train=1000, validation=0, test=1000)
    """

    train: float | int = 0.6
    validation: float | int = 0.15
    test: float | int = 0.25

    def __post_init__(self) -> None:
        wanted = (self.train, self.validation, self.test)
        for part, size in zip(PARTS, wanted, strict=True):
            if size < 0 or (isinstance(size, float) and size > 1):
                raise ConfigError(f"{part} must be a number or a share from 0.0 to 1.0, got {size}")
        shares = sum(size for size in wanted if isinstance(size, float))
        if shares > 1 + 1e-9:
            raise ConfigError(f"the shares of train, validation and test add up to {shares:g} > 1")

    def counts(self, n_questions: int) -> dict[str, int]:
        """Return how many of `n_questions` each part gets; the rest is `unused`."""
        left = n_questions
        counts: dict[str, int] = {}
        for part in reversed(PARTS):
            size = getattr(self, part)
            wanted = round(Fraction(str(size)) * n_questions) if isinstance(size, float) else size
            counts[part] = min(wanted, left)
            left -= counts[part]
        if all(isinstance(size, float) for size in (self.train, self.validation, self.test)) and (
            abs(self.train + self.validation + self.test - 1) < 1e-9
        ):
            # Shares that are all of it leave nobody out to rounding.
            counts["train"], left = counts["train"] + left, 0
        return {part: counts[part] for part in PARTS} | {_UNUSED: left}


PAPER = Sizes(train=1000, validation=0, test=1000)
"""The paper's portions in domain; for LVBench 162 and 500, out of domain no train (P16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The parts of a benchmark's questions, as ids in the order of the questions."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    unused: tuple[str, ...]
    """Questions of no part, when the sizes leave some."""
    how: str
    """Which rule made it, for reports."""

    def ids(self, part: Part) -> tuple[str, ...]:
        """Return the questions of a part."""
        found: tuple[str, ...] = getattr(self, part)
        return found


def split(
    questions: Sequence[Question],
    *,
    seed: int = 0,
    sizes: Sizes | None = None,
    frozen: Mapping[str, Part] | None = None,
) -> Split:
    """Split questions into disjoint parts.

    Questions that share a context are on one side, whatever chain of questions links them, so that
    no gold item is on two. Each kind is spread over the parts by their sizes, to the question where
    groups allow it. The largest groups are placed first, equals in the order of a hash of seed and
    first id, which also draws the part.

    Args:
        questions: Ids must differ; their order does not matter to who is where.
        seed: Another one gives other parts.
        sizes: None: 60 % train, 15 % validation, 25 % test.
        frozen: Question id -> part, settled before. Questions linked to one of them join its part;
            if they are linked to several, train goes before validation and validation before test,
            so that nothing that was trained on is ever tested.
    """
    sizes = sizes or Sizes()
    needs = _needs(questions, sizes)
    homes: dict[str, str] = {}
    free: list[list[Question]] = []
    settled = frozen or {}
    for group in _groups(questions):
        parts = {settled[each.id] for each in group if each.id in settled}
        if parts:
            _put(group, min(parts, key=PARTS.index), needs, homes)
        else:
            free.append(group)
    ranked = [(_rank(seed, group), group) for group in free]
    ranked.sort(key=lambda each: (-len(each[1]), each[0]))
    for rank, group in ranked:
        _put(group, _drawn_part(group, needs, rank), needs, homes)
    members: dict[str, list[str]] = {part: [] for part in (*PARTS, _UNUSED)}
    for question in questions:
        members[homes[question.id]].append(question.id)
    n_settled = sum(question.id in settled for question in questions)
    return Split(
        train=tuple(members["train"]),
        validation=tuple(members["validation"]),
        test=tuple(members["test"]),
        unused=tuple(members[_UNUSED]),
        how=_how(seed, n_settled, len(questions)),
    )


def _how(seed: int, n_settled: int, n_questions: int) -> str:
    if not n_settled:
        return f"seeded rule, seed {seed}"
    if n_settled == n_questions:
        return "frozen"
    return f"{n_settled:,} questions frozen, the others by the seeded rule, seed {seed}"


def _groups(questions: Iterable[Question]) -> list[list[Question]]:
    """Return the questions that are linked by contexts, as groups."""
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        parents.setdefault(key, key)
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    members = list(questions)
    for question in members:
        for context in question.contexts:
            parents[root(("context", context))] = root(("question", question.id))
    groups: dict[tuple[str, str], list[Question]] = {}
    for question in members:
        groups.setdefault(root(("question", question.id)), []).append(question)
    return list(groups.values())


def _rank(seed: int, group: Sequence[Question]) -> bytes:
    first = min(question.id for question in group)
    return hashlib.sha256(f"{seed}\0{first}".encode("utf-8", "surrogateescape")).digest()


def _needs(questions: Sequence[Question], sizes: Sizes) -> _Need:
    """Return how many questions of each kind each part wants.

    They add up to the parts' sizes and to the kinds' numbers; what rounding leaves goes where the
    remainders are largest.
    """
    counts = sizes.counts(len(questions))
    kinds = Counter(question.kind for question in questions)
    exact = {
        (part, kind): Fraction(n_part * n_kind, max(len(questions), 1))
        for part, n_part in counts.items()
        for kind, n_kind in kinds.items()
    }
    needs: _Need = {part: {kind: int(exact[part, kind]) for kind in kinds} for part in counts}
    left_part = {part: n_part - sum(needs[part].values()) for part, n_part in counts.items()}
    left_kind = {
        kind: n_kind - sum(needs[part][kind] for part in counts) for kind, n_kind in kinds.items()
    }
    while any(left_part.values()):
        part, kind = max(
            (pair for pair in exact if left_part[pair[0]] and left_kind[pair[1]]),
            key=lambda pair: (exact[pair] - needs[pair[0]][pair[1]], pair),
        )
        needs[part][kind] += 1
        left_part[part] -= 1
        left_kind[kind] -= 1
    return needs


def _drawn_part(group: Sequence[Question], needs: _Need, rank: bytes) -> str:
    """Return a part for a group, drawn by its hash from those that want most of its questions.

    The chances are as what the parts still want of the group's kinds.
    """
    kinds = Counter(question.kind for question in group)
    fits = {
        part: sum(min(n, max(wanted[kind], 0)) for kind, n in kinds.items())
        for part, wanted in needs.items()
    }
    chances = {
        part: sum(max(needs[part][kind], 0) for kind in kinds)
        for part, n_fitting in fits.items()
        if n_fitting == max(fits.values())
    }
    if not any(chances.values()):
        # Groups larger than what was wanted have used up their kinds' share everywhere.
        return max(needs, key=lambda part: sum(needs[part].values()))
    bounds = list(accumulate(chances.values()))
    ticket = int.from_bytes(rank[:8], "big") % bounds[-1]
    return list(chances)[bisect_right(bounds, ticket)]


def _put(group: Sequence[Question], part: str, needs: _Need, homes: dict[str, str]) -> None:
    for question in group:
        needs[part][question.kind] -= 1
        homes[question.id] = part
