from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import READER, write

from canopy_rag.core.errors import ConfigError
from canopy_rag.indexing.scan import Scanner

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes as POSIX has them")


def scanned(*paths: Path, **options):
    scanner = Scanner(READER, **options)
    return [file.display for file in scanner.scan(paths)], scanner


def names(*paths: Path, **options) -> list[str]:
    found, _ = scanned(*paths, **options)
    return [Path(each).relative_to(paths[0]).as_posix() for each in found]


def test_files_come_in_the_order_of_their_names_through_all_folders(docs: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "c.txt", "a.txt", "B.txt"):
        write(docs / name, "x")
    assert names(docs) == ["B.txt", "a.txt", "b/1.txt", "b/2.txt", "c.txt"]


def test_hidden_and_unsupported_files_are_counted_and_a_hidden_folder_counts_once(
    docs: Path,
) -> None:
    for name in ("a.txt", ".hidden.txt", "b.xyz", ".git/1.txt", ".git/2.txt"):
        write(docs / name, "x")
    found, scanner = scanned(docs)
    assert [Path(each).name for each in found] == ["a.txt"]
    assert scanner.ignored == 3
    assert scanner.failed == []


def test_companions_are_no_sources_and_are_not_counted(docs: Path) -> None:
    write(docs / "a.txt", "x")
    write(docs / "a.cap", "y")
    write(docs / "alone.cap", "y")
    found, scanner = scanned(docs)
    assert len(found) == 1
    assert scanner.ignored == 1


def test_gitignore_counts_below_its_folder_and_the_inner_one_wins(docs: Path) -> None:
    write(docs / ".gitignore", "# a comment", "*.txt", "!keep.txt", "/out/", "!")
    write(docs / "sub/.gitignore", "!inner.txt", "keep.txt")
    for name in ("a.txt", "keep.txt", "out/keep.txt", "sub/inner.txt", "sub/keep.txt"):
        write(docs / name, "x")
    assert names(docs) == ["keep.txt", "sub/inner.txt"]


def test_include_and_exclude_are_patterns_below_the_named_folder(docs: Path) -> None:
    for name in ("a/x.txt", "a/y.txt", "b/x.txt"):
        write(docs / name, "x")
    assert names(docs, include=["a/*.txt"], exclude=["y.txt"]) == ["a/x.txt"]
    assert names(docs, exclude=["a/"]) == ["b/x.txt"]


def test_a_pattern_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="include"):
        Scanner(READER, include=["!"])


def test_a_named_file_is_taken_though_hidden_or_excluded_by_gitignore(docs: Path) -> None:
    write(docs / ".gitignore", "*.txt")
    hidden = write(docs / ".notes.txt", "x")
    found, _ = scanned(hidden)
    assert found == [str(hidden)]


@posix
def test_named_paths_that_are_missing_or_unsupported_have_failed(docs: Path) -> None:
    odd = write(docs / "a.xyz", "x")
    pipe = docs / "pipe.txt"
    os.mkfifo(pipe)
    found, scanner = scanned(docs / "nope", odd, pipe)
    assert found == []
    reasons = {Path(each.path).name: each.reason for each in scanner.failed}
    assert "does not exist" in reasons["nope"]
    assert ".xyz" in reasons["a.xyz"]
    assert "neither a file nor a folder" in reasons["pipe.txt"]


@posix
def test_a_pipe_in_a_folder_is_ignored_not_waited_for(docs: Path) -> None:
    os.mkfifo(docs / "pipe.txt")
    found, scanner = scanned(docs)
    assert found == []
    assert scanner.ignored == 1


@posix
def test_links_are_followed_once_and_loops_end(docs: Path, tmp_path: Path) -> None:
    write(docs / "sub/a.txt", "x")
    write(tmp_path / "outside/b.txt", "x")
    (docs / "loop").symlink_to(docs)
    (docs / "sub/up").symlink_to("..")
    (docs / "again.txt").symlink_to("sub/a.txt")
    (docs / "far").symlink_to(tmp_path / "outside")
    (docs / "far2").symlink_to(tmp_path / "outside")
    (docs / "parents").symlink_to(tmp_path)
    found, scanner = scanned(docs)
    below = [Path(each).relative_to(docs).as_posix() for each in found]
    assert below == ["sub/a.txt", "far/b.txt"]
    assert scanner.ignored == 5


@posix
def test_a_file_linked_from_a_hidden_place_is_read_under_the_name_of_the_link(docs: Path) -> None:
    write(docs / "..data/a.txt", "x")
    (docs / "a.txt").symlink_to("..data/a.txt")
    assert names(docs) == ["a.txt"]


@posix
def test_a_link_to_nothing_has_failed(docs: Path) -> None:
    (docs / "gone.txt").symlink_to("nowhere.txt")
    (docs / "gone.xyz").symlink_to("nowhere.xyz")
    found, scanner = scanned(docs)
    assert found == []
    assert [Path(each.path).name for each in scanner.failed] == ["gone.txt"]
    assert scanner.ignored == 1


def test_the_same_file_named_twice_is_one(docs: Path) -> None:
    file = write(docs / "a.txt", "x")
    found, _ = scanned(file, docs, file)
    assert found == [str(file)]


def test_the_index_inside_the_folder_is_not_read(docs: Path) -> None:
    write(docs / "my.index/a.txt", "x")
    write(docs / "b.txt", "x")
    found, scanner = scanned(docs, skip=docs / "my.index")
    assert len(found) == 1
    assert scanner.ignored == 0


@posix
def test_a_name_that_is_no_utf8_is_found(docs: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        write(docs / name, "x")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert names(docs) == [name]


def test_a_folder_that_may_not_be_listed_has_failed(docs: Path, monkeypatch) -> None:
    write(docs / "a.txt", "x")
    write(docs / "closed/b.txt", "x")
    listing = os.scandir

    def scandir(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found, scanner = scanned(docs)
    assert len(found) == 1
    assert "permission" in scanner.failed[0].reason
    assert scanner.unread == [docs / "closed"]
