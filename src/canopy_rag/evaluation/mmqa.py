"""Lists of answers as MultiModalQA compares them (`baselines/evaluate.py`, after DROP)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from canopy_rag.evaluation.bags import AnswerScore, Bag, aligned_f1, bag_f1, same_answers
from canopy_rag.evaluation.normalise import joined, without_articles, without_punctuation

_SEPARATORS = re.compile(r"[ \-]")
_NUMBER_WORDS: dict[str, float] = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "point": 0,  # the official library reads a lone decimal point as nothing
}


def mmqa_score(predicted: Sequence[str], gold: Sequence[str]) -> AnswerScore:
    """Compare two lists of answers: list-EM and list-F1.

    Args:
        predicted: The answers of a reply; see `answer_parts`.
        gold: The reference: all of them are wanted together.

    Raises:
        ValueError: Without a reference answer.
        MissingDependencyError: Without SciPy.

    >>> mmqa_score(["two cats", "a dog"], ["dog", "2 cats"])
    AnswerScore(exact=1.0, f1=1.0)
    """
    if not gold:
        raise ValueError("an MMQA question needs at least one reference answer")
    ours = [mmqa_normalised(text) for text in predicted]
    theirs = [mmqa_normalised(text) for text in gold]
    f1 = aligned_f1([set(a.split()) for a in ours], [set(a.split()) for a in theirs], _similarity)
    return AnswerScore(float(same_answers(ours, theirs)), f1)


def mmqa_normalised(text: str) -> str:
    """Return an answer as MMQA compares it.

    Word by word, split at blanks and hyphens: lower case; punctuation goes unless the word is a
    number; numbers, spelled ones too, are written as floats; the words a, an and the go.

    >>> mmqa_normalised("The twenty-one Films, 1,000.5%")
    '20.0 1.0 films 10005.0'
    """
    parts = (joined(without_articles(_word(part.lower()))) for part in _SEPARATORS.split(text))
    return " ".join(part for part in parts if part)


def _word(word: str) -> str:
    bare = word if _is_number(word) else without_punctuation(word)
    if _is_number(bare):
        return str(float(bare))
    return str(float(_NUMBER_WORDS[bare])) if bare in _NUMBER_WORDS else bare


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _similarity(predicted: Bag, gold: Bag) -> float:
    numbers = {word for word in gold if _is_number(word)}
    if numbers and numbers.isdisjoint(predicted):
        return 0.0
    return bag_f1(predicted, gold)
