from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.indexing import hostile
from tests.unit.indexing.fakes import READER, Bench, PickyEncoder, write

from canopy_rag.core.errors import ConfigError
from canopy_rag.indexing import Limits, processes
from canopy_rag.indexing.encoding import GROUP_NODES
from canopy_rag.indexing.parsing import PoolParser, Work
from canopy_rag.testing.memory_store import MemoryStore

CHECKOUT = Path(__file__).parents[3]
HOSTILE = replace(READER, parse=hostile.parse)
GENEROUS = Limits(seconds=60)
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux")


@pytest.fixture(autouse=True)
def _spawnable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker processes import the parsers of these tests."""
    monkeypatch.syspath_prepend(str(CHECKOUT))


def reasons(report) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in report.failed}


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_a_file_that_crashes_its_parser_fails_alone(bench: Bench, docs: Path) -> None:
    for name, word in (("a", "fine"), ("b", "SEGFAULT"), ("c", "CRASH"), ("d", "fine")):
        write(docs / f"{name}.txt", word)
    report = bench.run(docs, reader=HOSTILE, limits=GENEROUS)
    assert bench.store.sources() == {"a.txt": 1, "d.txt": 1}
    assert "SIGSEGV): a crash in its parser" in reasons(report)["b.txt"]
    assert "exit code 7): a crash in its parser" in reasons(report)["c.txt"]


def test_a_file_that_hangs_its_parser_is_given_up(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "fine")
    write(docs / "b.txt", "HANG")
    write(docs / "c.txt", "fine")
    report = bench.run(docs, reader=HOSTILE, limits=Limits(seconds=1.5))
    assert "ended after 2 s without a result" in reasons(report)["b.txt"]
    assert "index.file_timeout_s" in reasons(report)["b.txt"]
    assert bench.store.sources() == {"a.txt": 1, "c.txt": 1}


@linux
def test_a_file_that_takes_too_much_memory_is_given_up(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "MEMORY")
    write(docs / "b.txt", "fine")
    limits = Limits(seconds=60, memory_mb=hostile.MEMORY_MB)
    report = bench.run(docs, reader=HOSTILE, limits=limits)
    assert "held more than 400 MB" in reasons(report)["a.txt"]
    assert bench.store.sources() == {"b.txt": 1}


def test_a_file_larger_than_memory_whose_parser_crashes_is_not_written_at_all(
    bench: Bench, docs: Path
) -> None:
    write(docs / "large.txt", "LATE", *(f"line {n}" for n in range(GROUP_NODES)))
    write(docs / "z.txt", "fine")
    report = bench.run(docs, reader=HOSTILE, limits=GENEROUS)
    assert "exit code 9" in reasons(report)["large.txt"]
    assert bench.store.sources() == {"z.txt": 1}


def test_a_file_larger_than_memory_that_cannot_be_encoded_holds_up_no_other(
    bench: Bench, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_AHEAD_BYTES", 1_000)
    write(docs / "large.txt", "UNENCODABLE", *(f"line {n}" for n in range(2 * GROUP_NODES)))
    write(docs / "z.txt", "fine")
    report = bench.run(docs, limits=GENEROUS)
    assert "makes no sense to this model" in reasons(report)["large.txt"]
    assert bench.store.sources() == {"z.txt": 1}


def test_a_file_is_tried_in_a_new_process_before_it_is_blamed(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "fine")
    write(docs / "b.txt", "ONCE")
    assert bench.run(docs, reader=HOSTILE, limits=GENEROUS).indexed == 2


def test_what_a_library_prints_does_not_get_between_the_items(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "PRINT", "two")
    bench.run(docs, reader=HOSTILE, limits=GENEROUS)
    assert bench.store.sources() == {"a.txt": 2}


def test_a_process_gives_the_items_and_notes_of_this_one(
    bench: Bench, docs: Path, tmp_path: Path
) -> None:
    for n in range(4):
        write(docs / f"{n}.txt", *(f"file {n} line {m}" for m in range(n)), "NOTE", "end")
    write(docs / "large.txt", *(f"line {n}" for n in range(GROUP_NODES // 2)))
    write(docs / "caf\udce9.txt", "a name that is no UTF-8")
    here = bench.run(docs)
    folder = tmp_path / "other"
    folder.mkdir()
    other = Bench(folder, MemoryStore(PickyEncoder().fingerprint))
    there = other.run(docs, limits=GENEROUS)
    assert (there.to_dict(), there.notes) == (here.to_dict(), here.notes)
    assert other.store.digest() == bench.store.digest()


def test_an_item_too_long_to_be_one_fails_its_file(
    bench: Bench, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LONGEST_LINE", 50_000)
    write(docs / "a.txt", "x" * 60_000)
    write(docs / "b.txt", "fine")
    report = bench.run(docs, limits=GENEROUS)
    assert "split the file" in reasons(report)["a.txt"]
    assert bench.store.sources() == {"b.txt": 1}


def test_a_process_that_does_not_start_ends_the_run_and_says_how_to_go_on(
    bench: Bench, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(docs / "a.txt", "fine")
    monkeypatch.setattr(processes, "_CODE", "raise SystemExit(4)")
    with pytest.raises(ConfigError, match=r"did not start .*exit code 4.*index\.isolate"):
        bench.run(docs, limits=GENEROUS)


def test_closing_ends_a_process_that_is_at_work(docs: Path) -> None:
    work = [
        Work(path=write(docs / f"{n}.txt", word), uri="u", about=n)
        for n, word in enumerate(["fine", "HANG", "fine", "fine"])
    ]
    with closing(PoolParser(hostile.parse, 10, 1, limits=GENEROUS)) as parser:
        assert next(parser.parsed(work))[1].items
        threads = {each.name for each in threading.enumerate()}
        assert {"canopy-parsing", "canopy-watching"} <= threads
    left = {each.name for each in threading.enumerate()}
    assert left.isdisjoint({"canopy-parsing", "canopy-watching"})


def test_a_run_that_is_to_end_does_not_wait_for_a_parser(docs: Path) -> None:
    work = [Work(path=write(docs / "a.txt", "HANG"), uri="u", about=0)]
    parser = PoolParser(hostile.parse, 10, 1, limits=GENEROUS, stopping=lambda: True)
    with closing(parser), pytest.raises(KeyboardInterrupt):
        list(parser.parsed(work))


def test_a_script_without_a_guard_may_index(docs: Path, tmp_path: Path) -> None:
    write(docs / "a.txt", "An apple is a fruit.")
    script = write(
        tmp_path / "script.py",
        textwrap.dedent(
            f"""
            from canopy_rag import Index
            index = Index.open({str(tmp_path / "index")!r}, create=True)
            print(index.add({str(docs)!r}).indexed)
            """
        ),
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize("name", ["json.py", "sys.py", "encodings.py", "canopy_rag.py"])
def test_a_module_in_the_folder_that_is_indexed_is_not_run(
    bench: Bench, docs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(docs / "a.txt", "An apple is a fruit.")
    write(docs / name, 'open("it-ran", "w").close()')
    monkeypatch.chdir(docs)
    bench.run(docs, reader=HOSTILE, limits=GENEROUS)
    assert bench.store.sources()["a.txt"] == 1
    assert not (docs / "it-ran").exists()


@linux
def test_processes_end_with_a_run_that_is_killed(docs: Path) -> None:
    write(docs / "a.txt", "HANG")
    code = """
    import sys, os; sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from tests.unit.indexing import hostile
    from canopy_rag.indexing.parsing import PoolParser, Work
    parser = PoolParser(hostile.parse, 10, 1)
    list(parser.parsed([Work(path=Path(sys.argv[2]), uri="u", about=0)]))
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(CHECKOUT), str(docs / "a.txt")],
        stdout=subprocess.PIPE,
    ) as run:
        child = _child_of(run.pid)
        os.kill(run.pid, signal.SIGKILL)
    assert _gone(child)


def _child_of(pid: int) -> int:
    """Wait until a process has a child, and return it."""
    for _ in range(2_000):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found = (task / "children").read_text().split()
            if found:
                return int(found[0])
        threading.Event().wait(0.01)
    raise AssertionError(f"process {pid} has started none")


def _gone(pid: int) -> bool:
    for _ in range(1_000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        threading.Event().wait(0.01)
    return False
