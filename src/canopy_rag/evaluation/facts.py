"""Supporting facts, evidence triples and joint scores of HotpotQA and 2WikiMultiHopQA.

After `hotpot_evaluate_v1.py` and `2wikimultihop_evaluate_v1.1.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from canopy_rag.evaluation.bags import harmonic
from canopy_rag.evaluation.normalise import joined, normalised, without_punctuation

Fact = tuple[str, int]
"""A title and a sentence's 0-based position."""
Triple = tuple[str, str, str]
"""Subject, relation, object."""
_WHOLE_ANSWERS = frozenset({"yes", "no", "noanswer"})


class Overlap(NamedTuple):
    """How well a prediction covers the reference, from 0 to 1."""

    exact: float
    precision: float
    recall: float
    f1: float


def answer_overlap(prediction: str, answers: Sequence[str]) -> Overlap:
    """Compare an answer: each figure is the best over the references.

    If either side is `yes`, `no` or `noanswer` and the other is not the same, F1 is 0.

    Args:
        prediction: The answer.
        answers: References, each of them right on its own.

    Raises:
        ValueError: Without a reference answer.

    >>> answer_overlap("yes it is", ["yes"])
    Overlap(exact=0.0, precision=0.0, recall=0.0, f1=0.0)
    """
    if not answers:
        raise ValueError("a question needs at least one reference answer")
    each = [_answer_overlap(normalised(prediction), normalised(answer)) for answer in answers]
    return Overlap(*(max(column) for column in zip(*each, strict=True)))


def _answer_overlap(prediction: str, answer: str) -> Overlap:
    exact = float(prediction == answer)
    if not exact and not _WHOLE_ANSWERS.isdisjoint((prediction, answer)):
        return Overlap(0.0, 0.0, 0.0, 0.0)
    ours, theirs = Counter(prediction.split()), Counter(answer.split())
    common = (ours & theirs).total()
    if not common:
        return Overlap(exact, 0.0, 0.0, 0.0)
    precision, recall = common / ours.total(), common / theirs.total()
    return Overlap(exact, precision, recall, harmonic(precision, recall))


def fact_overlap(
    predicted: Iterable[Fact], gold: Iterable[Fact], *, fold_titles: bool = False
) -> Overlap:
    """Compare supporting facts; repeated ones count once.

    Args:
        predicted: The facts shown or named.
        gold: The reference's.
        fold_titles: Ignore the case of titles, as 2WikiMultiHopQA does.
    """
    ours = [_folded(fact, fold_titles) for fact in set(predicted)]
    theirs = [_folded(fact, fold_titles) for fact in set(gold)]
    right = sum(fact in theirs for fact in ours)
    missed = sum(fact not in ours for fact in theirs)
    precision = right / len(ours) if ours else 0.0
    recall = right / (right + missed) if right + missed else 0.0
    exact = float(right == len(ours) and not missed)
    return Overlap(exact, precision, recall, harmonic(precision, recall))


def triple_overlap(predicted: Iterable[Triple], gold: Sequence[Collection[Triple]]) -> Overlap:
    """Compare evidence triples, without case and punctuation (2WikiMultiHopQA).

    Args:
        predicted: The triples named; repeated ones count once.
        gold: For each triple of the reference, all its forms by the aliases of subject and object.
    """
    ours = {_bare(triple) for triple in predicted}
    theirs = [{_bare(form) for form in forms} for forms in gold]
    n_right = sum(any(triple in forms for forms in theirs) for triple in ours)
    precision = n_right / len(ours) if ours else 0.0
    recall = n_right / len(theirs) if theirs else 0.0
    exact = float(n_right == len(ours) == len(theirs))
    return Overlap(exact, precision, recall, harmonic(precision, recall))


def joint_overlap(*parts: Overlap) -> Overlap:
    """Return the joint score: products of exact matches, precisions and recalls, and their F1."""
    exact = precision = recall = 1.0
    for part in parts:
        exact *= part.exact
        precision *= part.precision
        recall *= part.recall
    return Overlap(exact, precision, recall, harmonic(precision, recall))


def _folded(fact: Fact, fold: bool) -> Fact:
    title, sentence = fact
    return (title.lower() if fold else title, sentence)


def _bare(triple: Triple) -> Triple:
    subject, relation, object_ = (joined(without_punctuation(part.lower())) for part in triple)
    return (subject, relation, object_)
