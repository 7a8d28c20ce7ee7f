"""Damaged files, full disks, a folder that is not writable, clocks that jump: nothing is silent.

`benchmarks/bench_store_faults.py` does the same many times; some of its injections run here.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder, write
from typer.testing import CliRunner

from canopy_rag.cli import app
from canopy_rag.core.errors import StoreError
from canopy_rag.indexing.manifest import Manifest, Record
from canopy_rag.store import LanceStore
from canopy_rag.store.checksums import NAME as CHECKSUMS
from canopy_rag.testing.store_contract import FINGERPRINT, make_entry, make_item, unit

ROOT = Path(__file__).resolve().parents[2]
_LINUX_ROOT = sys.platform == "linux" and os.geteuid() == 0


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "bench_store_faults", ROOT / "benchmarks/bench_store_faults.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, faults: ModuleType) -> tuple[Path, Path]:
    """Documents, and an index of them."""
    folder = tmp_path_factory.mktemp("made")
    docs = faults.documents(folder / "docs", 12, 3)
    faults.indexed(str(folder / "index"), docs)
    return docs, folder / "index"


@pytest.fixture
def copy(made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("CANOPY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CANOPY_ENCODER_NAME", "hashing")
    shutil.copytree(made[1], tmp_path / "index")
    return tmp_path / "index"


def verified(index: Path, exit_code: int) -> Any:
    done = CliRunner().invoke(app, ["verify", "--index", str(index), "--json"])
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


def one(index: Path, pattern: str) -> Path:
    return sorted(index.glob(pattern))[0]


def test_an_index_that_is_as_it_was_written_is_sound(copy: Path) -> None:
    report = verified(copy, 0)
    assert (report["sound"], report["damaged"], report["rebuild"]) == (True, [], None)
    assert report["items"] > 0
    told = CliRunner().invoke(app, ["verify", "--index", str(copy)])
    assert told.stdout.startswith(f"sound: {report['items']} items in ")


def test_a_single_flipped_bit_is_named_with_the_command_that_makes_the_index_anew(
    copy: Path, made: tuple[Path, Path], faults: ModuleType
) -> None:
    file = one(copy, "tables/*/data/*")
    faults.injure(file, "flip", random.Random(3))
    report = verified(copy, 1)
    named = {
        "file": file.relative_to(copy).as_posix(),
        "reason": "has other content than was written",
    }
    assert named in report["damaged"]
    assert report["rebuild"] == f"canopy index {made[0]} --index {copy}-new"
    done = CliRunner().invoke(app, report["rebuild"].split()[1:])
    assert done.exit_code == 0, done.output
    assert faults.digest(f"{copy}-new") == faults.digest(str(made[1]))


@pytest.mark.parametrize("kind", ["data", "versions", "indices", "transactions"])
@pytest.mark.parametrize("how", ["truncate", "empty", "delete"])
def test_a_file_of_a_table_that_was_cut_or_is_gone_is_named(
    copy: Path, faults: ModuleType, kind: str, how: str
) -> None:
    file = one(copy, faults.KINDS[kind])
    faults.injure(file, how, random.Random(1))
    damaged = verified(copy, 1)["damaged"]
    assert file.relative_to(copy).as_posix() in {each["file"] for each in damaged}


def test_without_checksums_damage_is_found_by_reading(copy: Path, faults: ModuleType) -> None:
    (copy / CHECKSUMS).unlink()
    verified(copy, 0)
    faults.injure(one(copy, "tables/*/data/*"), "truncate", random.Random(1))
    (damage,) = verified(copy, 1)["damaged"]
    assert damage["file"] == "tables/main.lance"
    assert "cannot be read" in damage["reason"]


def test_a_search_of_a_damaged_table_names_the_command_that_tells_more(
    copy: Path, faults: ModuleType
) -> None:
    faults.injure(one(copy, "tables/*/data/*"), "empty", random.Random(1))
    with pytest.raises(StoreError, match=r"canopy verify --index .* tells what is damaged"):
        faults.answer(str(copy))


def test_a_panic_of_the_engine_is_an_error_of_the_index(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a list of files with zeros in it."""

    class RustPanic(BaseException):
        pass

    def panicking(self: object, *_arguments: object) -> None:
        raise RustPanic("rust future panicked: unknown error")

    monkeypatch.setattr("lancedb.table.LanceTable.count_rows", panicking)
    with pytest.raises(StoreError, match="canopy verify"):
        LanceStore.open(copy).count()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format_version": 1}', "\x00\xff"])
def test_a_description_that_is_damaged_is_named(copy: Path, text: str) -> None:
    (copy / "index.json").write_text(text, encoding="latin-1")
    (damage,) = verified(copy, 1)["damaged"]
    assert damage["file"] == "index.json"


def test_a_description_with_another_encoder_is_named(copy: Path) -> None:
    text = (copy / "index.json").read_text("utf-8")
    (copy / "index.json").write_text(text.replace('"hashing', '"hushing'), encoding="utf-8")
    named = {"file": "index.json", "reason": "has other content than was written"}
    assert named in verified(copy, 1)["damaged"]


def test_roots_that_are_damaged_are_named(copy: Path) -> None:
    (copy / "roots.json").write_text("{", encoding="utf-8")
    report = verified(copy, 1)
    assert [each["file"] for each in report["damaged"]] == ["roots.json"]
    assert report["rebuild"] == f"canopy index PATH... --index {copy}-new"


def test_without_a_description_there_is_no_index_and_none_is_made_over_it(
    copy: Path, made: tuple[Path, Path]
) -> None:
    (copy / "index.json").unlink()
    done = CliRunner().invoke(app, ["verify", "--index", str(copy)])
    assert done.exit_code == 1
    assert "no index in" in done.stderr
    done = CliRunner().invoke(app, ["index", str(made[0]), "--index", str(copy)])
    assert done.exit_code == 1
    assert "index.json is lost; restore it from a backup" in " ".join(done.stderr.split())


def test_an_item_whose_content_changed_is_named(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    store.replace({"a", "b"}, [make_entry(make_item(name), unit(1)) for name in "ab"])
    store._catalog.tables()["main"]._table.update(where="uri = 'a'", values={"title": "Forged"})
    (damage,) = store.verify().damaged
    assert "of 'a' has other content than was written" in damage.reason
    assert store.verify().n_items == 1


def test_a_writer_that_was_killed_leaves_no_false_alarm(tmp_path: Path) -> None:
    """It may have compacted files away that were noted before."""
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    store.replace({"a"}, [make_entry(make_item("a"), unit(1))])
    notes = (tmp_path / "index" / CHECKSUMS).read_bytes()
    store.replace({"a"}, [make_entry(make_item("a"), unit(0, 1))])
    store.compact()
    (tmp_path / "index" / CHECKSUMS).write_bytes(notes)
    assert not store.verify().is_sound
    (tmp_path / "index/writer.json").write_text("{}", encoding="utf-8")
    assert store.verify().is_sound


@pytest.mark.parametrize("damage", [b"no database", b"SQLite format 3\x00" + b"\x01" * 4096])
def test_a_manifest_that_is_no_database_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "manifest.sqlite").write_bytes(damage)
    manifest = Manifest(tmp_path, "identity")
    assert manifest.is_new
    manifest.close()


def test_a_manifest_that_is_damaged_in_the_middle_is_made_anew(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, "identity")
    manifest.put(Record(uri=f"folder/{n}.txt", path=f"/folder/{n}.txt") for n in range(2000))
    manifest.close()
    path = tmp_path / "manifest.sqlite"
    data = bytearray(path.read_bytes())
    data[8 * 4096 : 10 * 4096] = bytes(8192)
    path.write_bytes(data)
    again = Manifest(tmp_path, "identity")
    assert again.is_new
    again.close()


@pytest.mark.slow
def test_random_damage_is_never_silent(
    made: tuple[Path, Path], faults: ModuleType, tmp_path: Path
) -> None:
    counts = faults.damage(made[1], made[0], 16, 5, tmp_path)
    assert sum(each.get("injected", 0) for each in counts.values()) > 10
    assert not [
        kind for kind, each in counts.items() if "silent" in each or "next run loses" in each
    ]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of 150 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not _LINUX_ROOT:
        pytest.skip("a disk of its own needs Linux and root")
    command = ["mount", "-t", "tmpfs", "-o", "size=150k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this machine mounts nothing")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def remounted(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


def filling(folder: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return runs over documents that need more than 150 kB, some files per commit."""
    monkeypatch.setattr("canopy_rag.indexing.writing.GROUP_NODES", 60)
    for n in range(30):
        write(docs / f"{n}.txt", *(f"file {n} line {m} " + "and so on " * 9 for m in range(10)))
    encoder = PickyEncoder()
    return Bench(folder, LanceStore.create(folder, encoder.fingerprint), encoder)


def test_a_full_disk_is_told_and_the_same_command_goes_on_when_there_is_room(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = filling(disk / "index", tmp_path / "docs", monkeypatch)
    with pytest.raises(StoreError, match="the disk is full; make room"):
        bench.run(tmp_path / "docs")
    kept = LanceStore.open(disk / "index")
    assert kept.verify().is_sound
    assert all(n_items == 10 for n_items in kept.sources().values())
    remounted(disk, "size=64m")
    bench.run(tmp_path / "docs")
    assert bench.store.sources() == {f"{n}.txt": 10 for n in range(30)}
    assert bench.store.verify().is_sound


def test_an_index_that_may_only_be_read_is_searched_and_not_written(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remounted(disk, "size=64m")
    bench = filling(disk / "index", tmp_path / "docs", monkeypatch)
    bench.run(tmp_path / "docs")
    remounted(disk, "ro")
    reader = LanceStore.open(disk / "index")
    query = PickyEncoder().encode_queries(["file 7"]).retrieval[0]
    assert len(reader.search(query, 5)) == 5
    assert reader.verify().is_sound
    with pytest.raises(StoreError, match="it is not writable; give write permission"):
        bench.run(tmp_path / "docs", settings="others")
    assert reader.info()["items"]["total"] == 300


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_without_write_permission_is_searched_and_not_written(
    copy: Path, made: tuple[Path, Path], faults: ModuleType
) -> None:
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert faults.answer(str(copy)) == faults.answer(str(made[1]))
        with pytest.raises(StoreError, match="not writable"):
            faults.indexed(str(copy), made[0])
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o700)


@pytest.mark.slow
def test_files_that_may_not_grow_are_told_and_the_next_run_goes_on(
    made: tuple[Path, Path], faults: ModuleType, tmp_path: Path
) -> None:
    """As a quota does; it needs no rights, unlike a disk of its own."""
    pytest.importorskip("resource", reason="this system has no such limits")
    from collections import Counter
    from functools import partial

    place = str(tmp_path / "index")
    limit = partial(faults._limit_files, 4096)
    with faults.child(place, made[0], preexec_fn=limit) as process:
        told = process.communicate()[1]
    assert process.returncode == 1
    assert "cannot be written" in told
    counts: Counter[str] = Counter()
    faults._complete(place, made[0], faults.digest(str(made[1])), counts)
    assert counts == {"completed by the next run": 1, "sound afterwards": 1}


def test_a_file_that_was_put_back_to_an_older_one_is_indexed_again(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs / "a.txt", "the first text")
    os.utime(docs / "a.txt", ns=(2 * 10**18, 2 * 10**18))
    encoder = PickyEncoder()
    bench = Bench(tmp_path / "index", LanceStore.create(tmp_path / "index", encoder.fingerprint))
    bench.run(docs)
    write(docs / "a.txt", "the other text")  # as long as the first
    os.utime(docs / "a.txt", ns=(10**18, 10**18))
    assert bench.run(docs).replaced == 1


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_that_was_wrong_while_a_file_was_indexed_hides_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    docs = tmp_path / "docs"
    write(docs / "a.txt", "the first text")
    encoder = PickyEncoder()
    bench = Bench(tmp_path / "index", LanceStore.create(tmp_path / "index", encoder.fingerprint))
    import time

    right = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: right() + years * 31_557_600 * 10**9)
    bench.run(docs)
    monkeypatch.undo()
    assert bench.run(docs).unchanged == 1
    write(docs / "a.txt", "another text, longer")
    assert bench.run(docs).replaced == 1


def test_a_version_from_the_future_is_named_when_removed_content_cannot_be_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a clock that was set back: the engine keeps what is younger than now."""
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    store.replace({"a", "b"}, [make_entry(make_item(name), unit(1)) for name in "ab"])
    store.remove({"b"})
    future = datetime.datetime(2190, 5, 6, 7, 8)
    versions = [{"version": 1, "timestamp": future}, {"version": 2, "timestamp": future}]
    monkeypatch.setattr("lancedb.table.LanceTable.list_versions", lambda self: versions)
    with pytest.raises(StoreError, match="written at 2190-05-06 07:08, which the clock"):
        store.compact()
    monkeypatch.undo()
    assert store.needs_compaction
    store.compact()
    assert not store.needs_compaction
    assert store.sources() == {"a": 1}
