"""Answers as bags of words, as DROP compares them and TAT-QA and MMQA after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from canopy_rag._optional import require

Bag = Collection[str]


class AnswerScore(NamedTuple):
    """How well an answer agrees with the reference, from 0 to 1."""

    exact: float
    f1: float


def bag_f1(predicted: Bag, gold: Bag) -> float:
    """Return the F1 of the different words of two answers.

    An empty bag has full precision (or recall), so that two empty ones agree.
    """
    common = len(set(predicted) & set(gold))
    precision = common / len(set(predicted)) if predicted else 1.0
    recall = common / len(set(gold)) if gold else 1.0
    return harmonic(precision, recall)


def harmonic(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def aligned_f1(
    predicted: Sequence[Bag], gold: Sequence[Bag], similarity: Callable[[Bag, Bag], float]
) -> float:
    """Return the F1 of two lists of answers.

    Each answer is matched with at most one of the other list, so that the sum is largest; what is
    left over counts as 0. The mean over the longer list is rounded to two places by NumPy's rule.

    Args:
        predicted: One bag per predicted answer.
        gold: One bag per reference answer, at least one.
        similarity: Of a predicted and a reference answer.

    Raises:
        MissingDependencyError: Without SciPy.
    """
    if not predicted:
        return 0.0
    assignment = require("scipy.optimize", extra="eval", feature="matching listed answers")
    values = np.array([[similarity(one, other) for one in predicted] for other in gold])
    rows, columns = assignment.linear_sum_assignment(values, maximize=True)
    matched = np.zeros(max(values.shape))
    matched[rows] = values[rows, columns]
    return float(np.round(matched.mean(), 2))


def same_answers(predicted: Sequence[str], gold: Sequence[str]) -> bool:
    """Return whether two lists hold equally many answers, and the same ones in any order.

    Repetitions are not counted: two lists of equal length agree if their sets do.
    """
    return len(predicted) == len(gold) and set(predicted) == set(gold)
