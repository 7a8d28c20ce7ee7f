"""What every selection keeps of every question, and at how many tokens, in one table.

The rules stand beside their rivals on the same similarities. A rival is a family of settings; which
of them it is compared with is chosen elsewhere, on other questions (`frontier`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.select import Select
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item
from canopy_rag.evaluation.diagnostics import decisions, retrieval_recall, written
from canopy_rag.evaluation.judged import Judged
from canopy_rag.evaluation.readability import dangling
from canopy_rag.evaluation.selections import (
    FLAT,
    Kept,
    Method,
    above,
    best_leaves,
    by_rule,
    flat,
    whole,
)

Numbers = NDArray[np.float64]
RULES: tuple[Select, ...] = ("set", "paper")
"""Selections without a setting."""
NOTHING = "nothing"
"""Showing nothing at all: a setting of every family."""
FAMILIES = ("flat", "global", "threshold", "deviations", "whole")
"""The m best leaves of each item; the n best of all; those at or above a fixed similarity; those at
or above mean + c standard deviations of the retrieved set; the first n items whole."""
N_LEAVES = (1, 2, 3, 5, 8, 12, 16, 20, 24, 32, 40, 56, 80)
"""Of `global`; and so many leaves a question the thresholds keep in the mean."""
DEVIATIONS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
N_ITEMS = (1, 2, 3, 4, 5, 6, 8, 10)


class Sizes:
    """Counts the tokens of evidence, each word and each selection of an item once.

    Args:
        count: Counts the tokens of a text. Those of a text must be those of its words, as with the
            tokenizers of BERT.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._words: dict[str, int] = {}
        self._shown: dict[tuple[str, frozenset[int]], int] = {}

    def of(self, items: Sequence[Item], kept: Kept) -> int:
        """Return the tokens of kept leaves as written out, headings and header rows included."""
        return sum(
            self._of_item(item, ends) for item, ends in zip(items, kept, strict=True) if ends
        )

    def words(self, text: str) -> int:
        """Return the tokens of a text."""
        n = 0
        for word in text.split():
            count = self._words.get(word)
            if count is None:
                count = self._words[word] = self._count(word)
            n += count
        return n

    def _of_item(self, item: Item, ends: frozenset[int]) -> int:
        key = (item.id, ends)
        if key not in self._shown:
            self._shown[key] = self.words(written([item], [ends]))
        return self._shown[key]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """One row per question, one column per method."""

    benchmarks: tuple[str, ...]
    """Of each question."""
    ids: tuple[str, ...]
    methods: tuple[Method, ...]
    n_gold: Numbers
    """Gold leaves of each question, `(n_questions,)`."""
    n_found: Numbers
    """Those of them that retrieval brought."""
    tokens_full: Numbers
    """Of the retrieved items shown whole."""
    kept: Numbers
    """Gold leaves kept, `(n_questions, n_methods)`."""
    tokens: Numbers
    """Of the evidence as written out, `(n_questions, n_methods)`."""
    items_found: Numbers
    """Share of the gold items that were retrieved."""
    decided: Numbers
    """Decision instances of the gold items: right ones, all, `(n_questions, 2)`."""
    fragments: Numbers
    """Shown fragments of texts, and those that point to what is not shown, by rule:
    `(n_questions, n_rules, 2)`, rules in the order of `RULES`."""

    @property
    def recall(self) -> Numbers:
        """Share of the gold leaves kept; those of items not retrieved count as lost."""
        return np.asarray(self.kept / self.n_gold[:, None], np.float64)

    def has(self, benchmarks: Collection[str]) -> bool:
        """Return whether there is a question of one of some benchmarks."""
        return not set(benchmarks).isdisjoint(self.benchmarks)

    def of(self, benchmarks: Collection[str]) -> Measured:
        """Return the rows of some benchmarks."""
        rows = [row for row, name in enumerate(self.benchmarks) if name in benchmarks]
        return Measured(
            benchmarks=tuple(self.benchmarks[row] for row in rows),
            ids=tuple(self.ids[row] for row in rows),
            methods=self.methods,
            n_gold=self.n_gold[rows],
            n_found=self.n_found[rows],
            tokens_full=self.tokens_full[rows],
            kept=self.kept[rows],
            tokens=self.tokens[rows],
            items_found=self.items_found[rows],
            decided=self.decided[rows],
            fragments=self.fragments[rows],
        )

    def column(self, name: str) -> int:
        """Return the column of a method."""
        return [method.name for method in self.methods].index(name)

    def family(self, *names: str) -> list[int]:
        """Return the columns of families, showing nothing first."""
        return [
            column
            for column, method in enumerate(self.methods)
            if method.family in (NOTHING, *names)
        ]


def rivals(thresholds: Sequence[float]) -> tuple[Method, ...]:
    """Return the rules, and every setting of their rivals.

    Args:
        thresholds: Of the family `threshold`, from `fixed_thresholds`, one for each of `N_LEAVES`.
    """
    return (
        *(Method(name=name, family=name, select=by_rule(name)) for name in RULES),
        Method(name=NOTHING, family=NOTHING, select=whole(0)),
        *(Method(name=f"flat-{m}", family="flat", select=flat(m)) for m in FLAT),
        *(Method(name=f"global-{n}", family="global", select=best_leaves(n)) for n in N_LEAVES),
        *(
            Method(name=f"threshold-{n}", family="threshold", select=above(partial(_fixed, bound)))
            for n, bound in zip(N_LEAVES, thresholds, strict=True)
        ),
        *(
            Method(name=f"mean{c:+g}sd", family="deviations", select=above(partial(_deviating, c)))
            for c in DEVIATIONS
        ),
        *(Method(name=f"whole-{n}", family="whole", select=whole(n)) for n in N_ITEMS),
    )


def fixed_thresholds(judged: Sequence[Judged]) -> list[float]:
    """Return the similarities that keep each of `N_LEAVES` leaves a question in the mean.

    Args:
        judged: The questions that parameters are chosen on, at least one with a retrieved item.
    """
    pooled = np.sort(
        np.concatenate(
            [values[list(leaves(nodes))] for each in judged for nodes, values in each.found_scored]
        )
    )[::-1]
    return [float(pooled[min(n * len(judged), len(pooled)) - 1]) for n in N_LEAVES]


def measure(judged: Sequence[Judged], methods: Sequence[Method], sizes: Sizes) -> Measured:
    """Measure every method on every question over its retrieved items.

    Args:
        judged: Questions with their retrieved items.
        methods: From `rivals`.
        sizes: Counts tokens.

    Raises:
        ValueError: Without a question.
    """
    if not judged:
        raise ValueError("there is no question to measure")
    kept = np.zeros((len(judged), len(methods)))
    tokens = np.zeros_like(kept)
    fragments = np.zeros((len(judged), len(RULES), 2))
    for row, each in enumerate(judged):
        for column, method in enumerate(methods):
            chosen = method.select(each.found_scored)
            kept[row, column] = _n_gold(each, chosen)
            tokens[row, column] = sizes.of(each.found_items, chosen)
            if method.name in RULES:
                found = dangling(each.found_items, chosen)
                fragments[row, RULES.index(method.name)] = found
    whole_items = [whole(len(each.found_items))(each.found_scored) for each in judged]
    pairs = list(zip(judged, whole_items, strict=True))
    return Measured(
        benchmarks=tuple(each.benchmark for each in judged),
        ids=tuple(each.question.id for each in judged),
        methods=tuple(methods),
        n_gold=np.array([each.n_gold for each in judged], np.float64),
        n_found=np.array([_n_gold(each, all_of) for each, all_of in pairs], np.float64),
        tokens_full=np.array(
            [sizes.of(each.found_items, all_of) for each, all_of in pairs], np.float64
        ),
        kept=kept,
        tokens=tokens,
        items_found=np.array([retrieval_recall(each, len(each.found_items)) for each in judged]),
        decided=_decided(judged),
        fragments=fragments,
    )


def _n_gold(judged: Judged, kept: Kept) -> int:
    return sum(
        len(judged.gold.get(item.id, frozenset()) & ends)
        for item, ends in zip(judged.found_items, kept, strict=True)
    )


def _decided(judged: Sequence[Judged]) -> Numbers:
    counts = np.zeros((len(judged), 2))
    for row, each in enumerate(judged):
        found = decisions([each])
        counts[row] = sum(one.correct for one in found), len(found)
    return counts


def _fixed(bound: float, values: NDArray[np.float64]) -> float:
    return bound


def _deviating(c: float, values: NDArray[np.float64]) -> float:
    return float(values.mean() + c * values.std())
