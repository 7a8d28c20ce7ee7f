"""Several chat servers, some slow or broken, in virtual time: `benchmarks/bench_replicas.py`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SECONDS = 60.0


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        spec = importlib.util.spec_from_file_location(
            "bench_replicas", FOLDER / "bench_replicas.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "bench_replicas", module)
        spec.loader.exec_module(module)
        yield module


def run(bench: ModuleType, scenario: str, policy: str = "canopy") -> dict[str, Any]:
    servers = bench.scenarios(1.0)[scenario]
    found: dict[str, Any] = bench.virtual_time.run(bench.simulated(servers, policy, SECONDS))
    return found


@pytest.mark.parametrize(
    ("scenario", "least"),
    [
        ("latencies 1, 1, 2, 4", 0.98),
        ("each fails once in 50", 0.95),
        ("one hung", 0.95),
        ("one flapping", 0.85),
        ("one rate-limited, does not", 0.95),
        ("three gone", 0.95),
    ],
)
def test_servers_do_nearly_all_they_can_and_no_caller_sees_an_error(
    bench: ModuleType, scenario: str, least: float
) -> None:
    found = run(bench, scenario)
    assert found["errors"] == 0
    assert least < found["of_ideal"] < 1.05


def test_taking_turns_would_be_as_slow_as_the_slowest(bench: ModuleType) -> None:
    scenario = "latencies 1, 1, 2, 4"
    assert run(bench, scenario, "round robin")["of_ideal"] < 0.5
    shares = run(bench, scenario)["share"]
    assert shares == pytest.approx([4 / 11, 4 / 11, 2 / 11, 1 / 11], abs=0.02)
