"""The paper's configuration, end to end: eight made-up benchmarks and a scripted server."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.unit.evaluation.eight import N, write_all
from typer.testing import CliRunner

from canopy_rag.cli import app
from canopy_rag.config import load
from canopy_rag.evaluation.folder import PREDICTIONS
from canopy_rag.evaluation.journal import read
from canopy_rag.testing.chat_server import ChatServer, says

ROOT = Path(__file__).resolve().parents[3]
MODEL = "Qwen/Qwen3-VL-8B-Instruct"
SCHEMAS = {
    "critic": {"sufficient": False, "follow_up": "born in Town 1"},
    "aggregate": {"aggregate": False},
    "router": {"modalities": ["text", "table", "image", "video"]},
    "judge": {"sufficient": True, "gap_items": []},
    "extract": {"ids": [1, 2]},
    "choice": {"answer": "B"},
}
TABLES = ("1", "2", "5", "6", "8", "11", "12")
FIGURES = ("6", "7", "8", "9", "10")


def replies(received):
    form = received.body.get("response_format")
    if form is not None:
        return says(json.dumps(SCHEMAS[form["json_schema"]["name"]]))
    return says("Ann")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    """A map for the hashing encoder, so that f_theta is not f0."""
    folder = tmp_path_factory.mktemp("adapter")
    manifest = {
        "format": 1,
        "kind": "map",
        "base": {"model": "hashing", "revision": "1"},
        "mode": "node",
    }
    (folder / "adapter.json").write_text(json.dumps(manifest), encoding="utf-8")
    noise = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    save_file({"query": np.eye(64, dtype=np.float32) + 0.05 * noise}, folder / "map.safetensors")
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command with the paper's settings."""
    monkeypatch.setenv("CANOPY_CONFIG", str(ROOT / "configs" / "paper.toml"))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        result = CliRunner().invoke(app, list(arguments), env={"NO_COLOR": "1"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.stderr
        return result

    return invoke


@pytest.mark.slow
def test_every_table_and_figure_comes_out_of_one_command(tmp_path, make_clip, run, adapter):
    places = write_all(tmp_path, make_clip)
    out = tmp_path / "run"
    with ChatServer(then=replies, models=[MODEL], picture_tokens=64) as server:
        arguments = [
            *(argument for place in places for argument in ("-b", place)),
            *("--encoder", f"hashing+{adapter}", "--llm", server.url, "--out", str(out)),
        ]
        body = json.loads(run("evaluate", *arguments, "--json").stdout)
        n_calls = len(server.chats)
        assert server.peak <= 32
        run("evaluate", *arguments, "--quiet")
        assert len(server.chats) == n_calls
    methods = load({}, {}, ROOT / "configs" / "paper.toml").evaluate.methods.split()
    counts = Counter(each["method"] for each in read(out / PREDICTIONS))
    assert len(counts) == len(methods) >= 20
    assert set(counts.values()) == {N}
    assert body["answered"] == len(methods) * N
    assert (body["failed"], body["replies"]) == (0, n_calls)
    check_report(out)
    check_metrics(body["metrics"])


def check_report(out):
    for number in TABLES:
        markdown = (out / "tables" / f"table-{number}.md").read_text("utf-8")
        assert "Nothing of it was run" not in markdown, number
        rows = (out / "tables" / f"table-{number}.csv").read_text("utf-8").splitlines()
        assert len(rows) > 3, number
    for number in FIGURES:
        for ending in (".png", ".svg"):
            assert (out / "figures" / f"figure-{number}{ending}").stat().st_size > 1000
    page = (out / "report.md").read_text("utf-8")
    assert "(paper 72.1)" in page  # TAT-QA, Canopy
    assert "**Round 2**: born in Town 1" in page
    assert "An oracle" not in page


def check_metrics(metrics):
    hotpotqa = metrics["benchmarks"]["hotpotqa"]
    assert set(hotpotqa["decision_accuracy"]) == {"f0", "f_theta"}
    canopy = hotpotqa["methods"]["canopy"]
    assert canopy["tokens_are"] == "exact"
    assert canopy["rounds"]["value"] > 1
    assert canopy["amortized_latency_s"]["value"] > 0
    assert {"critic", "read", "retrieve", "search"} <= set(canopy["seconds"])
    assert hotpotqa["methods"]["canopy-routed"]["routing"]["text+table+image+video"]["share"] == 1
    videos = metrics["benchmarks"]["lvbench"]["methods"]["vanilla"]
    assert videos["no_option"]["value"] == 1  # the server's `Ann` names none
    assert set(metrics["pooled"]) == {"in_domain", "out_of_domain"}


def test_an_identical_run_in_another_folder_asks_the_model_nothing(
    tmp_path, make_clip, run, monkeypatch
):
    monkeypatch.delenv("CANOPY_CONFIG")
    place = next(each for each in write_all(tmp_path, make_clip) if each.startswith("hotpotqa"))
    with ChatServer(then=replies, models=[MODEL]) as server:
        options = ("-b", place, "--encoder", "hashing", "--llm", server.url, "--json", "--quiet")
        first = json.loads(run("evaluate", *options, "--out", "one").stdout)
        n_calls = len(server.chats)
        second = json.loads(run("evaluate", *options, "--out", "two").stdout)
        assert len(server.chats) == n_calls > 0
    assert (second["replies"], second["replies_cached"]) == (0, first["replies"])
    names = {"amortized_latency_s", "seconds"}
    for metrics in (first["metrics"], second["metrics"]):
        for method in metrics["benchmarks"]["hotpotqa"]["methods"].values():
            for name in names:
                del method[name]
    assert second["metrics"] == first["metrics"]


def test_several_runs_stand_beside_each_other_in_one_report(tmp_path, make_clip, run, monkeypatch):
    monkeypatch.delenv("CANOPY_CONFIG")
    place = next(each for each in write_all(tmp_path, make_clip) if each.startswith("hotpotqa"))
    for name, k in (("few", "2"), ("many", "8")):
        run("evaluate", "-b", place, "--encoder", "hashing", "--llm", "oracle:titles", "--k", k,
            "--out", name, "--quiet")  # fmt: skip
    run("report", "few", "many", "--out", "both", "--quiet")
    table = (tmp_path / "both" / "tables" / "table-1.md").read_text("utf-8")
    assert "| few | canopy |" in table
    assert "| many | canopy |" in table
    assert "An oracle" in (tmp_path / "both" / "report.md").read_text("utf-8")
