from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.indexing.fakes import write

from canopy_rag.core.errors import StoreError
from canopy_rag.indexing.roots import Roots


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


def test_the_first_folder_gives_no_prefix_the_next_its_name(index: Path, tmp_path: Path) -> None:
    a, b = write(tmp_path / "a/x.txt", "x"), write(tmp_path / "b/x.txt", "x")
    Roots(index).add([a.parent])
    roots = Roots(index)
    roots.add([b.parent])
    assert [roots.uri(a), roots.uri(b)] == ["x.txt", "b/x.txt"]
    assert Roots(index).path("b/x.txt") == b
    assert Roots(index).path("x.txt") == a


def test_several_folders_at_once_all_have_prefixes(index: Path, tmp_path: Path) -> None:
    one, two = write(tmp_path / "1/docs/x.txt", "x"), write(tmp_path / "2/docs/x.txt", "x")
    roots = Roots(index)
    roots.add([one.parent, two.parent])
    assert [roots.uri(one), roots.uri(two)] == ["docs/x.txt", "docs-2/x.txt"]


def test_a_prefix_is_no_name_of_a_folder_that_has_none(index: Path, tmp_path: Path) -> None:
    inner = write(tmp_path / "a/b/x.txt", "x")
    other = write(tmp_path / "other/b/x.txt", "x")
    roots = Roots(index)
    roots.add([tmp_path / "a"])
    roots.add([other.parent])
    assert roots.uri(inner) == "b/x.txt"
    assert roots.uri(other) == "b-2/x.txt"


def test_paths_inside_a_known_folder_belong_to_it(index: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a/sub/x.txt", "x")
    roots = Roots(index)
    roots.add([tmp_path / "a"])
    roots.add([file.parent, file])
    assert roots.uri(file) == "sub/x.txt"


def test_a_single_file_belongs_to_its_folder(index: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a/x.txt", "x")
    roots = Roots(index)
    roots.add([file])
    roots.add([file.parent])
    assert roots.uri(file) == "x.txt"


def test_a_folder_around_a_known_one_leaves_its_names_alone(index: Path, tmp_path: Path) -> None:
    inner, outer = write(tmp_path / "a/sub/x.txt", "x"), write(tmp_path / "a/x.txt", "x")
    roots = Roots(index)
    roots.add([inner.parent])
    roots.add([tmp_path / "a"])
    assert [roots.uri(inner), roots.uri(outer)] == ["x.txt", "a/x.txt"]


def test_a_folder_that_moved_keeps_its_names(index: Path, tmp_path: Path) -> None:
    write(tmp_path / "old/docs/x.txt", "x")
    roots = Roots(index)
    roots.add([tmp_path / "old/docs"])
    (tmp_path / "old").rename(tmp_path / "new")
    roots = Roots(index)
    roots.add([tmp_path / "new/docs"])
    assert roots.uri(tmp_path / "new/docs/x.txt") == "x.txt"


def test_a_damaged_file_is_named(index: Path) -> None:
    (index / "roots.json").write_text("{")
    with pytest.raises(StoreError, match=r"roots\.json"):
        Roots(index)
