"""Plots of a diagnosis, after the paper's Figures 6 to 10.

Plain records in, one PNG or SVG out. A plot fits a text column (85 mm), its colours (Okabe and Ito)
are told apart by colour-blind readers and its series by marker or hatching too, and the same
records give the same file: neither date nor version is written into it. Shares are from 0 to 1 in
the records and percentages in the plots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canopy_rag.evaluation import figures
from canopy_rag.evaluation.bootstrap import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = NDArray[np.float64]
_MARKERS = "osD^vPX"
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo")
_CENTRAL = (0.005, 0.995)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One setting of a method."""

    tokens: float
    """Mean tokens of evidence per question."""
    recall: Interval
    label: str = ""
    """Written beside the point; a few letters, such as `5`, or those of neighbours overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A method by its settings, drawn by rising tokens; one point alone is a large marker."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A share with its interval: one bar."""

    group: str
    """Where it stands on the axis, such as a benchmark."""
    series: str
    """Which colour it has, such as an encoder."""
    share: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How often visited nodes are kept, split and dropped; the shares sum to 1."""

    label: str
    """A modality."""
    kept: float
    split: float
    dropped: float
    n: int
    """Visited nodes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RootRelative:
    """Similarities of nodes less that of their item's root."""

    label: str
    """A modality or benchmark."""
    gold: ArrayLike
    """Of gold regions, shape `(n,)`."""
    other: ArrayLike
    """Of the others."""


def plot_curves(
    curves: Sequence[Curve],
    path: Path,
    *,
    title: str = "Gold evidence kept against its length",
    x_label: str = "Evidence per question (tokens, logarithmic)",
    y_label: str = "Gold-leaf recall (%)",
) -> Path:
    """Draw recall against tokens, each point with its interval (Figure 7's curve in tokens).

    Args:
        curves: One per method, drawn in this order.
        path: Ends in `.png` or `.svg`; its folder is made. An existing file is replaced.
        title: Above the plot.
        x_label: With the unit.
        y_label: With the unit.

    Returns:
        The path.

    Raises:
        ValueError: Without curves, for one without points or with tokens of 0 or less, or for
            another file name.
        MissingDependencyError: Without matplotlib.
    """
    for curve in curves:
        if not curve.points or min(point.tokens for point in curve.points) <= 0:
            raise ValueError(f"curve {curve.name!r} needs points, each with more than 0 tokens")
    with figures.saved_figure(path, curves, height_in=2.7) as figure:
        axes = figures.labelled_axes(figure, title, x_label, y_label)
        for index, curve in enumerate(curves):
            _draw_curve(axes, curve, index)
        figures.percent_axis(axes)
        axes.grid(visible=True, axis="both")
        figures.token_axis(axes)
        figures.legend_below(figure, axes)
    return path


def plot_decision_accuracy(
    bars: Sequence[Bar], path: Path, *, title: str = "Decision accuracy"
) -> Path:
    """Draw shares of right decisions by benchmark and encoder, with whiskers (Figure 8).

    Args and errors are those of `plot_bars`.
    """
    return plot_bars(bars, path, title=title, y_label="Right decisions (%)")


def plot_kept_whole(bars: Sequence[Bar], path: Path, *, title: str = "Items kept whole") -> Path:
    """Draw the rates at which gold and other items are kept whole, with whiskers (Figure 10).

    Args and errors are those of `plot_bars`; the series are `gold` and `non-gold`.
    """
    return plot_bars(bars, path, title=title, y_label="Items kept whole (%)")


def plot_bars(bars: Sequence[Bar], path: Path, *, title: str, y_label: str) -> Path:
    """Draw shares with whiskers, in groups of one bar per series.

    Args:
        bars: Groups and series stand in the order of their first bar; a bar may be missing.
        path: As in `plot_curves`.
        title: Above the plot.
        y_label: With the unit.

    Returns:
        The path.

    Raises:
        ValueError: Without bars, for two of one group and series, or for another file name.
        MissingDependencyError: Without matplotlib.
    """
    groups = list(dict.fromkeys(bar.group for bar in bars))
    series = list(dict.fromkeys(bar.series for bar in bars))
    if len({(bar.group, bar.series) for bar in bars}) < len(bars):
        raise ValueError("two bars have the same group and series")
    with figures.saved_figure(path, bars, height_in=2.3) as figure:
        axes = figures.labelled_axes(figure, title, "", y_label)
        width = 0.8 / len(series)
        for index, name in enumerate(series):
            own = [bar for bar in bars if bar.series == name]
            offset = (index - (len(series) - 1) / 2) * width
            _draw_bars(axes, own, [groups.index(bar.group) + offset for bar in own], width, index)
        _group_labels(axes, groups)
        figures.percent_axis(axes)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, axis="y")
        figures.legend_below(figure, axes)
    return path


def plot_outcomes(
    outcomes: Sequence[Outcomes], path: Path, *, title: str = "What refinement does with a node"
) -> Path:
    """Draw kept, split and dropped shares of visited nodes as stacked bars (Figure 9).

    Args:
        outcomes: One per bar, from top to bottom.
        path: As in `plot_curves`.
        title: Above the plot.

    Returns:
        The path.

    Raises:
        ValueError: Without bars, for shares that do not sum to 1, or for another file name.
        MissingDependencyError: Without matplotlib.
    """
    for each in outcomes:
        if abs(each.kept + each.split + each.dropped - 1) > 1e-6:
            raise ValueError(f"the shares of {each.label!r} do not sum to 1")
    with figures.saved_figure(path, outcomes, height_in=0.95 + 0.3 * len(outcomes)) as figure:
        axes = figures.labelled_axes(figure, title, "Share of visited nodes (%)", "")
        left = np.zeros(len(outcomes))
        rows = np.arange(len(outcomes))
        for name, color, text in (
            ("kept", figures.BLUE, "white"),
            ("split", figures.SKY, "black"),
            ("dropped", figures.GREY, "black"),
        ):
            shares = np.array([getattr(each, name) for each in outcomes]) * 100
            axes.barh(rows, shares, left=left, height=0.65, color=color, label=name)
            for row, share, start in zip(rows, shares, left, strict=True):
                if share >= 6:
                    middle = (start + share / 2, row)
                    axes.annotate(
                        f"{share:.0f}",
                        middle,
                        ha="center",
                        va="center",
                        color=text,
                        fontsize=figures.SMALL_PT,
                    )
            left += shares
        axes.set_yticks(rows, [f"{each.label}\n(n = {each.n:,})" for each in outcomes])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figures.legend_below(figure, axes)
    return path


def plot_root_relative(
    distributions: Sequence[RootRelative],
    path: Path,
    *,
    title: str = "Similarity relative to the item's root",
) -> Path:
    """Draw how root-relative similarities of gold and other regions are distributed (Figure 6).

    One panel per label, each distribution with area 1 and its median as a dashed line; what lies
    beyond the axis, at most 1 % of a distribution, is not drawn.

    Args:
        distributions: One per panel, from top to bottom.
        path: As in `plot_curves`.
        title: Above the plot.

    Returns:
        The path.

    Raises:
        ValueError: Without panels, if a panel has no value at all, or for another file name.
        MissingDependencyError: Without matplotlib.
    """
    values = [(_finite(each.gold, each), _finite(each.other, each)) for each in distributions]
    for each, (gold, other) in zip(distributions, values, strict=True):
        if not len(gold) + len(other):
            raise ValueError(f"{each.label!r} has no similarity to draw")
    with figures.saved_figure(
        path, distributions, height_in=0.8 + 0.85 * len(distributions)
    ) as figure:
        ends = [np.quantile(part, _CENTRAL) for pair in values for part in pair if len(part)]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        edges = np.linspace(min(low, 0.0) - 1e-3, max(high, 0.0) + 1e-3, 31)
        panels = figure.subplots(len(distributions), 1, sharex=True, squeeze=False)[:, 0]
        for axes, each, (gold, other) in zip(panels, distributions, values, strict=True):
            _draw_density(axes, other, edges, figures.BLUE, "non-gold", filled=True)
            _draw_density(axes, gold, edges, figures.ORANGE, "gold", filled=False)
            axes.axvline(0, color=figures.BLACK, linewidth=0.6)
            axes.set_yticks([])
            axes.set_ylabel(
                f"{each.label}\n{len(gold):,} gold\n{len(other):,} non-gold",
                rotation=0,
                ha="right",
                va="center",
            )
            axes.spines["left"].set_visible(False)
        figure.suptitle(title)
        panels[-1].set_xlabel("Similarity of the node less that of the root (cosine)")
        figures.legend_below(figure, panels[0])
    return path


def _draw_curve(axes: Axes, curve: Curve, index: int) -> None:
    points = sorted(curve.points, key=lambda point: point.tokens)
    y, whiskers = _percent([point.recall for point in points])
    color = figures.SERIES[index % len(figures.SERIES)]
    alone = len(points) == 1
    axes.errorbar(
        [point.tokens for point in points],
        y,
        yerr=whiskers,
        label=curve.name,
        color=color,
        marker=_MARKERS[index % len(_MARKERS)],
        markersize=6 if alone else 3.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linestyle="none" if alone else "-",
        linewidth=1.1,
        elinewidth=0.7,
        capsize=1.5,
        zorder=4 if alone else 3,
    )
    above = index % 2 == 0
    for point, height in zip(points, y, strict=True):
        label = axes.annotate(
            point.label,
            (point.tokens, height),
            xytext=(-3, 2) if above else (3, -2),
            textcoords="offset points",
            ha="right" if above else "left",
            va="bottom" if above else "top",
            fontsize=5.5,
            color=color,
            zorder=5,
        )
        figures.outline(label)


def _draw_bars(
    axes: Axes, bars: Sequence[Bar], places: Sequence[float], width: float, index: int
) -> None:
    heights, whiskers = _percent([bar.share for bar in bars])
    axes.bar(
        places,
        heights,
        width=width * 0.94,
        yerr=whiskers,
        label=bars[0].series,
        color=figures.SERIES[index % len(figures.SERIES)],
        hatch=_HATCHES[index % len(_HATCHES)],
        edgecolor="white",
        linewidth=0,
        error_kw={"elinewidth": 0.8, "capsize": 2, "capthick": 0.8, "ecolor": figures.BLACK},
    )


def _group_labels(axes: Axes, groups: Sequence[str]) -> None:
    crowded = len(groups) > 6 or max(map(len, groups)) * len(groups) > 44
    axes.set_xticks(range(len(groups)), groups)
    for label in axes.get_xticklabels() if crowded else ():
        label.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)


def _draw_density(
    axes: Axes, values: Numbers, edges: Numbers, color: str, name: str, *, filled: bool
) -> None:
    if not len(values):
        return
    axes.hist(
        values,
        bins=edges.tolist(),
        density=True,
        histtype="stepfilled" if filled else "step",
        color=color,
        alpha=0.4 if filled else 1,
        linewidth=1.4,
        label=name,
    )
    axes.axvline(float(np.median(values)), color=color, linewidth=1, linestyle="--")


def _percent(shares: Sequence[Interval]) -> tuple[Numbers, Numbers]:
    """Return values, and the lengths of their whiskers below and above, shape `(2, n)`."""
    values = np.array([share.value for share in shares])
    low = np.array([share.low for share in shares])
    high = np.array([share.high for share in shares])
    return values * 100, np.stack([values - low, high - values]).clip(min=0) * 100


def _finite(values: ArrayLike, distribution: RootRelative) -> Numbers:
    column = np.asarray(values, np.float64).ravel()
    if not np.isfinite(column).all():
        raise ValueError(f"{distribution.label!r} has a similarity that is not a finite number")
    return column
