"""The paper's Figures 6 to 10, from the numbers of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from canopy_rag.evaluation.bootstrap import Interval
from canopy_rag.evaluation.plots import (
    Bar,
    Curve,
    CurvePoint,
    Outcomes,
    RootRelative,
    plot_bars,
    plot_curves,
    plot_decision_accuracy,
    plot_outcomes,
    plot_root_relative,
)
from canopy_rag.evaluation.report.tables import CANOPY, ROUTED, Summary
from canopy_rag.evaluation.results import Results

ENDINGS = (".png", ".svg")
_SINGLE = (CANOPY, ROUTED, "canopy-norefine", "vanilla")
"""Methods that are one point each in Figure 7."""
_GROUPS = ("in_domain", "extra", "out_of_domain")
"""The first of these that a run has is the one whose pool Figures 6 to 10 are of."""
Draw = Callable[[Path], Path]


def figures(runs: Sequence[tuple[Summary, Results]], folder: Path) -> list[Path]:
    """Draw every figure that there are numbers for, as PNG and SVG.

    Args:
        runs: With their numbers; Figures 6 and 9 are of the first run that has them.
        folder: Where to; files of the same name are replaced.

    Raises:
        MissingDependencyError: If the `eval` extra is not installed.
    """
    drawn: list[Path] = []
    for name, draw in (
        ("figure-6", _root_relative(runs)),
        ("figure-7", _quality(runs)),
        ("figure-8", _decisions(runs)),
        ("figure-9", _outcomes(runs)),
        ("figure-10", _kept_whole(runs)),
    ):
        if draw is not None:
            drawn += [draw(folder / f"{name}{ending}") for ending in ENDINGS]
    return drawn


def group_of(run: Summary) -> str:
    """Return the group of benchmarks that the figures are of."""
    there = {each["group"] for each in run.benchmarks().values()}
    return next(group for group in _GROUPS if group in there)


def _root_relative(runs: Sequence[tuple[Summary, Results]]) -> Draw | None:
    """Figure 6: similarities of gold items' leaves less their root's, by modality."""
    for run, results in runs:
        names = run.benchmarks(group_of(run))
        found: dict[str, dict[str, list[float]]] = {}
        for (benchmark, method), table in results.tables.items():
            if benchmark in names and method == CANOPY:
                for modality, parts in table.root_relative.items():
                    own = found.setdefault(modality, {"gold": [], "other": []})
                    for part, values in parts.items():
                        own[part] += values
        panels = [
            RootRelative(label=modality, gold=parts["gold"], other=parts["other"])
            for modality, parts in sorted(found.items())
            if parts["gold"] and parts["other"]
        ]
        if panels:
            return partial(plot_root_relative, panels)
    return None


def _quality(runs: Sequence[tuple[Summary, Results]]) -> Draw | None:
    """Figure 7: quality against tokens, flat selection as a curve, averaged over benchmarks."""
    curves: list[Curve] = []
    for run, _ in runs:
        pooled = run.metrics["pooled"][group_of(run)]
        prefix = f"{run.run}: " if len(runs) > 1 else ""
        points: dict[str, list[CurvePoint]] = {}
        for method, found in pooled.items():
            name, label = _curve_of(method)
            if not name or found["quality"] is None or not found["evidence_tokens"]["value"]:
                continue
            points.setdefault(name, []).append(
                CurvePoint(
                    tokens=found["evidence_tokens"]["value"],
                    recall=Interval(**found["quality"]),
                    label=label,
                )
            )
        curves += [Curve(name=f"{prefix}{name}", points=tuple(own)) for name, own in points.items()]
    if not curves:
        return None
    return lambda path: plot_curves(
        curves,
        path,
        title="Answer quality against evidence",
        y_label="Mean of F1 and accuracy (%)",
    )


def _curve_of(method: str) -> tuple[str, str]:
    """Return the curve that a method is a point of, and the point's label; empty: of none."""
    head, _, rest = method.partition(":")
    if head == "flat":
        given = dict(pair.split("=", 1) for pair in rest.split(",") if pair)
        m, encoder = given.pop("m", "5"), given.pop("encoder", "f_theta")
        return ("", "") if given else (f"flat, {encoder}", m)
    return (method, "") if method in _SINGLE else ("", "")


def _decisions(runs: Sequence[tuple[Summary, Results]]) -> Draw | None:
    """Figure 8: decision accuracy by benchmark and encoder."""
    bars: list[Bar] = []
    seen: set[tuple[str, str]] = set()
    models = [run.config["models"]["encoder"] for run, _ in runs]
    for run, _ in runs:
        # No chat model decides here: runs of one encoder have the same figures.
        prefix = "" if all(each == models[0] for each in models) else f"{run.run}: "
        for name, each in run.benchmarks().items():
            for role, found in sorted(each["decision_accuracy"].items()):
                series = f"{prefix}{role}"
                if found is not None and (name, series) not in seen:
                    seen.add((name, series))
                    bars.append(Bar(group=name, series=series, share=Interval(**found)))
    return (lambda path: plot_decision_accuracy(bars, path)) if bars else None


def _outcomes(runs: Sequence[tuple[Summary, Results]]) -> Draw | None:
    """Figure 9: kept, split and dropped shares of visited nodes, by modality."""
    for run, results in runs:
        names = run.benchmarks(group_of(run))
        bars: list[Outcomes] = []
        for method, mark in ((CANOPY, ""), (ROUTED, ", routed")):
            sums: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
            for (benchmark, own), table in results.tables.items():
                if benchmark in names and own == method:
                    for modality, counts in table.outcomes.items():
                        sums[modality] = sums.get(modality, np.zeros(3, np.int64)) + counts
            bars += [
                Outcomes(
                    label=f"{modality}{mark}",
                    kept=float(counts[0] / counts.sum()),
                    split=float(counts[1] / counts.sum()),
                    dropped=float(counts[2] / counts.sum()),
                    n=int(counts.sum()),
                )
                for modality, counts in sorted(sums.items())
            ]
        if bars:
            return partial(plot_outcomes, bars)
    return None


def _kept_whole(runs: Sequence[tuple[Summary, Results]]) -> Draw | None:
    """Figure 10: how often gold and other items are kept whole, by benchmark."""
    bars = list(_whole_bars(runs))
    if not bars:
        return None
    return lambda path: plot_bars(bars, path, title="Items kept whole", y_label="Kept whole (%)")


def _whole_bars(runs: Sequence[tuple[Summary, Results]]) -> Iterator[Bar]:
    for run, _ in runs:
        prefix = f"{run.run}: " if len(runs) > 1 else ""
        for name, each in run.benchmarks().items():
            for method, mark in ((CANOPY, ""), (ROUTED, ", routed")):
                own = each["methods"].get(method)
                for kind, label in (("gold", "gold"), ("non_gold", "non-gold")):
                    found = own and own["kept_whole"][kind]
                    if found is not None and own is not None:
                        series = f"{label}{mark}"
                        yield Bar(group=f"{prefix}{name}", series=series, share=Interval(**found))
