"""Answers with scale as TAT-QA compares them (`tatqa_metric.py`).

The peculiarities are the official ones, kept so that numbers can be compared with published ones: a
number with a thousands separator in parentheses counts as positive; a number that begins with its
decimal point is read as no number at all, and equals any other such; several answers are sorted,
joined and compared as one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from canopy_rag.evaluation.bags import AnswerScore, bag_f1
from canopy_rag.evaluation.normalise import joined, without_articles, without_punctuation

KINDS = ("span", "multi-span", "arithmetic", "count")
"""TAT-QA's answer types."""
_IGNORED_IN_NUMBERS = str.maketrans("", "", "'\"\\$€£¥%(),[]")
_FACTORS = (
    ("hundred", 100),
    ("thousand", 1_000),
    ("million", 1_000_000),
    ("billion", 1_000_000_000),
    ("percent", 0.01),
)
_DIGITS = re.compile(r"[+-]?\d+(?:\.\d+)?|[+-]?\.\d+")
_NUMBER_AND_WORD = re.compile(r"[\d.]+\s?[a-zA-Z]+")
_MAX_INTEGER_DIGITS = 250
"""Longer ones, as of a reader that repeats itself, would not fit a float once multiplied."""
_IN_PARENTHESES = re.compile(r"\([\d.\s]+\)")
_PERCENTAGE = re.compile(r"[\d.\s]+%")


def tatqa_score(
    predicted: Sequence[str],
    gold: Sequence[str],
    *,
    kind: str,
    scale: str = "",
    predicted_scale: str = "",
) -> AnswerScore:
    """Compare answers: EM, and F1 that equals EM for `arithmetic` and `count`.

    Args:
        predicted: The answers of a reply; see `answer_parts`. None: nothing was predicted.
        gold: The reference: all of them are wanted together.
        kind: One of `KINDS`.
        scale: The reference's: `thousand`, `million`, `billion`, `percent` or empty.
        predicted_scale: The same of the prediction; empty too if the scale is part of its text
            (`12 million`, `12%`).

    Raises:
        ValueError: For an unknown kind, or without a reference answer.

    >>> tatqa_score(["12.3 million"], ["12.3"], kind="arithmetic", scale="million")
    AnswerScore(exact=1.0, f1=1.0)
    """
    if kind not in KINDS:
        raise ValueError(f"TAT-QA's answer types are {', '.join(KINDS)}, not {kind!r}")
    if not gold:
        raise ValueError("a TAT-QA question needs at least one reference answer")
    if not predicted:
        return AnswerScore(0.0, 0.0)
    reference = _normalised(_written(gold, scale))
    forms = [_written(predicted, predicted_scale), *_unscaled(predicted, predicted_scale)]
    best = max(_compare(_normalised(form), reference) for form in forms)
    return best._replace(f1=best.exact) if kind in ("arithmetic", "count") else best


def _compare(predicted: str, gold: str) -> AnswerScore:
    f1 = np.round(bag_f1(predicted.split(), gold.split()), 2)
    return AnswerScore(float(predicted == gold), float(f1))


def _written(answers: Sequence[str], scale: str) -> str:
    """Sort and join answers; numbers are multiplied by the scale, other text gets its word."""
    return " ".join(_with_scale(answer, scale) for answer in sorted(answers))


def _with_scale(answer: str, scale: str) -> str:
    value = _number(answer) if _is_number(answer) else None
    if value is None:
        return f"{answer} {scale}" if scale else answer
    if "%" in answer:
        return f"{value:.4f}"
    return f"{round(value, 2) * _factor(scale):.4f}"


def _unscaled(predicted: Sequence[str], scale: str) -> list[str]:
    """Return a lone number without scale as it is too: 0.2342 may stand for 23.42 percent."""
    if len(predicted) > 1 or scale or "%" in predicted[0] or not _is_number(predicted[0]):
        return []
    value = _number(predicted[0])
    return [] if value is None else [f"{value:.4f}"]


def _normalised(text: str) -> str:
    parts = (joined(without_articles(_word(word.lower()))) for word in text.split(" "))
    return " ".join(part for part in parts if part)


def _word(word: str) -> str:
    bare = word if _is_number(word) else without_punctuation(word)
    return str(_number(bare)) if _is_number(bare) else bare


def _is_number(text: str) -> bool:
    """Return whether a text is a number, or begins with one and goes on with a scale."""
    words = text.translate(_IGNORED_IN_NUMBERS).split()
    if not words:
        return False
    try:
        value = float(words[0])
    except ValueError:
        return False
    return not math.isnan(value) and (len(words) == 1 or _factor(words[1]) != 1)


def _number(text: str) -> float | None:
    """Return the value of a text that is a number; None if it begins with a decimal point."""
    found = _DIGITS.search(text.translate(_IGNORED_IN_NUMBERS))
    if found is None or not found[0].lstrip("+-")[0].isdigit():
        return None
    exact = "." not in found[0] and len(found[0]) <= _MAX_INTEGER_DIGITS
    digits = int(found[0]) if exact else float(found[0])
    word = _NUMBER_AND_WORD.search(text)
    factor = _factor(word[0]) if word else 1
    sign = -1 if _IN_PARENTHESES.search(text.strip()) else 1
    share = 0.01 if _PERCENTAGE.search(text.strip()) else 1
    return round(digits * factor * sign * share, 4)


def _factor(text: str) -> float:
    lowered = text.lower()
    return next((factor for word, factor in _FACTORS if word in lowered), 1)
