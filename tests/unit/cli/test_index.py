from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HASHING = ("--encoder", "hashing")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A folder of our own with the same files."""
    own = tmp_path / "files"
    own.mkdir()
    for path in folder.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    return own


def test_files_are_counted_and_a_second_run_skips_them(run, copy: Path) -> None:
    first = run("index", str(copy), *HASHING, "--json")
    assert first.code == 0
    assert first.json["files"] == {
        "indexed": 2,
        "unchanged": 0,
        "replaced": 0,
        "removed": 0,
        "ignored": 1,
        "failed": [],
    }
    second = run("index", str(copy), *HASHING, "--json")
    assert (second.json["files"]["indexed"], second.json["files"]["unchanged"]) == (0, 2)


def test_changed_files_are_replaced_and_gone_ones_removed_on_request(run, copy: Path) -> None:
    run("index", str(copy), *HASHING)
    (copy / "notes.md").write_text("# New\n\nAll is new here.\n", encoding="utf-8")
    (copy / "people.csv").unlink()
    files = run("index", str(copy), *HASHING, "--prune", "--json").json["files"]
    assert (files["replaced"], files["removed"]) == (1, 1)


def test_a_file_that_fails_is_told_with_its_reason_and_the_rest_goes_on(run, copy: Path) -> None:
    (copy / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    done = run("index", str(copy), *HASHING, "--json")
    assert done.code == 1
    files = done.json["files"]
    assert files["indexed"] == 2
    assert [failure["path"].endswith("broken.pdf") for failure in files["failed"]] == [True]
    assert "broken.pdf" in done.err


def test_patterns_choose_files(run, copy: Path) -> None:
    files = run("index", str(copy), *HASHING, "--json", "--include", "*.csv").json["files"]
    assert files["indexed"] == 1


def test_people_get_a_summary_by_modality(run, copy: Path) -> None:
    done = run("index", str(copy), *HASHING)
    assert done.code == 0
    assert "2 new, 1 ignored" in done.out
    assert "1 text, 1 table" in done.out
    assert ".canopy" in done.out


def test_a_quiet_run_says_nothing(run, copy: Path) -> None:
    done = run("index", str(copy), *HASHING, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_path_that_is_not_there_fails(run) -> None:
    done = run("index", "nowhere", *HASHING)
    assert done.code == 1
    assert "nowhere" in done.err


def test_an_unchanged_folder_is_skipped_without_the_store_or_a_runtime(run, copy: Path) -> None:
    run("index", str(copy), *HASHING)
    code = (
        "import sys\nfrom canopy_rag.cli import app\n"
        f"try: app(['index', {str(copy)!r}, '--encoder', 'hashing'])\nexcept SystemExit: pass\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "2 unchanged" in done.stdout
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert loaded.isdisjoint({"lancedb", "pyarrow", "onnxruntime", "pdfplumber", "selectolax"})
