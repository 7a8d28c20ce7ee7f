from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"


@pytest.mark.parametrize("name", ["budget", "loop"])
def test_a_benchmark_without_its_data_says_so_and_keeps_its_result(name: str) -> None:
    before = (RESULTS / f"{name}.json").read_bytes()
    environment = {key: value for key, value in os.environ.items() if key != "CANOPY_DATA"}
    script = ROOT / f"benchmarks/bench_{name}.py"
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("skipped: needs samples of nq, hotpotqa, musique, ottqa")
    assert (RESULTS / f"{name}.json").read_bytes() == before


def test_quality_without_its_data_says_so() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "CANOPY_DATA"}
    script = ROOT / "benchmarks/quality.py"
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    needed = "nq, hotpotqa, musique, ottqa, tatqa, 2wikimultihopqa"
    assert run.stdout.startswith(f"skipped: needs samples of {needed}")


def test_a_benchmark_names_the_samples_that_its_folder_lacks(tmp_path: Path) -> None:
    (tmp_path / "nq").mkdir()
    script = ROOT / "benchmarks/bench_budget.py"
    run = subprocess.run(
        [sys.executable, script, "--data", tmp_path], capture_output=True, text=True, check=True
    )
    assert "needs samples of hotpotqa, musique, ottqa (not in " in run.stdout
