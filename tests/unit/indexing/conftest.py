from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder

from canopy_rag.testing.memory_store import MemoryStore


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "index"
    folder.mkdir()
    return Bench(folder, MemoryStore(PickyEncoder().fingerprint))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def aged():
    """Make files look an hour old, so that their time stamp can be trusted."""

    def age(*paths: Path) -> None:
        then = time.time_ns() - 3600 * 10**9
        for path in paths:
            os.utime(path, ns=(then, then))

    return age
