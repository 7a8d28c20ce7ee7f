"""`canopy evaluate` and `canopy report` on a made-up benchmark, without a model."""

import json

import pytest


@pytest.fixture
def arguments(benchmark):
    return [
        *("evaluate", "-b", benchmark, "--encoder", "hashing", "--llm", "oracle:titles"),
        *("--limit", "2", "--out", "run"),
    ]


def test_json_alone_is_on_stdout_and_a_second_run_asks_nothing(run, arguments):
    first = run(*arguments, "--json")
    assert first.code == 0, first.err
    assert (first.json["answered"], first.json["answered_before"]) == (4, 0)
    assert set(first.json["metrics"]["benchmarks"]["hotpotqa"]["methods"]) == {"vanilla", "canopy"}
    again = run(*arguments, "--json").json
    assert (again["answered"], again["answered_before"], again["replies"]) == (0, 4, 0)


def test_people_get_scores_and_the_place_of_the_report(run, arguments):
    done = run(*arguments, "--method", "flat:m=1")
    assert done.code == 0, done.err
    assert "An oracle that knows the gold" in done.out
    assert "flat:m=1" in done.out
    assert "report.md" in done.out
    assert "flat:m=1: 2 of 2" in done.err
    again = run("report", "run", "--quiet")
    assert (again.code, "flat:m=1" in again.out) == (0, True)


def test_other_settings_are_refused_with_what_differs(run, arguments):
    assert run(*arguments).code == 0
    done = run(*arguments, "--k", "3")
    assert done.code == 2
    assert "settings.retrieval.k: 10 there, 3 now" in done.err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--method", "canopi"], 2, "Did you mean 'canopy'"),
        (["--method", "flat:m=0"], 2, "flat.m must be"),
        (["--llm", "none", "--method", "canopy-routed"], 2, "needs a chat model"),
        (["--llm", "oracle:guess"], 2, "oracle"),
        (["--limit", "0"], 2, "--limit"),
        (["--benchmark", "hotpotqa=elsewhere"], 2, "each once"),
    ],
)
def test_wrong_usage_says_what_is_right(run, arguments, more, code, message):
    done = run(*arguments, *more)
    assert done.code == code, done.err
    assert message in done.err


def test_the_frozen_encoder_is_another_than_the_adapted_one(run, benchmark, tmp_path):
    """The embedded encoder has the package's adapter unless its name says otherwise."""
    options = ("-b", benchmark, "--llm", "oracle:titles", "--limit", "1", "--json")
    done = run("evaluate", *options, "--method", "canopy", "--method", "canopy-f0", "--out", "a")
    assert done.code == 0, done.err
    models = json.loads((tmp_path / "work" / "a" / "config.json").read_text())["fixed"]["models"]
    assert models["frozen"]["revision"] != models["encoder"]["revision"]
    accuracy = done.json["metrics"]["benchmarks"]["hotpotqa"]["decision_accuracy"]
    assert set(accuracy) == {"f_theta", "f0"}
    bare = run("evaluate", *options, "--method", "canopy", "--encoder", "minilm:base", "--out", "b")
    assert set(bare.json["metrics"]["benchmarks"]["hotpotqa"]["decision_accuracy"]) == {"f0"}


def test_methods_that_need_the_frozen_encoder_are_not_added_to_a_run_that_has_none(run, benchmark):
    options = ("evaluate", "-b", benchmark, "--llm", "oracle:titles", "--limit", "1")
    assert run(*options, "--method", "canopy", "--out", "a").code == 0
    done = run(*options, "--method", "canopy-f0", "--out", "a")
    assert done.code == 2
    assert "models.frozen" in done.err


def test_a_report_of_no_run_says_so(run, tmp_path):
    done = run("report", str(tmp_path))
    assert done.code == 1
    assert "holds no run" in done.err
    assert run("report", "a", "b").code == 2
