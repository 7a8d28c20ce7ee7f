"""The numbers of `docs/diagnosis.md`, from the results of `benchmarks/bench_diagnosis.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAPER_FROZEN = {"nq": 35.0, "hotpotqa": 43.0, "ottqa": 35.6}
"""Decision accuracy of the paper's frozen 2B encoder, percent (P11)."""
SPIKE = {"nq": 38.4, "hotpotqa": 44.8, "ottqa": 31.4}
"""The first experiment's, frozen MiniLM with late pooling, percent."""
CURVE = (
    *("refine", "set", "flat-1", "flat-2", "flat-3", "flat-5", "global-5", "global-12"),
    *("global-24", "above-mean", "above-mean+sd", "whole-1", "whole-3", "whole-10"),
)


def tables(results: Path) -> str:
    """Return the generated part of the page as Markdown."""
    late, node = (
        json.loads((results / f"diagnosis-{mode}.json").read_text("utf-8"))
        for mode in ("late", "node")
    )
    parts = [
        f"Measured with `{late['encoder']}` (weights {late['fingerprint']}), k = {late['k']}, "
        f"pools with at most {late['max_items']:,} items a benchmark besides the gold ones. "
        f"Intervals: {late['interval']}. Both modes ran side by side on {late['machine']}: "
        f"late {late['seconds']:.0f} s, per node {node['seconds']:.0f} s.",
        "## Decision accuracy (P11)",
        _decisions(late, node),
        "By depth of the node, all benchmarks, late pooling: " + _depths(late["all"]) + ".",
        "## Retrieval, and gold-leaf recall of refinement (P12)",
        _recall(late),
        "## Gold kept against tokens",
        "All benchmarks together, late pooling. *Gold items*: the selection sees the question's "
        "gold items alone. *Retrieved*: it sees the k retrieved items, and gold of items that were "
        "not retrieved counts as lost.",
        _curve(late["all"]),
        "![Gold kept against tokens](assets/diagnosis-curve.png)",
        "The same over the retrieved items, by benchmark:",
        _by_benchmark(late),
        "## What refinement does (P13)",
        _outcomes(late["all"]),
    ]
    return "\n\n".join(parts)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([_row(*head), _row(*("---" for _ in head)), *rows])


def _share(interval: Mapping[str, Any]) -> str:
    if interval["value"] is None:
        return "-"
    value, low, high = (100 * interval[key] for key in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def _named(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {**body["benchmarks"], "all": body["all"]}


def _decisions(late: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    other = _named(node)
    rows = [
        _row(
            name,
            f"{result['decision_accuracy']['n']:,}",
            _share(result["decision_accuracy"]),
            _share(other[name]["decision_accuracy"]),
            f"{SPIKE[name]:.1f}" if name in SPIKE else "",
            f"{PAPER_FROZEN[name]:.1f}" if name in PAPER_FROZEN else "",
        )
        for name, result in _named(late).items()
    ]
    head = ("", "decisions", "late %", "per node %", "first experiment %", "paper's f0 (2B) %")
    return _table(head, rows)


def _depths(result: Mapping[str, Any]) -> str:
    by_depth = result["decision_accuracy_by"]["depth"]
    ordered = sorted(by_depth.items(), key=lambda each: int(each[0]))
    return ", ".join(
        f"{depth}: {100 * each['value']:.1f} % of {each['n']:,}" for depth, each in ordered
    )


def _recall(late: Mapping[str, Any]) -> str:
    rows = [
        _row(
            name,
            f"{result['n']:,}",
            _share(result["retrieval"]["recall"]["1"]),
            _share(result["retrieval"]["recall"]["10"]),
            _share(result["retrieval"]["covers_all"]),
            _share(result["gold_leaf_recall"]),
            _share(result["gold_leaf_recall_on_gold_items"]),
        )
        for name, result in _named(late).items()
    ]
    head = ("", "questions", "gold items in 1 %", "in 10 %", "all hops in 10 %")
    return _table((*head, "gold-leaf recall %", "on gold items %"), rows)


def _points(result: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(point["setting"], point["method"]): point for point in result["curves"]}


def _interval(point: Mapping[str, Any]) -> str:
    parts = {"value": "recall", "low": "recall_low", "high": "recall_high"}
    return _share({name: point[key] for name, key in parts.items()})


def _curve(result: Mapping[str, Any]) -> str:
    points = _points(result)
    rows = []
    for method in CURVE:
        own, found = points["gold", method], points["retrieval", method]
        rows.append(
            _row(
                f"`{method}`",
                _interval(own),
                f"{own['tokens']:,.0f}",
                _interval(found),
                f"{found['tokens']:,.0f}",
                f"{100 * found['share']:.0f}",
            )
        )
    head = ("selection", "gold items: kept %", "tokens", "retrieved: kept %", "tokens", "share %")
    return _table(head, rows)


def _by_benchmark(late: Mapping[str, Any]) -> str:
    names = list(late["benchmarks"])
    points = {name: _points(late["benchmarks"][name]) for name in names}
    rows = [
        _row(
            f"`{method}`",
            *(
                f"{100 * point['recall']:.0f} at {point['tokens']:,.0f}"
                for point in (points[name]["retrieval", method] for name in names)
            ),
        )
        for method in CURVE
    ]
    return _table(("% kept at tokens", *names), rows)


def _outcomes(result: Mapping[str, Any]) -> str:
    outcomes = result["outcomes"]
    rows = [
        _row(modality, *(f"{100 * share[name]:.1f}" for name in ("kept", "split", "dropped")))
        for modality, share in outcomes["by_modality"].items()
    ]
    whole, relative = outcomes["kept_whole"], result["root_relative"]
    return "\n\n".join(
        [
            _table(("visited nodes", "kept %", "split %", "dropped %"), rows),
            f"Kept whole: {_share(whole['gold'])} % of gold items and "
            f"{_share(whole['non_gold'])} % of "
            "the others. Similarity of a leaf less its root's, median (5th to 95th percentile): "
            f"gold {_quantiles(relative['gold'])}, others {_quantiles(relative['other'])}.",
        ]
    )


def _quantiles(parts: Mapping[str, Any]) -> str:
    return f"{parts['p50']:+.3f} ({parts['p5']:+.3f} to {parts['p95']:+.3f})"
