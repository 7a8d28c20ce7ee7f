"""A run that is killed loses and doubles nothing: the next one ends where a clean one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder, write

from canopy_rag.store import LanceStore
from canopy_rag.testing.memory_store import MemoryStore

CHECKOUT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("indexing_child.py")


def run(docs: Path, index: Path) -> str:
    """Run to the end; return the digest."""
    if not (index / "index.json").exists():
        LanceStore.create(index, PickyEncoder().fingerprint)
    bench = Bench(index, LanceStore.open(index))
    bench.run(docs, prune=True)
    return str(bench.store.digest())


def clean(docs: Path, folder: Path) -> str:
    """Return the digest of an index made at one go."""
    folder.mkdir()
    bench = Bench(folder, MemoryStore(PickyEncoder().fingerprint))
    bench.run(docs)
    return str(bench.store.digest())


def run_and_kill(docs: Path, index: Path, point: str) -> None:
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(CHECKOUT), str(docs), str(index), point],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.kill()
        assert line.strip() == "there", f"it never came to {point}: {line}"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for n in range(6):
        write(folder / f"{n}.txt", *(f"file {n} line {m}" for m in range(3)))
    write(folder / "large.txt", *(f"long line {m}" for m in range(14)))
    return folder


def change(docs: Path) -> None:
    write(docs / "1.txt", "changed", "shorter")
    write(docs / "large.txt", *(f"changed line {m}" for m in range(10)))
    write(docs / "new.txt", "came later")
    (docs / "4.txt").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["parse:3", "committed:2", "compact:1"])
def test_a_first_run_that_is_killed_is_taken_up(docs: Path, tmp_path: Path, point: str) -> None:
    run_and_kill(docs, tmp_path / "killed", point)
    assert run(docs, tmp_path / "killed") == clean(docs, tmp_path / "clean")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["encode:3", "committed:2", "removed:1", "compacted:1"])
def test_a_later_run_that_is_killed_is_taken_up(docs: Path, tmp_path: Path, point: str) -> None:
    run(docs, tmp_path / "killed")
    change(docs)
    run_and_kill(docs, tmp_path / "killed", point)
    assert run(docs, tmp_path / "killed") == clean(docs, tmp_path / "clean")
