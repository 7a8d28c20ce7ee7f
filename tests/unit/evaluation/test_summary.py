"""`metrics.json` from the files of a run, worked out by hand."""

import pytest
from tests.unit.evaluation.evaluations import Fixed, settings, work

from canopy_rag.core.errors import DataError
from canopy_rag.evaluation.folder import DECISIONS, FAILURES, PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import Journal
from canopy_rag.evaluation.results import load, shared
from canopy_rag.evaluation.runner import Runner
from canopy_rag.evaluation.summary import summarise


@pytest.fixture
async def folder(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(settings(), {"methods": ["vanilla", "canopy"]})
    vanilla = Fixed(name="vanilla", right=frozenset({0, 1}))
    canopy = Fixed(name="canopy", kept=(2,), right=frozenset({0, 1, 2, 3, 4}))
    await Runner(folder).run([work(10, vanilla), work(10, canopy)])
    with Journal(folder / DECISIONS) as journal:
        for number in range(4):
            record = {"benchmark": "toy", "encoder": "f_theta", "question": f"q{number}"}
            journal.append({**record, "right": number % 2, "total": 2, "by_modality": {}})
    return folder


@pytest.fixture
def metrics(folder):
    return summarise(load(folder), resamples=200)


def test_scores_are_means_of_unrounded_values_with_intervals(metrics):
    toy = metrics["benchmarks"]["toy"]
    assert list(toy["methods"]) == ["vanilla", "canopy"]
    canopy = toy["methods"]["canopy"]
    assert (canopy["em"]["value"], canopy["em"]["n"], canopy["n"]) == (0.5, 10, 10)
    assert canopy["em"]["low"] < 0.5 < canopy["em"]["high"]
    assert canopy["llm_calls"]["value"] == 2
    assert canopy["held_share"]["value"] == 1.0
    assert canopy["hop_coverage"]["value"] == 1.0
    assert canopy["accuracy"] is None
    assert canopy["cost"] is None


def test_differences_are_paired(metrics):
    found = {(each["method"], each["to"], each["figure"]): each for each in metrics["differences"]}
    better = found["canopy", "vanilla", "em"]
    assert better["value"] == pytest.approx(0.3)
    assert better["low"] >= 0
    assert found["vanilla", "canopy", "em"]["value"] == pytest.approx(-0.3)
    assert found["canopy", "vanilla", "evidence_tokens"]["value"] < 0


def test_refinement_is_told_of_canopy_alone(metrics):
    methods = metrics["benchmarks"]["toy"]["methods"]
    assert methods["vanilla"]["outcomes"] == {}
    assert methods["canopy"]["outcomes"]["text"] == {
        "kept": 0.2,
        "split": 0.4,
        "dropped": 0.4,
        "n": 50,
    }
    assert methods["canopy"]["kept_whole"]["gold"]["value"] == 0
    assert methods["canopy"]["kept_whole"]["non_gold"] is None
    assert methods["canopy"]["root_relative"]["text"]["gold"]["n"] == 10


def test_kinds_pools_decisions_and_latency_are_there(metrics):
    toy = metrics["benchmarks"]["toy"]
    kinds = toy["methods"]["canopy"]["by_kind"]
    assert kinds["bridge"]["f1"]["value"] == pytest.approx(0.4, abs=0.2)
    assert {kind: each["n"] for kind, each in kinds.items()} == {"bridge": 5, "comparison": 5}
    assert toy["decision_accuracy"]["f_theta"]["value"] == 0.25
    assert toy["decision_accuracy"]["f_theta"]["n"] == 8
    pooled = metrics["pooled"]["in_domain"]
    assert pooled["canopy"]["quality"]["value"] == toy["methods"]["canopy"]["f1"]["value"]
    assert toy["methods"]["canopy"]["amortized_latency_s"]["n"] == 10


async def test_pools_weigh_benchmarks_in_scores_and_questions_in_gold_leaf_recall(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(settings("large", "small"), {"methods": ["canopy"]})
    works = [
        work(6, Fixed(kept=(2,), right=frozenset()), "large"),  # keeps the gold leaf
        work(2, Fixed(kept=(5,)), "small"),  # drops it
    ]
    await Runner(folder).run(works)
    with Journal(folder / DECISIONS) as journal:
        for name, right, total in (("large", 1, 6), ("small", 2, 2)):
            record = {"benchmark": name, "encoder": "f0", "question": "q0"}
            journal.append({**record, "right": right, "total": total, "by_modality": {}})
    metrics = summarise(load(folder), resamples=50)
    pooled = metrics["pooled"]["in_domain"]["canopy"]
    assert pooled["quality"]["value"] == pytest.approx((0 + 1) / 2)
    assert pooled["gold_leaf_recall"]["value"] == 6 / 8
    assert pooled["held_share"]["value"] == 1
    assert pooled["kept_whole"] == {"gold": pooled["kept_whole"]["gold"], "non_gold": None}
    assert metrics["pooled_decisions"]["in_domain"]["f0"]["value"] == 3 / 8
    assert "f_theta" not in metrics["pooled_decisions"]["in_domain"]


async def test_failed_questions_are_counted_until_they_are_answered(folder):
    with Journal(folder / FAILURES) as journal:
        for name in ("q0", "q77"):
            journal.append({"benchmark": "toy", "method": "canopy", "question": name, "reason": ""})
    found = summarise(load(folder), resamples=10)
    assert found["benchmarks"]["toy"]["methods"]["canopy"]["n_failed"] == 1


async def test_methods_are_compared_on_the_questions_that_both_answered(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(settings(), {"methods": ["vanilla", "canopy"]})
    await Runner(folder).run([work(6, Fixed(name="vanilla")), work(4, Fixed())])
    results = load(folder)
    one, other = shared(results.tables["toy", "vanilla"], results.tables["toy", "canopy"], "em")
    assert (len(one), len(other)) == (4, 4)


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(DataError, match="holds no run"):
        load(RunFolder(tmp_path))


def test_an_unfinished_last_line_is_left_out(folder):
    path = folder / PREDICTIONS
    path.write_bytes(path.read_bytes()[:-30])
    assert len(load(folder).tables["toy", "canopy"]) == 9


def test_the_order_of_the_lines_changes_no_figure(folder):
    before = summarise(load(folder))
    path = folder.path / PREDICTIONS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[::-1]))
    assert lines != lines[::-1]
    assert summarise(load(folder)) == before
