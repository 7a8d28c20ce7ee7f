"""One score per question by the benchmark's official metric (P17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.questions import Question
from canopy_rag.datasets.base import Metric
from canopy_rag.evaluation.bags import AnswerScore, harmonic
from canopy_rag.evaluation.facts import answer_overlap
from canopy_rag.evaluation.mmqa import mmqa_score
from canopy_rag.evaluation.normalise import answer_parts, normalised
from canopy_rag.evaluation.options import chosen_option
from canopy_rag.evaluation.tatqa import tatqa_score

Scores = Mapping[str, float]
"""Figures of one question by name, each from 0 to 1: `em` and `f1`, or `accuracy` and
`no_option` (1 if the reply names no option)."""


def headline(metric: Metric) -> str:
    """Return the figure that stands for a benchmark where one is wanted: `f1` or `accuracy`."""
    return "accuracy" if metric == "accuracy" else "f1"


def score(metric: Metric, prediction: str, question: Question, *, scale: str = "") -> Scores:
    """Score one reply.

    Args:
        metric: The benchmark's.
        prediction: The reader's reply. Of `tatqa` and `mmqa` it may list answers; see
            `answer_parts`.
        question: With its answers and, where the metric needs them, options, kind and scale. For
            `tatqa` its kind is the answer type.
        scale: TAT-QA's scale, if it was predicted apart from the text.

    Raises:
        UnknownNameError: For an unknown metric.
        ValueError: If the question lacks what the metric needs; the message names the question.
        MissingDependencyError: For `mmqa` without SciPy.
    """
    if metric not in _METRICS:
        raise UnknownNameError("metric", metric, _METRICS)
    try:
        return _METRICS[metric](prediction, question, scale)
    except ValueError as error:
        raise ValueError(f"question {question.id!r}: {error}") from error


def columns(scores: Sequence[Scores]) -> dict[str, NDArray[np.float64]]:
    """Return the figures of many questions, one array per name, in order of the questions.

    Raises:
        ValueError: If questions have different figures.
    """
    names = set(scores[0]) if scores else set()
    if any(set(each) != names for each in scores):
        raise ValueError("questions of one benchmark need the same figures; they have different")
    return {name: np.array([each[name] for each in scores]) for name in sorted(names)}


def squad_score(prediction: str, answers: Sequence[str]) -> AnswerScore:
    """Compare an answer as SQuAD 2, OTT-QA and MuSiQue do: EM and token F1, each the best.

    Two answers of which nothing is left after normalisation agree; one such agrees with no other.

    Args:
        prediction: The answer.
        answers: References, each of them right on its own.

    Raises:
        ValueError: Without a reference answer.

    >>> squad_score("the Alpha film", ["Beta", "Alpha"])
    AnswerScore(exact=0.0, f1=0.6666666666666666)
    """
    if not answers:
        raise ValueError("a question needs at least one reference answer")
    ours = normalised(prediction)
    theirs = [normalised(answer) for answer in answers]
    return AnswerScore(float(ours in theirs), max(_token_f1(ours, other) for other in theirs))


def hotpotqa_score(prediction: str, answers: Sequence[str]) -> AnswerScore:
    """Compare an answer as HotpotQA and 2WikiMultiHopQA do; see `answer_overlap`."""
    overlap = answer_overlap(prediction, answers)
    return AnswerScore(overlap.exact, overlap.f1)


def _token_f1(prediction: str, answer: str) -> float:
    ours, theirs = Counter(prediction.split()), Counter(answer.split())
    if not ours or not theirs:
        return float(ours == theirs)
    common = (ours & theirs).total()
    return harmonic(common / ours.total(), common / theirs.total())


def _squad(prediction: str, question: Question, _scale: str) -> Scores:
    return _named(squad_score(prediction, question.answers))


def _hotpotqa(prediction: str, question: Question, _scale: str) -> Scores:
    return _named(hotpotqa_score(prediction, question.answers))


def _tatqa(prediction: str, question: Question, scale: str) -> Scores:
    parts = answer_parts(prediction)
    return _named(
        tatqa_score(
            parts,
            question.answers,
            kind=question.kind,
            scale=question.scale,
            predicted_scale=scale,
        )
    )


def _mmqa(prediction: str, question: Question, _scale: str) -> Scores:
    return _named(mmqa_score(answer_parts(prediction), question.answers))


def _accuracy(prediction: str, question: Question, _scale: str) -> Scores:
    if not question.answers:
        raise ValueError("a multiple-choice question needs the letter of its answer")
    option = chosen_option(prediction, question.options)
    return {
        "accuracy": float(option in question.answers),
        "no_option": float(option is None),
    }


def _named(answer: AnswerScore) -> Scores:
    return {"em": answer.exact, "f1": answer.f1}


_METRICS: Mapping[str, Callable[[str, Question, str], Scores]] = {
    "squad": _squad,
    "hotpotqa": _hotpotqa,
    "tatqa": _tatqa,
    "mmqa": _mmqa,
    "accuracy": _accuracy,
}
