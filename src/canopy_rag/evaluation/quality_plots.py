"""Gold-leaf recall against evidence tokens, a panel per data set, from a benchmark's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag._optional import require
from canopy_rag.evaluation import figures
from canopy_rag.evaluation.bootstrap import Interval
from canopy_rag.evaluation.plots import Bar, plot_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_FAMILIES = {
    "global": "n best leaves of all",
    "flat": "m best leaves of each item",
    "threshold": "fixed threshold",
    "deviations": "mean + c sd of the set",
    "whole": "first n items whole",
}
_MARKERS = {"set": "*", "paper": "X"}
_RULES = {"set": "set", "paper": "the paper's rule"}


def plot_frontier(
    scopes: Mapping[str, Any],
    path: Path,
    *,
    title: str,
    reference: Mapping[str, Any] | None = None,
) -> Path:
    """Draw every rival's curve, and the rules as points with intervals, a panel per scope.

    A dashed line is what retrieval brought: no selection can keep more.

    Args:
        scopes: Of one encoder and pool, as `marks.selections` returns them.
        path: Ends in `.png` or `.svg`; its folder is made. An existing file is replaced.
        title: Above the plot.
        reference: The same of the frozen encoder, whose rules are drawn hollow.

    Raises:
        ValueError: Without a scope, or for another file name.
        MissingDependencyError: Without matplotlib.
    """
    n_rows = -(-(len(scopes) + 1) // _COLUMNS)  # the last place is the legend's
    with figures.saved_figure(
        path, list(scopes), height_in=0.4 + 1.75 * n_rows, width_in=7.0, dpi=160
    ) as figure:
        figure.suptitle(title)
        places = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
        for axes, (name, scope) in zip(places, scopes.items(), strict=False):
            _draw(axes, name, scope, None if reference is None else reference.get(name))
        for axes in places[len(scopes) :]:
            axes.axis("off")
        handles, labels = places[0].get_legend_handles_labels()
        places[len(scopes)].legend(handles, labels, loc="center")
        figure.supxlabel("Evidence per question (tokens, logarithmic)", fontsize=7)
        figure.supylabel("Gold-leaf recall (%)", fontsize=7)
    return path


def plot_decisions(encoders: Mapping[str, Any], path: Path, scopes: Sequence[str]) -> Path:
    """Draw the share of right decisions by scope, a bar per encoder.

    Args:
        encoders: Label -> result of one encoder.
        path: As in `plot_frontier`.
        scopes: Names of scopes; those without a decision are left out.

    Raises:
        ValueError: Without a bar, or for another file name.
        MissingDependencyError: Without matplotlib.
    """
    bars = [
        Bar(group=scope, series=label, share=_interval(result["decisions"][scope]))
        for label, result in encoders.items()
        for scope in scopes
        if scope in result["decisions"]
    ]
    return plot_bars(bars, path, title="Decision accuracy", y_label="Right decisions (%)")


def _draw(
    axes: Axes, name: str, scope: Mapping[str, Any], reference: Mapping[str, Any] | None
) -> None:
    for color, (family, label) in zip(figures.SERIES[1:], _FAMILIES.items(), strict=False):
        points = sorted(scope["curves"][family].values())
        x, y = zip(*points, strict=True)
        axes.plot(
            x,
            [100 * value for value in y],
            label=label,
            color=color,
            marker="o",
            markersize=2,
            linewidth=0.9,
        )
    for rule, label in _RULES.items():
        _draw_rule(axes, scope["rules"][rule], rule, label, hollow=False)
        if reference is not None:
            its_label = f"{label}, frozen encoder"
            _draw_rule(axes, reference["rules"][rule], rule, its_label, hollow=True)
    axes.axhline(
        100 * scope["leaves_retrieved"]["value"], color=figures.GREY, linewidth=0.7, linestyle="--"
    )
    axes.set_title(f"{name} (n = {scope['n']:,})")
    axes.grid(visible=True, axis="both")
    figures.token_axis(axes)
    locator = require("matplotlib.ticker", extra="eval", feature="drawing plots").LogLocator
    axes.xaxis.set_major_locator(locator(subs=(1.0, 3.0)))


def _draw_rule(
    axes: Axes, result: Mapping[str, Any], rule: str, label: str, *, hollow: bool
) -> None:
    recall = _interval(result["recall"])
    color = figures.BLACK if rule == "set" else figures.BLUE
    axes.errorbar(
        [result["tokens"]],
        [100 * recall.value],
        yerr=[[100 * (recall.value - recall.low)], [100 * (recall.high - recall.value)]],
        label=label,
        color=color,
        marker=_MARKERS[rule],
        markersize=7 if rule == "set" else 5,
        markerfacecolor="white" if hollow else color,
        markeredgewidth=0.7,
        linestyle="none",
        elinewidth=0.8,
        capsize=1.5,
        zorder=5,
    )


def _interval(share: Mapping[str, Any]) -> Interval:
    return Interval(value=share["value"], low=share["low"], high=share["high"], n=share["n"])
