"""`canopy upgrade`, and how vectors of nodes are stored."""

from __future__ import annotations

from pathlib import Path

HASHING = ("--encoder", "hashing")


def test_vectors_are_stored_as_asked_and_made_smaller_on_request(run, folder: Path) -> None:
    assert run("index", str(folder), *HASHING, "--vectors", "float16").code == 0
    assert run("info", "--json").json["vectors"] == "float16"
    before = run("search", "When are pears picked?", "--json").json

    done = run("upgrade", "--vectors", "int4", "--json")
    assert done.code == 0
    assert (done.json["upgraded"], done.json["vectors"]) == (True, "int4")
    assert done.json["format_version"] == 3
    after = run("search", "When are pears picked?", "--json").json
    assert [each["id"] for each in after["items"]] == [each["id"] for each in before["items"]]

    again = run("index", str(folder), "--json")
    assert again.json["files"]["indexed"] == 0
    assert again.json["files"]["unchanged"] == 2
    assert run("upgrade", "--json").json["upgraded"] is False


def test_upgrade_says_what_the_index_is_now(run, folder: Path) -> None:
    run("index", str(folder), *HASHING)
    done = run("upgrade")
    assert done.code == 0
    assert "already was of format 3, vectors of nodes in int4" in " ".join(done.out.split())


def test_what_cannot_be_is_refused(run, folder: Path) -> None:
    run("index", str(folder), *HASHING)
    more_exact = run("upgrade", "--vectors", "float16")
    assert more_exact.code == 1
    assert "cannot be made as exact as float16" in " ".join(more_exact.err.split())
    other = run("index", str(folder), *HASHING, "--vectors", "int8")
    assert other.code == 1
    assert "not in int8 as index.vectors says" in " ".join(other.err.split())
    unknown = run("upgrade", "--vectors", "int3")
    assert unknown.code == 2
    assert "must be one of int4, int8, float16" in " ".join(unknown.err.split())
    nowhere = run("upgrade", "--index", "nowhere")
    assert nowhere.code == 1
    assert "no index in 'nowhere'" in " ".join(nowhere.err.split())
