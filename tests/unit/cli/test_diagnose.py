"""`canopy diagnose` on a made-up benchmark in its official layout."""

import json

import pytest


def test_json_alone_is_on_stdout(run, benchmark, tmp_path):
    out = tmp_path / "out"
    done = run(
        *("diagnose", "--benchmark", benchmark, "--encoder", "hashing"),
        *("--limit", "2", "--out", str(out), "--json"),
    )
    assert done.code == 0, done.err
    body = done.json
    assert body["benchmarks"]["hotpotqa"]["n"] == 2
    assert (body["encoder"], body["split"], body["k"]) == ("hashing", "test", 10)
    assert json.loads((out / "diagnosis.json").read_text()) == body
    assert (out / "decision-accuracy.png").exists()


def test_people_get_a_table_of_selections(run, benchmark):
    done = run("diagnose", "-b", benchmark, "--encoder", "hashing", "--split", "train")
    assert done.code == 0, done.err
    assert "decision accuracy" in done.out
    assert "whole-10" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-b", "hotpot=."], 2, "Did you mean 'hotpotqa'"),
        (["-b", "hotpotqa"], 2, "NAME=PATH"),
        (["-b", "hotpotqa=nowhere"], 1, "no such folder"),
        (["-b", "BENCHMARK", "--limit", "0"], 2, "--limit"),
        ([], 2, "--benchmark"),
    ],
)
def test_wrong_usage_says_what_is_right(run, benchmark, arguments, code, message):
    done = run("diagnose", *(benchmark if each == "BENCHMARK" else each for each in arguments))
    assert done.code == code
    assert message in done.err
