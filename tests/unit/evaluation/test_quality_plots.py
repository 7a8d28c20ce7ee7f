"""The frontier's plots: a panel per scope, every rival's curve, the rules with their intervals."""

from __future__ import annotations

import copy
from xml.etree import ElementTree

import pytest

from canopy_rag.evaluation.quality import FAMILIES
from canopy_rag.evaluation.quality_plots import plot_decisions, plot_frontier

pytest.importorskip("matplotlib")


def share(value):
    return {"value": value, "low": value - 0.05, "high": value + 0.05, "n": 50}


SCOPE = {
    "n": 50,
    "leaves_retrieved": share(0.9),
    "rules": {
        "set": {"recall": share(0.8), "tokens": 120.0},
        "paper": {"recall": share(0.6), "tokens": 400.0},
    },
    "curves": {name: {f"{name}-1": [50.0, 0.4], f"{name}-5": [250.0, 0.7]} for name in FAMILIES},
}
SCOPES = {"all": SCOPE, "nq": SCOPE}
SVG = "{http://www.w3.org/2000/svg}"


def drawn(path):
    return ElementTree.fromstring(path.read_text("utf-8"))


def test_a_plot_has_a_panel_for_each_scope_and_one_for_the_legend(tmp_path):
    path = plot_frontier(SCOPES, tmp_path / "plots" / "one.svg", title="hard pool")
    panels = [each for each in drawn(path).iter(f"{SVG}g") if each.get("id", "")[:5] == "axes_"]
    assert len(panels) == 3


def test_the_same_result_gives_the_same_file(tmp_path):
    first, second = (
        plot_frontier(SCOPES, tmp_path / f"{name}.png", title="hard pool").read_bytes()
        for name in ("one", "two")
    )
    assert first == second


def test_another_point_of_the_rule_gives_another_plot(tmp_path):
    other = copy.deepcopy(SCOPES)
    other["nq"]["rules"]["set"]["tokens"] = 90.0
    one = plot_frontier(SCOPES, tmp_path / "one.svg", title="hard pool").read_bytes()
    assert plot_frontier(other, tmp_path / "two.svg", title="hard pool").read_bytes() != one
    assert (
        plot_frontier(SCOPES, tmp_path / "three.svg", title="hard pool", reference=other)
    ).read_bytes() != one


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_frontier({}, tmp_path / "one.png", title="hard pool")


def test_scopes_without_a_decision_have_no_bar(tmp_path):
    encoders = {"frozen": {"decisions": {"nq": share(0.4)}}}
    path = plot_decisions(encoders, tmp_path / "one.svg", ("nq", "musique"))
    assert path.is_file()
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_decisions(encoders, tmp_path / "two.svg", ("musique",))
