"""Plots are files of a known size, the same each time, that show what the records hold."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from canopy_rag.core.errors import MissingDependencyError
from canopy_rag.evaluation import figures
from canopy_rag.evaluation.bootstrap import Interval
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

pytest.importorskip("matplotlib")


def share(value, width=0.05):
    return Interval(value=value, low=value - width, high=value + width, n=100)


def curve(name, *points):
    return Curve(
        name=name,
        points=tuple(CurvePoint(tokens=t, recall=share(r), label=str(t)) for t, r in points),
    )


CURVES = [curve("refinement", (300, 0.8)), curve("flat", (900, 0.9), (100, 0.5))]
BARS = [
    Bar(group=group, series=series, share=share(value))
    for series, value in (("frozen", 0.35), ("adapted", 0.7))
    for group in ("NQ", "HotpotQA")
]
OUTCOMES = [
    Outcomes(label="text", kept=0.25, split=0.72, dropped=0.03, n=1234),
    Outcomes(label="table", kept=0.5, split=0.25, dropped=0.25, n=5),
]
REGIONS = [
    RootRelative(label="text", gold=[0.1, 0.2, 0.15], other=[-0.1, -0.2, 0.05]),
    RootRelative(label="video", gold=[], other=[-0.1, 0.0]),
]
PLOTS = {
    "curves": lambda path: plot_curves(CURVES, path),
    "accuracy": lambda path: plot_decision_accuracy(BARS, path),
    "whole": lambda path: plot_kept_whole(BARS, path),
    "outcomes": lambda path: plot_outcomes(OUTCOMES, path),
    "regions": lambda path: plot_root_relative(REGIONS, path),
}
EMPTY = {
    "curves": lambda path: plot_curves([], path),
    "accuracy": lambda path: plot_decision_accuracy([], path),
    "outcomes": lambda path: plot_outcomes([], path),
    "regions": lambda path: plot_root_relative([], path),
}


@pytest.fixture
def drawn(monkeypatch):
    """Keep the figures that are saved."""
    from matplotlib.figure import Figure

    kept = []
    save = Figure.savefig

    def keep(self, *args, **kwargs):
        kept.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return kept


def texts(figure):
    from matplotlib.text import Text

    return {found.get_text() for found in figure.findobj(Text)}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_a_png_has_column_width_at_300_dots_per_inch(plot, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = plot(tmp_path / "made" / "plot.png")
    with image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width == 1005
        assert len(picture.convert("RGB").getcolors(maxcolors=1 << 24)) > 10


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_the_same_records_give_the_same_svg_without_date_and_version(plot, tmp_path):
    written = plot(tmp_path / "first.svg").read_text("utf-8")
    assert ElementTree.fromstring(written).tag.endswith("svg")
    assert not re.search(r"\b20\d\d-|Matplotlib v|<dc:date>", written)
    assert plot(tmp_path / "second.svg").read_text("utf-8") == written


def test_the_same_records_give_the_same_png_without_the_version(tmp_path):
    written = PLOTS["outcomes"](tmp_path / "first.png").read_bytes()
    assert b"Matplotlib" not in written
    assert PLOTS["outcomes"](tmp_path / "second.png").read_bytes() == written


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_nothing_is_cut_off_at_the_edges(plot, tmp_path, drawn):
    plot(tmp_path / "plot.png")
    figure = drawn[0]
    width, height = figure.bbox.width, figure.bbox.height
    box = figure.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 * figure.dpi <= width + 1
    assert box.y1 * figure.dpi <= height + 1


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "curves",
            {
                "Gold evidence kept against its length",
                "Gold-leaf recall (%)",
                "Evidence per question (tokens, logarithmic)",
                "refinement",
                "flat",
                "300",
            },
        ),
        ("accuracy", {"Right decisions (%)", "NQ", "HotpotQA", "frozen", "adapted"}),
        ("whole", {"Items kept whole (%)", "frozen", "adapted"}),
        ("outcomes", {"text\n(n = 1,234)", "kept", "split", "dropped", "25", "72", "50"}),
        ("regions", {"text\n3 gold\n3 non-gold", "video\n0 gold\n2 non-gold", "gold", "non-gold"}),
    ],
)
def test_a_plot_names_its_axes_with_units_its_series_and_counts(name, wanted, tmp_path, drawn):
    PLOTS[name](tmp_path / "plot.png")
    assert wanted <= texts(drawn[0])


def test_whiskers_and_points_stand_where_the_records_say(tmp_path, drawn):
    plot_curves(CURVES, tmp_path / "plot.png")
    axes = drawn[0].axes[0]
    alone, flat = (container.lines[0].get_xydata().tolist() for container in axes.containers)
    assert alone == [[300, 80]]
    assert flat == [[100, 50], [900, 90]]
    whisker = axes.containers[0].lines[2][0].get_segments()[0]
    assert whisker[:, 1].tolist() == pytest.approx([75, 85])


def test_bars_have_the_heights_of_the_records_group_by_group(tmp_path, drawn):
    plot_decision_accuracy(
        [*BARS, Bar(group="all", series="frozen", share=share(0.5))], tmp_path / "plot.png"
    )
    axes = drawn[0].axes[0]
    heights = {
        round(bar.get_x() + bar.get_width() / 2, 1): bar.get_height() for bar in axes.patches
    }
    assert heights == pytest.approx({-0.2: 35, 0.8: 35, 1.8: 50, 0.2: 70, 1.2: 70})


def test_stacked_bars_fill_the_whole_width(tmp_path, drawn):
    plot_outcomes(OUTCOMES, tmp_path / "plot.png")
    bars = drawn[0].axes[0].patches
    assert [bar.get_width() for bar in bars] == pytest.approx([25, 50, 72, 25, 3, 25])
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 0, 25, 50, 97, 75])


def test_a_small_part_of_a_stacked_bar_has_no_number_in_it(tmp_path, drawn):
    plot_outcomes(OUTCOMES, tmp_path / "plot.png")
    assert "3" not in texts(drawn[0])


def test_series_are_told_apart_by_more_than_colour(tmp_path, drawn):
    plot_decision_accuracy(BARS, tmp_path / "bars.png")
    plot_curves(CURVES, tmp_path / "curves.png")
    assert len({bar.get_hatch() for bar in drawn[0].axes[0].patches}) == 2
    markers = [container.lines[0].get_marker() for container in drawn[1].axes[0].containers]
    assert len(set(markers)) == 2


def test_drawing_leaves_the_settings_of_the_program_alone(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    PLOTS["accuracy"](tmp_path / "plot.png")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("plot", EMPTY.values(), ids=EMPTY)
def test_without_records_there_is_an_error_and_no_file(plot, tmp_path):
    with pytest.raises(ValueError, match="there is nothing to draw"):
        plot(tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["plot.gif", "plot", "plot.pdf"])
def test_another_kind_of_file_is_an_error(name, tmp_path):
    with pytest.raises(ValueError, match=r"saved as \.png or \.svg"):
        PLOTS["accuracy"](tmp_path / name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: plot_curves([curve("flat", (0, 0.5))], path), "'flat' needs points, each"),
        (lambda path: plot_curves([curve("flat")], path), "'flat' needs points"),
        (lambda path: plot_kept_whole([BARS[0], BARS[0]], path), "same group and series"),
        (
            lambda path: plot_outcomes(
                [Outcomes(label="text", kept=0.5, split=0.1, dropped=0.1, n=1)], path
            ),
            "'text' do not sum to 1",
        ),
        (
            lambda path: plot_root_relative([RootRelative(label="x", gold=[], other=[])], path),
            "'x' has no similarity",
        ),
        (
            lambda path: plot_root_relative(
                [RootRelative(label="x", gold=[float("nan")], other=[])], path
            ),
            "'x' has a similarity that is not a finite number",
        ),
    ],
)
def test_records_that_cannot_be_drawn_are_an_error_that_names_them(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(MissingDependencyError, match=r"canopy-rag\[eval\]"):
        PLOTS["accuracy"](tmp_path / "plot.png")


def test_the_colours_are_those_that_colour_blind_readers_tell_apart():
    assert len(set(figures.SERIES)) == 7
    assert Path(figures.__file__).name == "figures.py"
