from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import READER, Bench, PickyEncoder, parse, write

from canopy_rag.core.errors import IngestError, StoreError
from canopy_rag.core.types import Item
from canopy_rag.indexing import SourceReader, remove_files, settings_key
from canopy_rag.indexing.encoding import GROUP_NODES
from canopy_rag.indexing.manifest import Manifest
from canopy_rag.testing.memory_store import MemoryStore


def files(report) -> dict:
    counts = report.to_dict()["files"]
    return {name: value for name, value in counts.items() if value}


def test_new_files_are_indexed_and_left_alone_afterwards(bench: Bench, docs: Path, aged) -> None:
    aged(write(docs / "a.txt", "one", "two"), write(docs / "sub/b.txt", "three"))
    assert files(bench.run(docs)) == {"indexed": 2}
    assert bench.store.sources() == {"a.txt": 2, "sub/b.txt": 1}
    encoded = bench.encoder.n_encoded
    assert files(bench.run(docs)) == {"unchanged": 2}
    assert bench.encoder.n_encoded == encoded


def test_a_changed_file_is_replaced(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one", "two", "three")
    write(docs / "b.txt", "other")
    bench.run(docs)
    write(docs / "a.txt", "four")
    assert files(bench.run(docs)) == {"replaced": 1, "unchanged": 1}
    assert bench.store.sources() == {"a.txt": 1, "b.txt": 1}


def test_a_change_within_the_tick_of_the_clock_is_seen(bench: Bench, docs: Path) -> None:
    file = write(docs / "a.txt", "one")
    bench.run(docs)
    stat = file.stat()
    write(file, "two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert files(bench.run(docs)) == {"replaced": 1}


def test_an_old_file_is_not_read_again_to_see_that_it_is_unchanged(
    bench: Bench, docs: Path, aged, monkeypatch
) -> None:
    aged(write(docs / "a.txt", "one"))
    bench.run(docs)
    monkeypatch.setattr(
        "canopy_rag.indexing.writing.checksum_of", lambda *_: pytest.fail("it was read")
    )
    assert files(bench.run(docs)) == {"unchanged": 1}


def test_a_touched_file_is_unchanged(bench: Bench, docs: Path, aged) -> None:
    file = write(docs / "a.txt", "one")
    bench.run(docs)
    encoded = bench.encoder.n_encoded
    aged(file)
    assert files(bench.run(docs)) == {"unchanged": 1}
    assert bench.encoder.n_encoded == encoded


def test_a_companion_that_changes_comes_or_goes_changes_its_file(
    bench: Bench, docs: Path, aged
) -> None:
    aged(write(docs / "a.txt", "one"))
    bench.run(docs)
    write(docs / "a.cap", "a caption")
    assert files(bench.run(docs)) == {"replaced": 1}
    write(docs / "a.cap", "another")
    assert files(bench.run(docs)) == {"replaced": 1}
    item = bench.store.search(bench.encoder.encode_queries(["x"]).retrieval[0], 1)[0].item
    assert item.title == "another"
    (docs / "a.cap").unlink()
    assert files(bench.run(docs)) == {"replaced": 1}


def test_other_settings_index_again(bench: Bench, docs: Path, aged) -> None:
    aged(write(docs / "a.txt", "one"))
    bench.run(docs, settings="small")
    assert files(bench.run(docs, settings="large")) == {"replaced": 1}


def test_prune_removes_what_is_gone_and_nothing_else(bench: Bench, docs: Path, tmp_path) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        write(docs / name, name)
    write(tmp_path / "elsewhere/d.txt", "d")
    bench.run(docs)
    bench.run(tmp_path / "elsewhere")
    (docs / "a.txt").unlink()
    (tmp_path / "elsewhere/d.txt").unlink()
    assert files(bench.run(docs)) == {"unchanged": 2}
    assert "a.txt" in bench.store.sources()
    assert files(bench.run(docs, prune=True)) == {"unchanged": 2, "removed": 1}
    assert set(bench.store.sources()) == {"b.txt", "sub/c.txt", "elsewhere/d.txt"}


def test_prune_removes_what_is_hidden_or_ignored_now_but_not_what_this_call_leaves_out(
    bench: Bench, docs: Path
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        write(docs / name, name)
    bench.run(docs)
    write(docs / ".gitignore", "b.txt")
    assert bench.run(docs, prune=True, include=("c.txt",)).removed == 0
    bench.run(docs, prune=True)
    assert set(bench.store.sources()) == {"a.txt", "c.txt"}


def test_prune_with_a_path_that_is_gone_removes_it_without_failing(
    bench: Bench, docs: Path
) -> None:
    write(docs / "sub/a.txt", "a")
    write(docs / "b.txt", "b")
    bench.run(docs)
    (docs / "sub/a.txt").unlink()
    (docs / "sub").rmdir()
    assert "failed" in files(bench.run(docs / "sub"))
    assert files(bench.run(docs / "sub", prune=True)) == {"removed": 1}


def test_prune_keeps_all_of_a_named_folder_that_is_gone(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "a")
    bench.run(docs)
    docs.rename(docs.with_name("unmounted"))
    assert "failed" in files(bench.run(docs, prune=True))
    assert bench.store.sources() == {"a.txt": 1}


def test_prune_keeps_what_lies_in_a_folder_that_cannot_be_listed(
    bench: Bench, docs: Path, monkeypatch
) -> None:
    write(docs / "closed/b.txt", "x")
    bench.run(docs)
    listing = os.scandir

    def scandir(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = bench.run(docs, prune=True)
    assert report.removed == 0
    assert len(report.failed) == 1


def test_a_file_that_fails_stops_no_other_and_is_tried_again(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one", "BROKEN")
    write(docs / "b.txt", "two")
    write(docs / "c.txt", "BUG")
    for _ in range(2):
        report = bench.run(docs)
        reasons = {Path(each.path).name: each.reason for each in report.failed}
        assert reasons["a.txt"] == "line 2: is broken"
        assert "ZeroDivisionError: a bug in a parser" in reasons["c.txt"]
    assert bench.store.sources() == {"b.txt": 1}
    write(docs / "a.txt", "mended")
    assert bench.run(docs).indexed == 1


def test_a_changed_file_that_fails_keeps_its_items_and_says_so(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one", "two")
    bench.run(docs)
    digest = bench.store.digest()
    write(docs / "a.txt", "three", "BROKEN")
    report = bench.run(docs)
    assert "the 2 items of its earlier version stay" in report.failed[0].reason
    assert bench.store.digest() == digest


def test_an_item_that_cannot_be_encoded_fails_its_file_alone(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    write(docs / "b.txt", "two", "UNENCODABLE")
    write(docs / "c.txt", "three")
    report = bench.run(docs)
    assert report.indexed == 2
    assert "makes no sense to this model" in report.failed[0].reason
    assert bench.store.sources() == {"a.txt": 1, "c.txt": 1}


@pytest.mark.parametrize("ending", ["BROKEN", "UNENCODABLE", "BUG"])
def test_a_file_larger_than_memory_is_written_whole_or_not_at_all(
    bench: Bench, docs: Path, ending: str
) -> None:
    n_lines = GROUP_NODES
    write(docs / "a.txt", "small")
    large = write(docs / "large.txt", *(f"line number {n}" for n in range(n_lines)))
    write(docs / "z.txt", "small")
    assert bench.run(docs).indexed == 3
    assert bench.store.sources()["large.txt"] == n_lines
    digest = bench.store.digest()
    write(large, *(f"changed {n}" for n in range(n_lines)), ending)
    report = bench.run(docs)
    assert [Path(each.path).name for each in report.failed] == ["large.txt"]
    assert bench.store.digest() == digest


def test_a_file_that_vanishes_or_changes_meanwhile_is_told(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    write(docs / "b.txt", "two")

    def parse_and_meddle(path: Path, uri: str, note) -> Iterator[Item]:
        if path.name == "a.txt":
            path.unlink()
        items = list(parse(path, uri, note))
        write(path, "changed")
        yield from items

    report = bench.run(docs, reader=replace(READER, parse=parse_and_meddle))
    assert "vanished" in report.failed[0].reason
    assert "b.txt: changed while it was being indexed" in report.notes[0]
    assert bench.run(docs).replaced == 1


def test_notes_of_the_parser_reach_the_report(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one", "NOTE")
    assert bench.run(docs).notes == ["a.txt: a picture in it could not be used"]


def test_two_folders_of_the_same_content_do_not_collide(bench: Bench, tmp_path: Path) -> None:
    for side in ("left", "right"):
        write(tmp_path / side / "a.txt", side)
    bench.run(tmp_path / "left", tmp_path / "right")
    assert set(bench.store.sources()) == {"left/a.txt", "right/a.txt"}


def test_a_name_that_another_file_has_already_is_refused(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path / "one/x.txt", "x")
    write(tmp_path / "other/b/x.txt", "x")
    bench.run(tmp_path / "one")
    bench.run(tmp_path / "other/b")
    write(tmp_path / "one/b/x.txt", "came later")
    report = bench.run(tmp_path / "one")
    assert "has the same name in the index, 'b/x.txt'" in report.failed[0].reason


def test_progress_ends_with_all_done(bench: Bench, docs: Path) -> None:
    for n in range(3):
        write(docs / f"{n}.txt", "x")
    heard = []
    bench.run(docs, on_progress=lambda *told: heard.append(told))
    assert [told[0] for told in heard] == [0, 1, 2, 3]
    assert heard[-1] == (3, 3, "", 3)
    assert heard[0][2].endswith("0.txt")


def test_progress_goes_on_within_a_large_file(bench: Bench, docs: Path) -> None:
    write(docs / "large.txt", *(f"line {n}" for n in range(GROUP_NODES)))
    items = []
    bench.run(docs, on_progress=lambda done, total, current, n: items.append((done, n)))
    within = [n for done, n in items if done == 0]
    assert len(within) > 3
    assert within == sorted(within)
    assert items[-1] == (1, GROUP_NODES)


@pytest.fixture
def spawnable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker processes import the parser of these tests."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))


@pytest.mark.usefixtures("spawnable")
def test_several_processes_give_the_same_index(bench: Bench, docs: Path, tmp_path: Path) -> None:
    for n in range(12):
        write(docs / f"{n}.txt", *(f"file {n} line {m}" for m in range(n)), "end")
    write(docs / "broken.txt", "BROKEN")
    write(docs / "large.txt", *(f"line {n}" for n in range(GROUP_NODES // 2)))
    one = bench.run(docs)
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Bench(other_folder, MemoryStore(PickyEncoder().fingerprint))
    several = other.run(docs, workers=2)
    assert several.to_dict() == one.to_dict()
    assert other.store.digest() == bench.store.digest()


@pytest.mark.usefixtures("spawnable")
def test_a_parser_that_kills_its_process_fails_its_file_alone(bench: Bench, docs: Path) -> None:
    for n in range(6):
        write(docs / f"{n}.txt", "CRASH" if n == 2 else "fine")
    report = bench.run(docs, workers=2)
    assert report.indexed == 5
    assert [Path(each.path).name for each in report.failed] == ["2.txt"]
    assert "ended the process" in report.failed[0].reason


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_ctrl_c_keeps_what_was_committed_and_the_next_run_goes_on(bench: Bench, docs: Path) -> None:
    for n in range(4):
        write(docs / f"{n}.txt", *(f"{n} {m}" for m in range(GROUP_NODES // 3 + 1)))

    def parse_then_interrupt(path: Path, uri: str, note) -> Iterator[Item]:
        if path.name == "2.txt":
            os.kill(os.getpid(), signal.SIGINT)
        return parse(path, uri, note)

    with pytest.raises(KeyboardInterrupt):
        bench.run(docs, reader=replace(READER, parse=parse_then_interrupt))
    assert 1 <= len(bench.store.sources()) <= 3
    before = len(bench.store.sources())
    report = bench.run(docs)
    assert (report.unchanged, report.indexed) == (before, 4 - before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("damage", ["lost", "garbage", "of another index"])
def test_a_manifest_that_is_no_use_is_made_anew(bench: Bench, docs: Path, damage: str) -> None:
    write(docs / "a.txt", "one")
    write(docs / "b.txt", "two")
    bench.run(docs)
    digest = bench.store.digest()
    path = bench.folder / "manifest.sqlite"
    if damage == "lost":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(b"no database at all" * 100)
    else:
        Manifest(bench.folder, "another").close()
    (docs / "b.txt").unlink()
    assert files(bench.run(docs, prune=True)) == {"replaced": 1, "removed": 1}
    assert bench.store.digest() != digest
    assert bench.store.sources() == {"a.txt": 1}


def test_removing_sources_forgets_them(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one", "two")
    write(docs / "b.txt", "three")
    bench.run(docs)
    assert remove_files(["a.txt"], folder=bench.folder, store=bench.store) == 2
    assert bench.store.sources() == {"b.txt": 1}
    assert files(bench.run(docs)) == {"indexed": 1, "unchanged": 1}


def test_another_encoder_is_refused_before_anything_is_read(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    bench.encoder = PickyEncoder()
    bench.store = MemoryStore(replace(bench.encoder.fingerprint, model="other"))
    with pytest.raises(StoreError, match="other"):
        bench.run(docs)


def test_the_report_can_be_printed_whatever_the_names(bench: Bench, docs: Path) -> None:
    def failing(path: Path, uri: str, note) -> Iterator[Item]:
        raise IngestError(str(path), "caf\udce9 is broken")
        yield

    write(docs / "a.txt", "x")
    reader = SourceReader(
        parse=failing,
        supports=READER.supports,
        companions=READER.companions,
        is_companion=READER.is_companion,
    )
    failed = bench.run(docs, reader=reader).to_dict()["files"]["failed"]
    assert failed == [{"path": str(docs / "a.txt"), "reason": "caf\\xe9 is broken"}]


def test_a_settings_key_tells_values_and_kinds_not_functions() -> None:
    encoder = PickyEncoder()
    key = settings_key(encoder.fingerprint)
    assert key == settings_key(encoder.fingerprint)
    assert key != settings_key(replace(encoder.fingerprint, dim=9))
    assert settings_key(None) == settings_key(print)
    assert settings_key(encoder) != settings_key(Path())
