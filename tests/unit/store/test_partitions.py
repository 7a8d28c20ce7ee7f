"""Partitions find what an exact search finds, and follow the table they were made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from canopy_rag.core.protocols import Entry
from canopy_rag.store import LanceStore, MemoryLimits, partitions, warm
from canopy_rag.store.partitions import block, make, n_partitions, train
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.store_contract import DIM, FINGERPRINT, make_entry, make_item, unit

ON_DISK = MemoryLimits(exact_bytes=0)


def random_vectors(n: int, dim: int = 32, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(40, dim))
    vectors = topics[rng.integers(0, 40, n)] + 0.5 * rng.normal(size=(n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def partitioned(vectors: np.ndarray, modalities: list[str]) -> partitions.Partitions:
    row_ids = np.arange(len(vectors)) + 1_000
    parts = (
        block(vectors[begin : begin + 300], row_ids[begin : begin + 300], modalities[begin:][:300])
        for begin in range(0, len(vectors), 300)
    )
    return make(train(vectors[::2], n_partitions(len(vectors))), parts)


def test_a_search_looks_at_the_nearest_partitions_until_it_saw_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = random_vectors(4_000)
    made = partitioned(vectors, ["text"] * 4_000)
    queries = random_vectors(40, seed=4)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :10] + 1_000

    def recall(n_scanned: int) -> float:
        monkeypatch.setattr(partitions, "SCANNED", n_scanned)
        found = [made.nearest(query, 10, None) for query in queries]
        return float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, exact, strict=True)]))

    assert recall(1) < recall(400) < recall(4_000)
    assert recall(400) > 0.8
    assert recall(4_000) > 0.97  # what is left is the rounding to bytes


def test_a_filter_looks_at_as_many_items_of_its_modality() -> None:
    vectors = random_vectors(3_000)
    modalities = ["table" if n % 50 == 0 else "text" for n in range(3_000)]
    made = partitioned(vectors, modalities)
    query = random_vectors(1, seed=5)[0]
    own = np.flatnonzero(np.array(modalities) == "table")
    best = own[np.argsort(-(vectors[own] @ query))] + 1_000
    assert set(made.nearest(query, 10, ["table"])) == set(best[:10].tolist())
    assert len(made.nearest(query, 100, ["table", "image"])) == 60
    assert made.nearest(query, 10, ["video"]) == []


def test_equal_items_are_found_in_the_order_they_stand_in() -> None:
    vectors = np.repeat(random_vectors(10), 30, axis=0)
    made = partitioned(vectors, ["text"] * 300)
    found = made.nearest(vectors[0], 20, None)
    assert found == list(range(1_000, 1_020))


def test_the_same_vectors_make_the_same_partitions() -> None:
    vectors = random_vectors(500)
    one, other = (partitioned(vectors, ["text"] * 500) for _ in range(2))
    assert np.array_equal(one.centres, other.centres)
    assert np.array_equal(one.items.row_ids, other.items.row_ids)


def test_partitions_follow_small_changes_and_give_up_at_large_ones() -> None:
    vectors = random_vectors(1_000)
    made = partitioned(vectors, ["text"] * 1_000)
    query = vectors[7]
    assert made.nearest(query, 1, None) == [1_007]
    now = np.array([*range(1_000, 1_007), *range(1_008, 2_000), 5_000, 5_001], np.uint64)

    changed = made.updated(now)
    assert changed is not None
    without, new = changed
    assert new.tolist() == [5_000, 5_001]
    assert 1_007 not in without.nearest(query, 1_000, None)
    added = without.with_late(block(vectors[7:9], np.array([5_000, 5_001]), ["text", "table"]))
    assert added.nearest(query, 1, None) == [5_000]
    assert 5_000 not in added.nearest(query, 1_000, ["table"])

    again = added.updated(now[:-2])
    assert again is not None
    assert 5_000 not in again[0].nearest(query, 1_000, None)
    assert made.updated(np.arange(1_100, 2_000)) is None
    assert made.updated(np.arange(5_000, 6_000)) is None


def as_stored(vectors: np.ndarray) -> np.ndarray:
    return vectors.astype(np.float16).astype(np.float32)


def stored(*head: float) -> np.ndarray:
    return as_stored(unit(*head))


def entries(n: int) -> list[Entry]:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(n, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = as_stored(vectors)
    kinds = ("text", "table", "image", "video")
    return [
        make_entry(make_item(f"d{i // 10}", i % 10, kinds[i % 4]), vectors[i]) for i in range(n)
    ]


def fill(store, some) -> None:
    store.replace({entry.item.source.uri for entry in some}, some)


def settle(store: LanceStore) -> None:
    """Search until partitions are there."""
    for _ in range(warm.OFTEN + 1):
        store.search(unit(1), 1)
    for table in store._catalog.tables().values():
        table.settle()


def no_search_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancedb.table.LanceTable.search", lambda *_, **__: pytest.fail("on disk"))


def test_an_index_that_is_searched_often_is_searched_in_memory_with_the_same_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = MemoryStore(FINGERPRINT)
    LanceStore.create(tmp_path / "index", FINGERPRINT)
    store = LanceStore.open(tmp_path / "index", limits=ON_DISK)
    for each in (exact, store):
        fill(each, entries(400))
    settle(store)
    no_search_on_disk(monkeypatch)
    for query in (unit(1), unit(1, -2, 3)):
        for modalities in (None, ["table"], ["image", "video"]):
            wanted = exact.search(query, 10, modalities=modalities)
            found = store.search(query, 10, modalities=modalities)
            assert [f.hit for f in found] == [w.hit for w in wanted]
            assert [f.item for f in found] == [w.item for w in wanted]


def test_partitions_are_not_made_for_what_is_small_or_too_large(tmp_path: Path) -> None:
    fill(LanceStore.create(tmp_path / "index", FINGERPRINT), entries(40))
    for limits in (MemoryLimits(), MemoryLimits(exact_bytes=0, partitioned_bytes=100)):
        store = LanceStore.open(tmp_path / "index", limits=limits)
        settle(store)
        assert not store._catalog.tables()["main"].is_warm


def test_a_table_too_large_for_partitions_is_counted_and_not_read() -> None:
    class Large:
        version = 1

        def count_rows(self) -> int:
            return 10**9

        def search(self) -> None:
            pytest.fail("a thousand million rows were read")

    held = warm.Warm(Large(), lambda n_items: n_items < 10, lambda _: True)
    for _ in range(warm.OFTEN):
        held.searched()
    held.wait()
    assert not held.is_ready


def test_every_commit_is_seen_by_a_store_that_searches_in_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    writer = LanceStore.create(folder, FINGERPRINT)
    exact = MemoryStore(FINGERPRINT)
    for each in (writer, exact):
        fill(each, entries(200))
    server = LanceStore.open(folder, limits=ON_DISK)
    settle(server)
    for n in range(6):
        change = [make_entry(make_item("d1", n, text=f"Number {n}. Yes."), stored(1, n))]
        for each in (writer, exact):
            fill(each, change)
        if n % 3 == 2:
            writer.compact()
        for _ in range(2):  # on disk, then in memory
            found, wanted = server.search(unit(1), 10), exact.search(unit(1), 10)
            assert [f.hit for f in found] == [w.hit for w in wanted]
            assert [f.item for f in found] == [w.item for w in wanted]
            settle(server)
        assert server._catalog.tables()["main"].is_warm


def test_partitions_that_cannot_be_made_are_told_of_and_searches_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(LanceStore.create(tmp_path / "index", FINGERPRINT), entries(40))
    store = LanceStore.open(tmp_path / "index", limits=ON_DISK)

    def failing(*_: object) -> None:
        raise OSError("a file is gone")

    monkeypatch.setattr(warm, "train", failing)
    settle(store)
    assert "a file is gone" in caplog.text
    assert len(store.search(unit(1), 10)) == 10
    monkeypatch.undo()
    settle(store)
    assert store._catalog.tables()["main"].is_warm
