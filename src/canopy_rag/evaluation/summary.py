"""`metrics.json`: every figure of a run with its interval, from unrounded values (P17)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canopy_rag.evaluation.bootstrap import (
    RESAMPLES,
    Interval,
    difference_interval,
    mean_interval,
    ratio_interval,
)
from canopy_rag.evaluation.latency import Batch
from canopy_rag.evaluation.results import Decided, Numbers, Results, Table, shared

FORMAT = 1
SCORES = ("em", "f1", "accuracy", "no_option")
_MEANS = (*SCORES, "evidence_tokens", "llm_calls", "rounds", "hop_coverage", "gold_leaf_recall")
_PLAIN_MEANS = ("evidence_tokens_full", "prompt_tokens", "completion_tokens", "cost")
BASES = ("vanilla", "canopy")
"""Methods that all others are compared with."""
_QUANTILES = (5, 25, 50, 75, 95)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How intervals are drawn."""

    resamples: int = RESAMPLES
    seed: int = 0

    def mean(self, values: Numbers, strata: Sequence[str] | None = None) -> Json | None:
        """Return the mean of the known values with its interval; None without one."""
        known = np.isfinite(values)
        if not known.any():
            return None
        own = None if strata is None else [strata[row] for row in np.flatnonzero(known).tolist()]
        return self.json(
            mean_interval(values[known], benchmarks=own, resamples=self.resamples, seed=self.seed)
        )

    def ratio(self, parts: Numbers, wholes: Numbers) -> Json | None:
        """Return a ratio of sums with its interval; None where the whole is nothing."""
        known = np.isfinite(parts) & np.isfinite(wholes)
        if not wholes[known].sum():
            return None
        return self.json(
            ratio_interval(parts[known], wholes[known], resamples=self.resamples, seed=self.seed)
        )

    def difference(self, first: Numbers, second: Numbers) -> Json | None:
        """Return the mean of paired differences with its interval; None without a pair."""
        if not len(first):
            return None
        return self.json(
            difference_interval(first, second, resamples=self.resamples, seed=self.seed)
        )

    def json(self, interval: Interval) -> Json:
        """Return an interval as JSON, unrounded."""
        return dict(interval.to_dict())


def quality(results: Results, benchmark: str) -> str:
    """Return the figure that stands for a benchmark: `accuracy` or `f1`."""
    return "accuracy" if results.metric(benchmark) == "accuracy" else "f1"


def summarise(results: Results, *, resamples: int = RESAMPLES, seed: int = 0) -> Json:
    """Return what is written to `metrics.json`; `docs/evaluate.md` tells the fields.

    Args:
        results: The numbers of a run.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
    """
    sampling = Sampling(resamples=resamples, seed=seed)
    benchmarks = {name: _benchmark(results, name, sampling) for name in results.benchmarks}
    groups = dict.fromkeys(each["group"] for each in benchmarks.values())
    return {
        "format": FORMAT,
        "interval": f"95 %, bootstrap over questions, {resamples:,} resamples, seed {seed}",
        "reader": results.config["models"]["llm"],
        "encoder": results.config["models"]["encoder"]["name"],
        "oracle": results.config["models"]["llm"].startswith("oracle"),
        "benchmarks": benchmarks,
        "pooled": {group: _pooled(results, group, sampling) for group in groups},
        "pooled_decisions": {
            group: _pooled_decisions(results, group, sampling) for group in groups
        },
        "differences": _differences(results, sampling),
    }


def _benchmark(results: Results, name: str, sampling: Sampling) -> Json:
    about = results.config["benchmarks"][name]
    decided = {
        encoder: _decided(own, sampling)
        for (benchmark, encoder), own in results.decided.items()
        if benchmark == name
    }
    methods = {
        method: _method(results, name, method, table, sampling)
        for (benchmark, method), table in results.tables.items()
        if benchmark == name
    }
    return {
        "n": about["n_questions"],
        "metric": about["metric"],
        "group": about["group"],
        "decision_accuracy": decided,
        "methods": methods,
    }


def _decided(own: Decided, sampling: Sampling) -> Json | None:
    right, total = np.array(own.right, float), np.array(own.total, float)
    found = sampling.ratio(right, total)
    return None if found is None else {**found, "n": int(total.sum())}


def _method(
    results: Results, benchmark: str, method: str, table: Table, sampling: Sampling
) -> Json:
    figure = quality(results, benchmark)
    seconds = {stage: value / len(table) for stage, value in sorted(table.seconds.items())}
    return {
        "n": len(table),
        "n_failed": results.failed.get((benchmark, method), 0),
        **{name: sampling.mean(table.column(name)) for name in _MEANS},
        **{name: _plain(table.column(name)) for name in _PLAIN_MEANS},
        "tokens_are": "exact" if table.exact else "estimated",
        "amortized_latency_s": latency(
            [
                each
                for each in results.batches
                if (each.benchmark, each.method) == (benchmark, method)
            ]
        ),
        "seconds": seconds,
        "held_share": sampling.ratio(table.column("held_hits"), table.column("follow_up_hits")),
        "stop": dict(table.stops.most_common()),
        "fallbacks": dict(table.fallbacks.most_common()),
        "routing": _routing(table, figure),
        "outcomes": _outcomes(table.outcomes),
        "kept_whole": {
            kind: sampling.ratio(table.column(f"whole_{kind}"), table.column(f"refined_{kind}"))
            for kind in ("gold", "non_gold")
        },
        "root_relative": {
            modality: {part: _quantiles(values) for part, values in parts.items()}
            for modality, parts in sorted(table.root_relative.items())
        },
        "by_kind": _by_kind(table, figure, sampling),
    }


def latency(batches: Sequence[Batch]) -> Json | None:
    """Return the amortised latency over batches whose replies all came from the model.

    Args:
        batches: Of one method.

    Returns:
        Seconds per question, the questions and batches that it rests on, and the seconds per
        question with vector search; None if each batch had a reply from the cache.
    """
    own = [each for each in batches if not each.n_cached and each.n]
    n = sum(each.n for each in own)
    if not n:
        return None
    return {
        "value": sum(each.counted_s for each in own) / n,
        "with_search": sum(each.wall_s for each in own) / n,
        "n": n,
        "n_batches": len(own),
    }


def _plain(values: Numbers) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _routing(table: Table, figure: str) -> Json | None:
    """Return how often round 1 was routed where, and how good the answers are there."""
    if not any(table.routes):
        return None
    values = table.column(figure)
    found: Json = {}
    for route, n in Counter(table.routes).most_common():
        rows = np.array([own == route for own in table.routes])
        found[route or "all"] = {"share": n / len(table), "n": n, figure: _plain(values[rows])}
    return found


def _outcomes(counts: Mapping[str, Sequence[int]]) -> Json:
    """Return kept, split and dropped shares of visited nodes by modality (P13)."""
    found: Json = {}
    for modality, own in sorted(counts.items()):
        total = sum(own)
        shares = zip(("kept", "split", "dropped"), own, strict=True)
        found[modality] = {name: count / total for name, count in shares} | {"n": total}
    return found


def _quantiles(values: Sequence[float]) -> Json:
    if not values:
        return {"n": 0}
    found = np.percentile(values, _QUANTILES)
    return {
        "n": len(values),
        "mean": math.fsum(values) / len(values),  # the same in every order
        **{f"p{part}": float(value) for part, value in zip(_QUANTILES, found, strict=True)},
    }


def _by_kind(table: Table, figure: str, sampling: Sampling) -> Json:
    kinds = np.array(table.kinds)
    found: Json = {}
    for kind in sorted(set(table.kinds)):
        rows = kinds == kind
        found[kind] = {
            "n": int(rows.sum()),
            figure: sampling.mean(table.column(figure)[rows]),
            **{
                name: _plain(table.column(name)[rows])
                for name in (*_MEANS, *_PLAIN_MEANS)
                if name != figure
            },
            "held_share": _share(table, "held_hits", "follow_up_hits", rows),
            "routing": _routing_shares(table, rows),
        }
    return found


def _share(table: Table, part: str, whole: str, rows: Any) -> float | None:
    total = float(np.nansum(table.column(whole)[rows]))
    return float(np.nansum(table.column(part)[rows])) / total if total else None


def _routing_shares(table: Table, rows: Any) -> Json | None:
    routes = [route for route, chosen in zip(table.routes, rows, strict=True) if chosen]
    if not any(routes):
        return None
    return {route or "all": n / len(routes) for route, n in Counter(routes).most_common()}


def _pooled(results: Results, group: str, sampling: Sampling) -> Json:
    """Return figures over the benchmarks of a group; a method not run on each of them is left out.

    Quality, tokens and calls are means of the benchmarks' means (Figure 7). Gold-leaf recall is one
    mean over all questions that have it (P12), shares are ratios of sums (P17).
    """
    names = results.of(group)
    found: Json = {}
    for method in results.methods:
        own = [results.tables.get((name, method)) for name in names]
        if any(table is None for table in own):
            continue
        tables = [table for table in own if table is not None]
        strata = [name for name, table in zip(names, tables, strict=True) for _ in table.ids]
        scores = [
            table.column(quality(results, name)) for name, table in zip(names, tables, strict=True)
        ]
        found[method] = {
            "benchmarks": names,
            "quality": sampling.mean(np.concatenate(scores), strata),
        }

        def column(name: str, tables: Sequence[Table] = tables) -> Numbers:
            return np.concatenate([table.column(name) for table in tables])

        for name in ("evidence_tokens", "llm_calls"):
            found[method][name] = sampling.mean(column(name), strata)
        found[method] |= {
            "gold_leaf_recall": sampling.mean(column("gold_leaf_recall")),
            "held_share": sampling.ratio(column("held_hits"), column("follow_up_hits")),
            "kept_whole": {
                kind: sampling.ratio(column(f"whole_{kind}"), column(f"refined_{kind}"))
                for kind in ("gold", "non_gold")
            },
        }
    return found


def _pooled_decisions(results: Results, group: str, sampling: Sampling) -> Json:
    """Return the share of right decisions over the benchmarks of a group, by encoder (P11)."""
    names = results.of(group)
    found: Json = {}
    for encoder in ("f0", "f_theta"):
        own = [results.decided.get((name, encoder)) for name in names]
        each = [decided for decided in own if decided is not None]
        if each and len(each) == len(names):
            everything = Decided(
                right=[n for decided in each for n in decided.right],
                total=[n for decided in each for n in decided.total],
            )
            found[encoder] = _decided(everything, sampling)
    return found


def _differences(results: Results, sampling: Sampling) -> list[Json]:
    """Return paired differences of every method to the bases, benchmark by benchmark."""
    found: list[Json] = []
    for base in BASES:
        for (benchmark, method), table in results.tables.items():
            other = results.tables.get((benchmark, base))
            if other is None or method == base:
                continue
            score = quality(results, benchmark)
            for figure in dict.fromkeys(
                (*(("em",) if score == "f1" else ()), score, "evidence_tokens")
            ):
                interval = sampling.difference(*shared(table, other, figure))
                if interval is not None:
                    found.append(
                        {
                            "benchmark": benchmark,
                            "method": method,
                            "to": base,
                            "figure": figure,
                            **interval,
                        }
                    )
    return found
