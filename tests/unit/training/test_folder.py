import json
import shutil

import pytest

from canopy_rag.core.errors import ConfigError
from canopy_rag.training.folder import check_out, manifest, versions, write_folder


def test_a_place_that_is_taken_is_refused(tmp_path):
    check_out(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_out(tmp_path / "empty")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        check_out(tmp_path / "taken")
    with pytest.raises(ConfigError, match="not empty"):
        check_out(tmp_path / "taken" / "file")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_appears_as_a_whole(tmp_path, is_there):
    place = tmp_path / "deep" / "out"
    if is_there:
        place.mkdir(parents=True)

    def write(folder):
        assert not place.exists() or not any(place.iterdir())
        (folder / "tensors").write_text("numbers")

    write_folder(place, "adapter.json", {"format": 1}, write)
    assert sorted(each.name for each in place.iterdir()) == ["adapter.json", "tensors"]
    assert json.loads((place / "adapter.json").read_text()) == {"format": 1}
    assert [each.name for each in place.parent.iterdir()] == ["out"]


def test_a_failure_leaves_nothing(tmp_path):
    def write(folder):
        (folder / "tensors").write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "out", "adapter.json", {}, write)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_neither_in_the_way_nor_in_the_result(tmp_path):
    class Killed(BaseException):
        pass

    def write_half(folder):
        (folder / "half").write_text("numb")
        shutil.copytree(folder, tmp_path / "kept")
        raise Killed

    with pytest.raises(Killed):
        write_folder(tmp_path / "out", "adapter.json", {}, write_half)
    # No clean-up runs in a process that is killed.
    (tmp_path / "kept").rename(tmp_path / ".out.new")
    write_folder(tmp_path / "out", "adapter.json", {}, lambda folder: None)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["adapter.json"]
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_numbers_that_are_none_never_get_into_a_manifest(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_folder(tmp_path / "out", "adapter.json", {"loss": float("nan")}, lambda folder: None)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_tells_base_data_and_versions():
    body = manifest(
        "map",
        {"model": "minilm", "revision": "1"},
        "late",
        config={"rank": 8},
        data={"nq:train": "ab"},
        results={"loss": 0.5},
    )
    assert body["format"] == 1
    assert body["base"] == {"model": "minilm", "revision": "1"}
    assert {"canopy-rag", "numpy"} <= set(versions())
    assert json.loads(json.dumps(body)) == body
