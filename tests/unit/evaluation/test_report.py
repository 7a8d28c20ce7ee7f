"""Tables, figures and case studies of a run."""

import csv
import io
import json
from importlib import resources

import pytest
from tests.unit.evaluation.evaluations import Fixed, settings, work

from canopy_rag.core.errors import ConfigError, DataError, LLMError
from canopy_rag.evaluation.folder import DECISIONS, RunFolder
from canopy_rag.evaluation.journal import Journal
from canopy_rag.evaluation.report import figures, write_report
from canopy_rag.evaluation.report.cases import choose
from canopy_rag.evaluation.report.paper import IN_DOMAIN, paper_value
from canopy_rag.evaluation.report.sheets import Sheet, cell, written
from canopy_rag.evaluation.report.tables import Summary
from canopy_rag.evaluation.results import load
from canopy_rag.evaluation.runner import Runner
from canopy_rag.evaluation.summary import summarise

WHERE = {"run": "r", "reader": "m", "benchmark": "tatqa", "method": "canopy"}


def test_ours_stands_beside_the_papers_number():
    sheet = Sheet(number="12", title="t", columns=("method", "F1", "EM"))
    interval = {"value": 0.75, "low": 0.7, "high": 0.8, "n": 9}
    sheet.add(["a|b"], [cell(WHERE, "f1", interval), None])
    assert "| a\\|b | 75.0 (paper 72.1) |  |" in sheet.markdown()
    (row,) = csv.DictReader(io.StringIO(sheet.csv()))
    assert (row["value"], row["low"], row["n"], row["paper"]) == ("0.75", "0.7", "9", "0.721")


def test_a_number_that_is_not_known_is_left_empty():
    assert str(cell({**WHERE, "benchmark": "nq"}, "f1", None)) == ""
    assert str(cell(WHERE, "f1", None)) == "(paper 72.1)"
    assert written("amortized_latency_s", 0.12345) == "0.123"


def test_every_number_of_the_paper_says_where_it_stands():
    file = resources.files("canopy_rag.evaluation.report") / "paper.json"
    values = json.loads(file.read_text("utf-8"))["values"]
    assert len(values) > 50
    assert [each for each in values if not each["where"].startswith("appendix, ")] == []
    keys = [(each["benchmark"], each["method"], each["figure"]) for each in values]
    assert len(set(keys)) == len(keys)
    assert paper_value("lvbench", "canopy-routed", "evidence_tokens") == 26907


@pytest.fixture
async def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.begin(settings(), {"methods": ["vanilla", "canopy"]})
    vanilla = Fixed(name="vanilla", right=frozenset({0, 1, 5}))
    canopy = Fixed(name="canopy", kept=(2,), right=frozenset({0, 1, 2, 3, 4}))
    await Runner(folder).run([work(8, vanilla), work(8, canopy)])
    return folder


def test_case_studies_are_gains_and_one_loss_by_rule(folder):
    chosen = choose(load(folder))
    assert [case.gain > 0 for case in chosen] == [True, True, False]
    assert {case.question for case in chosen[:2]} < {"q2", "q3", "q4"}
    assert chosen[2].question == "q5"


def test_a_report_has_rounds_kept_sentences_and_both_answers(folder, tmp_path):
    made = write_report([folder.path], tmp_path / "out", resamples=50)
    page = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "**Round 1**: Who made thing" in page
    assert "Critic: missing; next: maker" in page
    assert "1 of 4 | Maker" in page
    assert "- Vanilla RAG: nobody" in page
    assert all(path.exists() for path in made.files)
    assert json.loads((folder / "metrics.json").read_text()) == made.metrics[0]


@pytest.mark.parametrize("missing", [(), ("mmqa",)])
async def test_the_papers_figures_over_all_benchmarks_stand_beside_all_five_alone(
    tmp_path, missing
):
    names = [name for name in sorted(IN_DOMAIN) if name not in missing]
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.begin(settings(*names), {"methods": ["canopy"]})
    await Runner(folder).run([work(2, Fixed(kept=(2,)), name) for name in names])
    with Journal(folder / DECISIONS) as journal:
        for name in names:
            record = {"benchmark": name, "encoder": "f0", "question": "q0"}
            journal.append({**record, "right": 1, "total": 2, "by_modality": {}})
    write_report([folder.path], folder.path, resamples=20)
    tables = {
        name: (folder / "tables" / f"table-{name}.md").read_text("utf-8")
        for name in ("11", "decisions", "refinement")
    }
    assert "50.0 (paper 35.0)" in tables["decisions"]  # NQ, f0
    beside = ("100.0 (paper 79.4)", "50.0 (paper 36.9)", "100.0 (paper 63.3)", "20.0 (paper 25.5)")
    page = "\n".join(tables.values())
    assert [text in page for text in beside] == [not missing] * 4
    assert page.count("20.0") == 1


@pytest.mark.parametrize("other", ["hashing", "minilm"])
async def test_decisions_of_two_encoders_stand_beside_each_other(tmp_path, monkeypatch, other):
    drawn = []
    monkeypatch.setattr(figures, "plot_decision_accuracy", lambda bars, path: drawn.append(bars))
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, encoder, right in zip(paths, ("hashing", other), (1, 2), strict=True):
        folder = RunFolder(path)
        path.mkdir()
        models = {"llm": "scripted", "encoder": {"name": encoder}}
        folder.begin({**settings(), "models": models}, {"methods": ["canopy"]})
        await Runner(folder).run([work(2)])
        with Journal(folder / DECISIONS) as journal:
            record = {"benchmark": "toy", "encoder": "f_theta", "question": "q0"}
            journal.append({**record, "right": right, "total": 4, "by_modality": {}})
    loaded = [load(RunFolder(path)) for path in paths]
    runs = [
        (Summary(run=own.name, metrics=summarise(own, resamples=20), config=own.config), own)
        for own in loaded
    ]
    figures._decisions(runs)(tmp_path / "figure.png")
    bars = {each.series: each.share.value for each in drawn[0]}
    two = {"a: f_theta": 0.25, "b: f_theta": 0.5}
    assert bars == ({"f_theta": 0.25} if other == "hashing" else two)


async def test_a_report_says_which_answers_are_missing(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.begin(settings(), {"methods": ["vanilla", "canopy"]})
    fails = {"q1": LLMError("the server is gone")}
    await Runner(folder).run([work(20, Fixed(name="vanilla")), work(20, Fixed(fails=fails))])
    write_report([folder.path], folder.path, resamples=20)
    page = (folder / "report.md").read_text("utf-8")
    assert "both methods have: canopy on toy 19 of 20 (1 failed)." in page


def test_the_same_run_gives_the_same_report(folder, tmp_path):
    for name in ("one", "two"):
        write_report([folder.path], tmp_path / name, resamples=50)
    for path in (tmp_path / "one").rglob("*.*"):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()


def test_two_runs_of_one_name_and_a_run_without_answers_are_errors(folder, tmp_path):
    with pytest.raises(ConfigError, match="one name"):
        write_report([folder.path, folder.path], tmp_path)
    empty = RunFolder(tmp_path / "empty")
    empty.path.mkdir()
    empty.begin(settings(), {"methods": ["canopy"]})
    with pytest.raises(DataError, match="no answer yet"):
        write_report([empty.path], tmp_path)
