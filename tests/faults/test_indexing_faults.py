"""Full disks, folders that cannot be written, a second writer; and what is not loaded."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder, write

from canopy_rag.core.errors import StoreError
from canopy_rag.store import LanceStore

CHECKOUT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits as POSIX has them")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    write(folder / "a.txt", "one", "two")
    write(folder / "b.txt", "three")
    return folder


def new_bench(folder: Path) -> Bench:
    return Bench(folder, LanceStore.create(folder, PickyEncoder().fingerprint))


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r})\n" + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_over_unchanged_files_loads_no_engine_and_no_model(
    docs: Path, tmp_path: Path
) -> None:
    new_bench(tmp_path / "index").run(docs)
    done = python(
        """
        from pathlib import Path
        from canopy_rag.store import LanceStore
        from tests.unit.indexing.fakes import Bench
        folder = Path(sys.argv[2])
        report = Bench(folder, LanceStore.open(folder)).run(sys.argv[1])
        assert report.unchanged == 2, report
        heavy = {"lancedb", "pyarrow", "onnxruntime", "torch", "tokenizers", "PIL", "av"}
        print(sorted(heavy & set(sys.modules)))
        """,
        docs,
        tmp_path / "index",
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_second_writer_is_told_the_process_of_the_first(docs: Path, tmp_path: Path) -> None:
    bench = new_bench(tmp_path / "index")
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from canopy_rag.store import LanceStore\n"
            "with LanceStore.open(sys.argv[1]).writing():\n"
            "    print('writing', flush=True); sys.stdin.read()",
            str(tmp_path / "index"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline().strip() == "writing"
        with pytest.raises(StoreError, match=f"being written by process {first.pid} on"):
            bench.run(docs)
        first.kill()
    assert bench.run(docs).indexed == 2


@posix
@pytest.mark.parametrize("limit", [300, 3000, 30_000])
def test_a_full_disk_is_a_store_error_and_what_was_there_stays(
    docs: Path, tmp_path: Path, limit: int
) -> None:
    bench = new_bench(tmp_path / "index")
    bench.run(docs)
    digest = bench.store.digest()
    write(docs / "c.txt", *(f"much more text, number {n}" * 20 for n in range(400)))
    done = python(
        """
        import resource, signal
        from pathlib import Path
        from canopy_rag.core.errors import StoreError
        from canopy_rag.store import LanceStore
        from tests.unit.indexing.fakes import Bench
        folder = Path(sys.argv[2])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
        try:
            Bench(folder, LanceStore.open(folder)).run(sys.argv[1])
        except StoreError as error:
            print("StoreError", error)
        """,
        docs,
        tmp_path / "index",
        limit,
    )
    assert done.stdout.startswith("StoreError"), done.stdout + done.stderr
    assert "cannot be written" in done.stdout
    again = LanceStore.open(tmp_path / "index")
    assert again.digest() == digest
    report = Bench(tmp_path / "index", again).run(docs)
    assert (report.indexed, report.unchanged) == (1, 2)


@pytest.mark.parametrize("where", ["the lock", "the manifest"])
def test_an_index_that_cannot_be_written_is_a_store_error(
    docs: Path, tmp_path: Path, where: str
) -> None:
    """A folder stands where a file belongs: refused for any user, root too."""
    new_bench(tmp_path / "index")
    bench = Bench(tmp_path / "index", LanceStore.open(tmp_path / "index"))
    (tmp_path / "index/write.lock").unlink(missing_ok=True)
    (tmp_path / "index" / ("write.lock" if where == "the lock" else "manifest.sqlite")).mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        bench.run(docs)


def test_an_index_below_a_file_is_a_store_error(docs: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        LanceStore.create(docs / "a.txt" / "index", PickyEncoder().fingerprint)
