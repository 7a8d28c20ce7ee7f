"""What LanceStore does beyond the contract of every store."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from canopy_rag.core.coding import dense, stored
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry
from canopy_rag.store import LanceStore, MemoryLimits
from canopy_rag.store import lance as lance_module
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.store_contract import DIM, FINGERPRINT, make_entry, make_item, unit


def as_stored(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors.astype(np.float16).astype(np.float32)


def random_entries(n: int, *, per_source: int = 10, text: str = "") -> list[Entry]:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(n, DIM)).astype(np.float32)
    vectors = as_stored(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    kinds = ("text", "table", "image", "video")
    return [
        make_entry(
            make_item(f"d{i // per_source}", i % per_source, kinds[i % 4], text=text), vectors[i]
        )
        for i in range(n)
    ]


def fill(store, entries) -> None:
    store.replace({entry.item.source.uri for entry in entries}, entries)


def holds(folder: Path, marker: str) -> list[str]:
    """Return the files below `folder` with the bytes of `marker`, in any case."""
    wanted = marker.lower().encode()
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and wanted in path.read_bytes().lower()
    ]


def test_a_missing_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="canopy index PATH --index"):
        LanceStore.open(tmp_path / "none")


def test_an_index_is_not_made_over_another(tmp_path: Path) -> None:
    LanceStore.create(tmp_path / "index", FINGERPRINT)
    with pytest.raises(StoreError, match="already"):
        LanceStore.create(tmp_path / "index", FINGERPRINT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"format_version": 99}', "format version 99, this program reads 3"),
        ("{", "cannot be read"),
        ("[]", "format version None"),
        ('{"format_version": 2}', "canopy upgrade --index"),
        ('{"format_version": 3}', "does not describe an index"),
    ],
)
def test_an_index_json_that_cannot_be_used_is_refused(
    tmp_path: Path, content: str, words: str
) -> None:
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(StoreError, match=words):
        LanceStore.open(tmp_path)


def test_another_encoder_is_refused_on_opening(tmp_path: Path) -> None:
    LanceStore.create(tmp_path / "index", FINGERPRINT)
    other = FINGERPRINT.__class__(model="else", revision="2", mode="late", instruction="", dim=DIM)
    with pytest.raises(StoreError, match=r"'fake'.*not of 'else'.*index again"):
        LanceStore.open(tmp_path / "index", fingerprint=other)


def test_object_stores_are_refused_until_they_are_supported() -> None:
    with pytest.raises(StoreError, match="s3://bucket/x"):
        LanceStore.open("s3://bucket/x")


def test_damaged_tables_are_told(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(store, random_entries(3))
    for path in (tmp_path / "index/tables/main.lance/data").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(StoreError, match="cannot be read"):
        LanceStore.open(tmp_path / "index").search(unit(1), 2)
    meta = json.loads((tmp_path / "index/index.json").read_text())
    meta["corpora"]["main"] = "elsewhere"
    (tmp_path / "index/index.json").write_text(json.dumps(meta))
    with pytest.raises(StoreError, match="'elsewhere' was not found"):
        LanceStore.open(tmp_path / "index").search(unit(1), 2)


def test_removed_and_replaced_content_is_gone_from_every_file(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    store = LanceStore.create(folder, FINGERPRINT, hybrid=True)
    fill(store, random_entries(40))
    marked = [
        make_entry(make_item("marked", n, text=f"A secretmarker{n}. Really."), unit(1))
        for n in range(2)
    ]
    fill(store, marked)
    replaced = make_item("replaced", text="An oldmarker. Really.")
    fill(store, [make_entry(replaced, unit(1))])
    store.compact()
    assert holds(folder, "secretmarker")
    assert holds(folder, "oldmarker")

    store.remove({"marked"})
    fill(store, [make_entry(make_item("replaced", text="A new text. Really."), unit(1))])
    assert store.needs_compaction
    store.compact()

    assert holds(folder, "secretmarker") == []
    assert holds(folder, "oldmarker") == []
    assert not store.needs_compaction
    assert store.count()["total"] == 41


def test_a_removal_that_was_not_wiped_is_wiped_by_the_next_writer(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    store = LanceStore.create(folder, FINGERPRINT)
    fill(store, random_entries(40))
    fill(store, [make_entry(make_item("marked", text="A secretmarker. Really."), unit(1))])
    store.remove({"marked"})
    again = LanceStore.open(folder)
    assert again.needs_compaction
    again.compact()
    assert holds(folder, "secretmarker") == []


def test_an_open_store_sees_what_another_one_writes(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    writer = LanceStore.create(folder, FINGERPRINT)
    server = LanceStore.open(folder)
    assert server.search(unit(1), 5) == []
    fill(writer, [make_entry(make_item("a"), unit(1))])
    assert [found.item.source.uri for found in server.search(unit(1), 5)] == ["a"]
    fill(writer, [make_entry(make_item("b", corpus="other"), unit(1))])
    assert len(server.search(unit(1), 5)) == 2
    fill(writer, [make_entry(make_item("a", text="It changed. Yes."), unit(0, 1))])
    writer.compact()
    first = server.search(unit(0, 1), 1)[0].item
    assert first.payload.text == "It changed. Yes."
    writer.remove({"a"})
    writer.compact()
    assert [found.item.source.uri for found in server.search(unit(0, 1), 5)] == ["b"]


@pytest.mark.parametrize("resident_bytes", [0, 1 << 30])
def test_a_store_that_is_searched_often_sees_every_commit_of_another_one(
    tmp_path: Path, resident_bytes: int
) -> None:
    """Also one that follows so closely that the folder's time stamp does not move."""
    folder = tmp_path / "index"
    writer = LanceStore.create(folder, FINGERPRINT)
    fill(writer, random_entries(40))
    server = LanceStore.open(folder, limits=MemoryLimits(resident_bytes=resident_bytes))
    exact = MemoryStore(FINGERPRINT)
    fill(exact, random_entries(40))
    for n in range(12):
        item = make_item("d1", n, text=f"Number {n}. Yes.")
        change = [make_entry(item, as_stored(unit(1, n)))]
        fill(writer, change)
        fill(exact, change)
        if n % 4 == 3:
            writer.compact()
        for _ in range(12):
            found, wanted = server.search(unit(1), 10), exact.search(unit(1), 10)
            assert [f.hit for f in found] == [w.hit for w in wanted]
            assert [f.item for f in found] == [w.item for w in wanted]
            for f, w in zip(found, wanted, strict=True):
                expected = dense(stored(w.nodes.rows, "int4"))
                assert np.array_equal(dense(f.nodes.rows), expected)


def test_rows_that_are_kept_in_memory_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(store, random_entries(40))
    expected = [found.item for found in store.search(unit(1), 5)]
    for _ in range(20):
        store.search(unit(1), 5)
    monkeypatch.setattr(
        "lancedb.table.LanceTable.take_row_ids", lambda *_: pytest.fail("it read the disk")
    )
    assert [found.item for found in store.search(unit(1), 5)] == expected
    assert len(store.search(unit(1), 5, modalities=["table", "video"])) == 5


def test_an_index_made_anew_in_the_same_place_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    fill(LanceStore.create(folder, FINGERPRINT), [make_entry(make_item("a"), unit(1))])
    server = LanceStore.open(folder)
    server.search(unit(1), 1)
    folder.rename(tmp_path / "old")
    fill(LanceStore.create(folder, FINGERPRINT), [make_entry(make_item("b"), unit(1))])
    assert [found.item.source.uri for found in server.search(unit(1), 5)] == ["b"]


def test_searches_go_on_while_another_store_compacts(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    entries = random_entries(200)
    writer = LanceStore.create(folder, FINGERPRINT)
    fill(writer, entries)
    server = LanceStore.open(folder)
    expected = [found.hit.item_id for found in server.search(unit(1), 10)]
    failures: list[BaseException] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                found = server.search(unit(1), 10)
                assert [each.hit.item_id for each in found] == expected
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    for _ in range(8):
        far = [make_entry(make_item("far"), unit(-1))]
        fill(writer, far)
        writer.remove({"far"})
        writer.compact()
    done.set()
    thread.join()
    assert failures == []


def test_with_a_vector_index_the_best_are_those_of_an_exact_search(tmp_path: Path) -> None:
    entries = random_entries(5200)
    exact = MemoryStore(FINGERPRINT)
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(exact, entries)
    fill(store, entries[:5000])
    store.compact()
    fill(store, entries[5000:])  # not in the index yet, found all the same
    on_disk = LanceStore.open(tmp_path / "index", limits=MemoryLimits(exact_bytes=0))
    assert "vector" in on_disk.info()["indices"]
    for query in (unit(1), unit(1, -2, 3), unit(-1, 0, 0, 2)):
        for modalities in (None, ["table"], ["image", "video"]):
            wanted = exact.search(query, 10, modalities=modalities)
            for each in (store, on_disk):
                found = each.search(query, 10, modalities=modalities)
                assert [f.hit for f in found] == [w.hit for w in wanted]


def test_hybrid_search_finds_words_that_the_vectors_miss(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT, hybrid=True)
    near = [make_entry(make_item(f"near{n}"), unit(1, n / 100)) for n in range(80)]
    far = make_entry(make_item("far", text="The zygomorphic flower. It is rare."), unit(-1, 1))
    chinese = make_entry(make_item("zh", text="北京的春天很美。花开了。"), unit(-1, 2))
    fill(store, [*near, far, chinese])
    store.compact()
    assert far.item.id not in [f.item.id for f in store.search(unit(1), 10)]
    found = store.search(unit(1), 10, text="zygomorphic")
    assert far.item.id in [f.item.id for f in found]
    assert [f.hit.rank for f in found] == list(range(1, 11))
    hit = next(f.hit for f in found if f.item.id == far.item.id)
    assert hit.similarity == pytest.approx(-(0.5**0.5), abs=1e-3)
    assert chinese.item.id in [f.item.id for f in store.search(unit(1), 10, text="春天")]
    late = make_entry(make_item("late", text="A quixotic newcomer. Yes."), unit(-1, 3))
    fill(store, [late])
    assert late.item.id in [f.item.id for f in store.search(unit(1), 10, text="quixotic")]
    assert len(store.search(unit(1), 10, text="?! ' \" AND (")) == 10


def test_hybrid_search_without_words_in_the_index_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    fill(LanceStore.create(folder, FINGERPRINT), random_entries(5))
    store = LanceStore.open(folder, hybrid=True)
    with pytest.raises(StoreError, match="full-text"):
        store.search(unit(1), 3, text="words")
    store.compact()
    assert len(store.search(unit(1), 3, text="words")) == 3
    assert LanceStore.open(folder).info()["hybrid"] is True


def test_a_source_larger_than_memory_goes_through_a_file_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.store.spool.MEMORY_BYTES", 10_000)
    folder = tmp_path / "index"
    store = LanceStore.create(folder, FINGERPRINT)
    entries = random_entries(600, per_source=600)
    staged = []

    def watched():
        for entry in entries:
            staged.append(sum(1 for _ in (folder / "staging").glob("*")))
            yield entry

    for _ in range(2):  # new, then replaced
        assert store.replace({"d0"}, watched()) == 600
        assert max(staged) == 1
        assert list((folder / "staging").iterdir()) == []
        assert store.sources() == {"d0": 600}
    expected = {entry.item.id: entry.item for entry in entries}
    assert all(found.item == expected[found.item.id] for found in store.search(unit(1), 50))


def test_what_a_killed_writer_left_staged_is_cleared(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    (tmp_path / "index/staging").mkdir()
    (tmp_path / "index/staging/left").write_bytes(b"half a file")
    with LanceStore.open(tmp_path / "index").writing():
        assert list((tmp_path / "index/staging").iterdir()) == []
    assert store.sources() == {}


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    first = LanceStore.create(tmp_path / "index", FINGERPRINT)
    second = LanceStore.open(tmp_path / "index")
    with first.writing():
        with first.writing():
            pass
        with pytest.raises(StoreError, match=f"process {os.getpid()} on "), second.writing():
            pytest.fail("two writers")
    with second.writing():
        pass


def test_many_commits_are_compacted_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_module, "_COMPACT_EVERY", 5)
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    for n in range(6):
        fill(store, [make_entry(make_item(f"d{n}"), unit(1, n))])
    assert len(list((tmp_path / "index/tables/main.lance/data").iterdir())) == 2
    assert store.count()["total"] == 6


def test_info_is_what_canopy_info_prints(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    entries = random_entries(8)
    fill(store, entries)
    info = store.info()
    assert info["items"] == {"total": 8, "text": 2, "table": 2, "image": 2, "video": 2}
    assert info["nodes"] == sum(len(entry.item.nodes) for entry in entries)
    assert info["digest"] == store.digest()
    assert info["encoder"] == "fake"
    assert info["format_version"] == 3
    assert info["vectors"] == "int4"
    assert info["embedded"] == dict.fromkeys(("text", "table", "image", "video"), "text")
    assert info["adapter"] is None
    assert info["bytes"] == sum(
        path.stat().st_size for path in (tmp_path / "index").rglob("*") if path.is_file()
    )
    json.dumps(info)


def test_an_index_knows_what_was_embedded_from_its_pixels(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    LanceStore.create(folder, FINGERPRINT, media={"image"}, adapter="/adapters/a")
    again = LanceStore.open(folder)
    assert again.media == {"image"}
    assert again.adapter == "/adapters/a"
    expected = {"text": "text", "table": "text", "image": "media", "video": "text"}
    assert again.info()["embedded"] == expected


def test_an_index_of_before_and_one_with_further_notes_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    LanceStore.create(folder, FINGERPRINT)
    path = folder / "index.json"
    meta = json.loads(path.read_text("utf-8"))
    del meta["media"], meta["adapter"]
    path.write_text(json.dumps({**meta, "note": "of a later version"}), encoding="utf-8")
    assert LanceStore.open(folder).media == frozenset()


def test_digests_of_both_stores_agree(tmp_path: Path) -> None:
    entries = random_entries(20)
    memory, lance = MemoryStore(FINGERPRINT), LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(memory, entries)
    fill(lance, entries)
    assert memory.digest() == lance.digest()


def test_a_search_that_always_finds_the_rows_moved_gives_up_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(store, random_entries(5))
    monkeypatch.setattr(lance_module, "fetch", lambda tables, chosen: None)
    with pytest.raises(StoreError, match="rewritten during each"):
        store.search(unit(1), 2)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("No space left on device", "make room"),
        ("Permission denied", "give write permission"),
        ("something else", "run the same command again"),
    ],
)
def test_a_commit_that_fails_says_what_to_do_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, remedy: str
) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    fill(store, random_entries(5))
    digest = store.digest()

    def failing(self, *_args, **_kwargs):
        raise RuntimeError(f"lance error: {reason} (os error)")

    monkeypatch.setattr("lancedb.table.LanceTable.add", failing)
    with pytest.raises(StoreError, match=remedy):
        fill(store, [make_entry(make_item("new"), unit(1))])
    monkeypatch.undo()
    assert store.digest() == digest
