"""A run on Ray whose own process is killed: the next run, on any engine, goes on from there."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder, write

from canopy_rag.store import LanceStore
from canopy_rag.testing.memory_store import MemoryStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `ray`"),
    pytest.mark.skipif(sys.platform == "win32", reason="groups of processes as POSIX has them"),
]

CHECKOUT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("ray_child.py")
N_FILES = 24
N_COMMITS = 2


def test_a_run_on_ray_that_is_killed_is_taken_up_without_its_finished_files(
    tmp_path: Path,
) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    for n in range(N_FILES):
        write(docs / f"{n:02}.txt", *(f"file {n} line {m}" for m in range(3)))
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(CHECKOUT), str(docs), str(index), str(N_COMMITS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.kill()
        assert line.strip() == "there", f"it never came to its second commit: {line}"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what Ray has not ended by itself yet
    bench = Bench(index, LanceStore.open(index))
    n_there = len(bench.store.sources())
    assert n_there == 2 * N_COMMITS  # of four lines or more, a file has three
    report = bench.run(docs)
    assert report.failed == []
    assert report.unchanged + report.indexed + report.replaced == N_FILES
    assert bench.encoder.n_encoded == 3 * (N_FILES - n_there + 2)  # the last commit's again
    clean = Bench(tmp_path / "clean", MemoryStore(PickyEncoder().fingerprint))
    clean.folder.mkdir()
    clean.run(docs)
    assert bench.store.digest() == clean.store.digest()
