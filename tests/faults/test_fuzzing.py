"""A slice of the fuzzing campaign, `benchmarks/fuzz_ingest.py`; the campaign itself is a script."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_mutated_files_of_every_format_are_read_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CANOPY_SAMPLES", raising=False)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    fuzzing = importlib.import_module("fuzz_ingest")
    cases = fuzzing.Cases(5)
    chosen = fuzzing.choose(cases.suffixes, 150)
    found = fuzzing.run(cases, chosen, 1, tmp_path)
    assert {suffix for suffix, _ in chosen} == set(cases.suffixes)
    assert [each for each in found if each[1] in fuzzing.FORBIDDEN] == []
    assert {"parsed", "clear error"} <= {each[1] for each in found}
