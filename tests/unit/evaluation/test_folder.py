"""A run goes on with what it was made with, and with nothing else."""

import json

import pytest

from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.evaluation.folder import CONFIG, PREDICTIONS, RunFolder

FIXED = {"settings": {"retrieval.k": 10}, "benchmarks": {"nq": {"files": "a"}}}
FREE = {"methods": ["canopy"]}


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_other_settings_are_refused_and_what_differs_is_named(folder):
    folder.begin(FIXED, FREE)
    with pytest.raises(ConfigError, match=r"settings\.retrieval\.k: 10 there, 5 now"):
        folder.begin({**FIXED, "settings": {"retrieval.k": 5}}, FREE)
    assert folder.config()["fixed"] == FIXED


def test_one_benchmark_more_or_fewer_is_another_pool(folder):
    folder.begin(FIXED, FREE)
    with pytest.raises(ConfigError, match=r"benchmarks\.ottqa"):
        folder.check({"benchmarks": {"nq": {"files": "a"}, "ottqa": {}}})
    with pytest.raises(ConfigError, match=r"benchmarks\.nq"):
        folder.check({"benchmarks": {}})


def test_what_is_not_known_yet_is_not_compared(folder):
    folder.begin({**FIXED, "models": {"llm": "m"}}, FREE)
    folder.check(FIXED)


def test_methods_may_be_added_and_every_environment_is_kept(folder):
    folder.begin(FIXED, FREE)
    folder.begin(FIXED, FREE)
    folder.begin(FIXED, {"methods": ["vanilla"]})
    environments = folder.config()["environments"]
    assert [each["methods"] for each in environments] == [["canopy"], ["vanilla"]]
    assert environments[0]["packages"]["numpy"]


def test_predictions_without_settings_are_refused(folder):
    (folder / PREDICTIONS).write_text("")
    with pytest.raises(DataError, match="nobody knows"):
        folder.begin(FIXED, FREE)


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"format": 99})])
def test_settings_that_cannot_be_read_are_an_error(folder, content):
    (folder / CONFIG).write_text(content)
    with pytest.raises(DataError, match=r"config\.json"):
        folder.config()
