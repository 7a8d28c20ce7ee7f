"""The plots of a diagnosis: the paper's Figures 6, 8, 9 and 10, and Figure 7's curve in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from canopy_rag.evaluation.bootstrap import Interval
from canopy_rag.evaluation.diagnose import ALL, SETTINGS, Diagnosis, Setting
from canopy_rag.evaluation.plots import (
    Bar,
    Curve,
    CurvePoint,
    Outcomes,
    RootRelative,
    plot_curves,
    plot_decision_accuracy,
    plot_kept_whole,
    plot_outcomes,
    plot_root_relative,
)

_WHAT = {"gold": "on the gold items alone", "retrieval": "over the retrieved items"}


def plot_diagnosis(diagnosis: Diagnosis, folder: Path) -> list[Path]:
    """Draw all plots of a diagnosis as PNG; what has no data is left out.

    Args:
        diagnosis: Results by benchmark.
        folder: Where to; made when missing, files of the same name are replaced.

    Raises:
        MissingDependencyError: If the `eval` extra is not installed.
    """
    results = diagnosis.results
    drawn: list[Path] = []
    for name, result in results.items():
        drawn.extend(
            plot_curve(diagnosis, name, setting, folder / f"curve-{name}-{setting}.png")
            for setting in SETTINGS
            if _curves(result, setting)
        )
    bars = list(_bars(results, "decision_accuracy"))
    if bars:
        drawn.append(plot_decision_accuracy(bars, folder / "decision-accuracy.png"))
    whole = list(_whole(results))
    if whole:
        drawn.append(plot_kept_whole(whole, folder / "kept-whole.png"))
    shares = _outcomes(results[ALL] if ALL in results else next(iter(results.values())))
    if shares:
        drawn.append(plot_outcomes(shares, folder / "outcomes.png"))
    distributions = [
        RootRelative(label=name, gold=parts[True], other=parts[False])
        for name, parts in diagnosis.root_relative.items()
        if name != ALL and parts[True] and parts[False]
    ]
    if distributions:
        drawn.append(plot_root_relative(distributions, folder / "root-relative.png"))
    return drawn


def plot_curve(diagnosis: Diagnosis, name: str, setting: Setting, path: Path) -> Path:
    """Draw gold kept against tokens, a curve per family of selections (Figure 7, in tokens).

    Args:
        diagnosis: Results by benchmark.
        name: Which benchmark, or `all`.
        setting: On the gold items alone, or over the retrieved ones.
        path: Where to.
    """
    curves = _curves(diagnosis.results[name], setting)
    return plot_curves(curves, path, title=f"{name}: gold kept {_WHAT[setting]}")


def _curves(result: Mapping[str, Any], setting: str) -> list[Curve]:
    points: dict[str, list[CurvePoint]] = {}
    for point in result["curves"]:
        if point["setting"] != setting:
            continue
        recall = Interval(
            value=point["recall"],
            low=point["recall_low"],
            high=point["recall_high"],
            n=result["n"],
        )
        label = point["method"].partition("-")[2]
        points.setdefault(point["family"], []).append(
            CurvePoint(tokens=point["tokens"], recall=recall, label=label)
        )
    return [Curve(name=family, points=tuple(own)) for family, own in points.items()]


def _bars(results: Mapping[str, Mapping[str, Any]], key: str) -> Iterable[Bar]:
    for name, result in results.items():
        if result[key]["value"] is not None:
            yield Bar(group=name, series="decision accuracy", share=Interval(**result[key]))


def _whole(results: Mapping[str, Mapping[str, Any]]) -> Iterable[Bar]:
    for name, result in results.items():
        for series, key in (("gold", "gold"), ("non-gold", "non_gold")):
            share = result["outcomes"]["kept_whole"][key]
            if share["value"] is not None:
                yield Bar(group=name, series=series, share=Interval(**share))


def _outcomes(result: Mapping[str, Any]) -> list[Outcomes]:
    drawn: list[Outcomes] = []
    for modality, share in result["outcomes"]["by_modality"].items():
        total = share["kept"] + share["split"] + share["dropped"]  # not 1 after rounding
        kept, split, dropped = (share[name] / total for name in ("kept", "split", "dropped"))
        drawn.append(
            Outcomes(label=modality, kept=kept, split=split, dropped=dropped, n=share["n"])
        )
    return drawn
