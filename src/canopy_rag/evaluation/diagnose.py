"""`canopy diagnose`: how well refinement decides, before a chat model is asked (P11-P14, P16)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from canopy_rag.core.protocols import Encoder
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.evaluation.bootstrap import Interval, mean_interval, ratio_interval
from canopy_rag.evaluation.diagnostics import (
    Decision,
    Kepts,
    Outcomes,
    covers_all,
    decisions,
    keep,
    outcomes,
    retrieval_recall,
    root_relative,
    whole_size,
)
from canopy_rag.evaluation.judged import Judged, encode_pool, judge
from canopy_rag.evaluation.selections import Method, methods

Setting = Literal["gold", "retrieval"]
SETTINGS: tuple[Setting, ...] = ("gold", "retrieval")
DEPTHS = (1, 3, 5, 10)
"""Ranks at which retrieval recall is reported, up to `k`."""
ALL = "all"
"""Name of the results over all benchmarks together."""
Advance = Callable[[str, int, int], None]
"""Hears the stage, how much of it is done, and how much there is (0: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One benchmark to be diagnosed."""

    name: str
    group: str
    """Benchmarks of one group are searched as one pool (P16)."""
    questions: tuple[Question, ...]
    items: Callable[[], Iterable[Item]]
    n_kept: int = 0
    """Questions of all parts whose gold was located."""
    n_total: int = 0
    """Questions in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Results by benchmark, and over all of them."""

    results: Mapping[str, Mapping[str, Any]]
    root_relative: Mapping[str, Mapping[bool, list[float]]] = field(default_factory=dict)
    """Similarities of gold items' leaves less their root's: gold ones, others (Figure 6)."""

    def to_dict(self) -> dict[str, Any]:
        """Return what `canopy diagnose --json` prints."""
        named = {name: each for name, each in self.results.items() if name != ALL}
        body: dict[str, Any] = {"benchmarks": named}
        if ALL in self.results:
            body["all"] = self.results[ALL]
        return body


def diagnose(
    tasks: Sequence[Task],
    encoder: Encoder,
    *,
    k: int = 10,
    resamples: int = 10_000,
    seed: int = 0,
    advance: Advance | None = None,
) -> Diagnosis:
    """Diagnose an encoder's refinement.

    Items of one group are encoded once and searched together; the results of one benchmark are
    those of its own questions. A gold leaf of an item that was not retrieved counts as lost in the
    curves of the setting `retrieval`, and not at all in `gold_leaf_recall` (P12).

    Args:
        tasks: The benchmarks.
        encoder: What embeds items and queries.
        k: Items retrieved per question.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        advance: Hears how far it is.
    """
    tell = advance or (lambda stage, done, total: None)
    judged: dict[str, list[Judged]] = {}
    groups: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task.group].append(task)
    for group, members in groups.items():
        n_done = 0

        def encoded(n: int, group: str = group) -> None:
            nonlocal n_done
            n_done += n
            tell(f"encoding the {group} pool", n_done, 0)

        pool = encode_pool(
            (item for task in members for item in task.items()), encoder, advance=encoded
        )
        for task in members:
            judged[task.name] = judge(task.name, task.questions, pool, encoder, k)
    names = [task.name for task in tasks]
    if len(names) > 1:
        judged[ALL] = [each for name in names for each in judged[name]]
    measured = _measure_all([each for name in names for each in judged[name]], encoder, tell)
    sampling = _Sampling(resamples, seed)
    results = {
        name: _summary(each, [measured[id(one)] for one in each], k, sampling)
        for name, each in judged.items()
        if each
    }
    return Diagnosis(
        results=results,
        root_relative={name: root_relative(each) for name, each in judged.items() if each},
    )


@dataclass(frozen=True, slots=True)
class _Sampling:
    resamples: int
    seed: int

    def mean(self, values: Sequence[float]) -> dict[str, Any]:
        """Return a mean with its interval as JSON; nulls without a value."""
        if not values:
            return {"value": None, "low": None, "high": None, "n": 0}
        return _json(mean_interval(values, resamples=self.resamples, seed=self.seed))

    def ratio(self, parts: Sequence[float], wholes: Sequence[float]) -> dict[str, Any]:
        """Return a ratio of sums with its interval as JSON; nulls where the whole is nothing."""
        if not sum(wholes):
            return {"value": None, "low": None, "high": None, "n": 0}
        return _json(ratio_interval(parts, wholes, resamples=self.resamples, seed=self.seed))


def _json(interval: Interval) -> dict[str, Any]:
    return {
        "value": round(interval.value, 5),
        "low": round(interval.low, 5),
        "high": round(interval.high, 5),
        "n": interval.n,
    }


_Measured = Mapping[tuple[Setting, str], Kepts]


def _measure_all(judged: Sequence[Judged], encoder: Encoder, tell: Advance) -> dict[int, _Measured]:
    chosen = methods()
    measured: dict[int, _Measured] = {}
    for number, each in enumerate(judged):
        tell("measuring selections", number, len(judged))
        measured[id(each)] = {
            (setting, method.name): kept
            for setting in SETTINGS
            for method, kept in _measured(each, setting, chosen, encoder)
        }
    tell("measuring selections", len(judged), len(judged))
    return measured


def _measured(
    each: Judged, setting: Setting, chosen: Sequence[Method], encoder: Encoder
) -> list[tuple[Method, Kepts]]:
    retrieved = setting == "retrieval"
    full = whole_size(each, retrieved=retrieved, count=encoder.count_tokens)
    return [
        (
            method,
            keep(each, method.select, full, retrieved=retrieved, count=encoder.count_tokens),
        )
        for method in chosen
    ]


def _summary(
    judged: Sequence[Judged], measured: Sequence[_Measured], k: int, sampling: _Sampling
) -> dict[str, Any]:
    shown = [each["retrieval", "refine"].recall_shown for each in measured]
    alone = [each["gold", "refine"].recall_shown for each in measured]
    found = decisions(judged)
    return {
        "n": len(judged),
        "decision_accuracy": _accuracy(found, sampling),
        "decision_accuracy_by": {
            "modality": _by(found, lambda each: each.modality, sampling),
            "depth": _by(found, lambda each: str(each.depth), sampling),
        },
        "gold_leaf_recall": sampling.mean([each for each in shown if each is not None]),
        "gold_leaf_recall_on_gold_items": sampling.mean(
            [each for each in alone if each is not None]
        ),
        "curves": [
            _point(setting, method, [each[setting, method.name] for each in measured], sampling)
            for setting in SETTINGS
            for method in methods()
        ],
        "outcomes": _outcome_shares(outcomes(judged), sampling),
        "root_relative": {
            "gold" if gold else "other": _quantiles(values)
            for gold, values in root_relative(judged).items()
        },
        "retrieval": {
            "recall": {
                str(depth): sampling.mean([retrieval_recall(each, depth) for each in judged])
                for depth in DEPTHS
                if depth <= k
            },
            "covers_all": sampling.mean([float(covers_all(each, k)) for each in judged]),
        },
    }


def _accuracy(found: Sequence[Decision], sampling: _Sampling) -> dict[str, Any]:
    """Return the share of correct decisions; resampled by question, `n` counts decisions."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in found:
        counts[f"{each.benchmark}\0{each.question_id}"][0] += each.correct
        counts[f"{each.benchmark}\0{each.question_id}"][1] += 1
    right, total = ([own[part] for own in counts.values()] for part in (0, 1))
    return {**sampling.ratio(right, total), "n": len(found)}


def _by(
    found: Sequence[Decision], key: Callable[[Decision], str], sampling: _Sampling
) -> dict[str, Any]:
    groups: dict[str, list[Decision]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return {name: _accuracy(own, sampling) for name, own in sorted(groups.items())}


def _point(
    setting: Setting, method: Method, kept: Sequence[Kepts], sampling: _Sampling
) -> dict[str, Any]:
    recall = sampling.mean([each.recall for each in kept])
    return {
        "setting": setting,
        "method": method.name,
        "family": method.family,
        "recall": recall["value"],
        "recall_low": recall["low"],
        "recall_high": recall["high"],
        "tokens": round(float(np.mean([each.tokens for each in kept])), 2),
        "words": round(float(np.mean([each.words for each in kept])), 2),
        "share": round(
            sum(each.tokens for each in kept) / max(1, sum(each.tokens_full for each in kept)), 5
        ),
    }


def _outcome_shares(found: Sequence[Outcomes], sampling: _Sampling) -> dict[str, Any]:
    """Return kept/split/dropped shares by modality, and how often items are kept whole (P13)."""
    shares: dict[str, Any] = {}
    for modality in sorted({each.modality for each in found}):
        counts = np.array([each.counts for each in found if each.modality == modality])
        total = counts.sum()
        shares[modality] = {
            name: round(float(value / total), 5)
            for name, value in zip(("kept", "split", "dropped"), counts.sum(axis=0), strict=True)
        } | {"n": int(total)}
    whole = {
        "gold" if gold else "non_gold": sampling.mean(
            [float(each.kept_whole) for each in found if each.gold == gold]
        )
        for gold in (True, False)
    }
    return {"by_modality": shares, "kept_whole": whole}


def _quantiles(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"n": 0}
    array = np.asarray(values)
    parts = {f"p{part}": float(np.percentile(array, part)) for part in (5, 25, 50, 75, 95)}
    return {
        "n": len(values),
        "mean": round(float(array.mean()), 5),
        **{name: round(value, 5) for name, value in parts.items()},
    }
