"""A few kills at random moments of each kind of run; `benchmarks/crash_campaign.py` does many."""

from __future__ import annotations

import sys

import pytest
from tests.faults.crashes import indices, kinds
from tests.faults.crashes.campaign import kills
from tests.faults.crashes.serving import Serving

from canopy_rag.store import LanceStore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc for processes")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kinds.Indexing, kinds.Pruning, kinds.Evaluating, Serving])
def test_a_run_that_is_killed_leaves_whole_files_alone_and_the_next_one_completes_them(
    kind, tmp_path
):
    if kind is Serving:
        pytest.importorskip("fastapi")
    outcome = kills(kind(tmp_path), 2, seed=1)
    assert outcome.kills == 2
    assert not outcome.faults


def test_the_look_at_an_index_sees_a_part_of_a_file_and_a_lost_one(tmp_path):
    kind = kinds.Indexing(tmp_path)
    kind.docs.mkdir()
    (kind.docs / "a.txt").write_text("Granite lantern.", "utf-8")
    for name in ("b.txt", "c.txt"):
        (kind.docs / name).write_text("\n\n".join(["Copper kettle. " * 60] * 3), "utf-8")
    indices.Index.open(tmp_path / "right", create=True, config=indices.CONFIG).add(kind.docs)
    right = indices.known(tmp_path / "right")
    assert indices.faults_of_completed(tmp_path / "right", right) == []

    table = next(iter(LanceStore.open(tmp_path / "right")._catalog.tables().values()))
    (uri, items), *_ = [(uri, items) for uri, items in right.content.items() if len(items) > 1]
    table._table.delete(f"id = '{items[0][0]}'")
    found = indices.faults_of_killed(tmp_path / "right", right.content)
    assert found == [f"{uri}: {len(items) - 1} items, which is no version of it"]
    table._table.delete(f"uri = '{uri}'")
    found = indices.faults_of_completed(tmp_path / "right", right)
    assert f"{uri}: it is missing" in found
    assert "its digest is another one" in found
