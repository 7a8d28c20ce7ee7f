from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))
NEEDS = {"dspy_module": "dspy"}
"""Modules that an example needs and `make test` does without."""


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # DSPy's; else it asks the network
    if path.stem in NEEDS:
        module = NEEDS[path.stem]
        pytest.importorskip(module, reason=f"the example needs {module}: extra `frameworks`")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_examples_is_complete() -> None:
    listed = (EXAMPLES[0].parent / "README.md").read_text("utf-8")
    assert [path.name for path in EXAMPLES if f"({path.name})" not in listed] == []
