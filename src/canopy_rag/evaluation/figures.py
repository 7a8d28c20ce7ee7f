"""The look of plots: size, colours, axes and legends, and how a figure becomes a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from canopy_rag._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
    "#000000",
)
"""Okabe and Ito's colours, which colour-blind readers tell apart."""
SERIES = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
GREY = "#B8B8B8"
SMALL_PT = 6.5
_EXTRA = "eval"
_FEATURE = "drawing plots"
_WIDTH_IN = 3.35
_DPI = 300
_FORMATS = (".png", ".svg")
_UNDATED = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
_STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 7,
    "axes.titlesize": 8,
    "figure.titlesize": 8,
    "axes.labelsize": 7,
    "xtick.labelsize": SMALL_PT,
    "ytick.labelsize": SMALL_PT,
    "legend.fontsize": SMALL_PT,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": "#E2E2E2",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "canopy",
}


@contextmanager
def saved_figure(
    path: Path,
    records: Sequence[object],
    *,
    height_in: float,
    width_in: float = _WIDTH_IN,
    dpi: int = _DPI,
) -> Iterator[Figure]:
    """Give an empty figure, and save it.

    Args:
        path: Ends in `.png` or `.svg`; its folder is made. An existing file is replaced.
        records: What will be drawn; only whether there is anything matters.
        height_in: In inches.
        width_in: In inches; that of a text column by default.
        dpi: Pixels per inch of a PNG.

    Raises:
        ValueError: For another file name, or without records.
        MissingDependencyError: Without matplotlib.
    """
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"{path}: a plot is saved as {' or '.join(_FORMATS)}")
    if not records:
        raise ValueError(f"{path}: there is nothing to draw")
    style = require("matplotlib.style", extra=_EXTRA, feature=_FEATURE)
    figures = require("matplotlib.figure", extra=_EXTRA, feature=_FEATURE)
    with style.context(["default", _STYLE]):
        figure: Figure = figures.Figure(
            figsize=(width_in, height_in), dpi=dpi, layout="constrained"
        )
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata=_UNDATED[suffix])


def labelled_axes(figure: Figure, title: str, x_label: str, y_label: str) -> Axes:
    """Return the figure's only axes."""
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return axes


def percent_axis(axes: Axes) -> None:
    """Let percentages on the vertical axis stay between 0 and 100, markers at the rim whole."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -2), min(high, 102))


def outline(label: Text) -> None:
    """Set a label off from the lines behind it."""
    effects = require("matplotlib.patheffects", extra=_EXTRA, feature=_FEATURE)
    label.set_path_effects([effects.withStroke(linewidth=1, foreground="white")])


def token_axis(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with numbers as people write them."""
    ticker = require("matplotlib.ticker", extra=_EXTRA, feature=_FEATURE)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend under the plot, as many entries in a line as fit; none for one series."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) < 2:
        return
    n_columns = max(1, min(len(labels), 64 // (max(map(len, labels)) + 6)))
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns)
