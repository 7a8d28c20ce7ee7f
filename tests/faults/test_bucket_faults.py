"""An index in a bucket: from the command line, with writers that die and writers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.indexing.fakes import Bench, PickyEncoder, write
from typer.testing import CliRunner

from canopy_rag.cli import app
from canopy_rag.core.errors import StoreError
from canopy_rag.store import LanceStore
from canopy_rag.store.lease import _machine
from canopy_rag.store.location import locate
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.s3 import S3Server

CHECKOUT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("indexing_child.py")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    pytest.importorskip("flask_cors", reason="needs moto[s3] and flask, of the extra dev")
    with S3Server() as running:
        yield running


@pytest.fixture
def address(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in os.environ:
        if name.startswith(("CANOPY_", "AWS_")):
            monkeypatch.delenv(name)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"{server.make_bucket()}/index"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for n in range(6):
        write(folder / f"{n}.txt", *(f"file {n} line {m}" for m in range(3)))
    return folder


def command(*arguments: str, exit_code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout) if exit_code == 0 else done.stderr


def bench(place: str, tmp_path: Path) -> Bench:
    store = LanceStore.open(place)
    return Bench(store.path, store)


def clean(docs: Path, folder: Path) -> str:
    """Return the digest of an index made at one go."""
    folder.mkdir()
    made = Bench(folder, MemoryStore(PickyEncoder().fingerprint))
    made.run(docs)
    return str(made.store.digest())


def child(docs: Path, address: str, point: str) -> subprocess.Popen[str]:
    """Return a process that indexes as far as to a point and waits there."""
    process = subprocess.Popen(
        [sys.executable, str(CHILD), str(CHECKOUT), str(docs), address, point],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "there"
    return process


@pytest.mark.slow
def test_the_whole_way_on_the_command_line(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANOPY_ENCODER_NAME", "hashing")
    monkeypatch.setenv("CANOPY_INDEX", address)
    files = tmp_path / "files"
    write(files / "bees.md", "# Bees", "", "The hives stand by the pond. Honey is sold on Sundays.")
    write(files / "people.csv", "name,born", "Ada,1815", "Mary,1780")
    pytest.importorskip("PIL.Image").new("RGB", (40, 30), "red").save(files / "red.png")
    first = command("index", str(files))["files"]
    assert (first["indexed"], first["failed"]) == (3, [])
    assert command("index", str(files))["files"]["unchanged"] == 3
    found = command("search", "honey Sundays")
    assert found["items"][0]["fragments"][0]["source"]["uri"] == "bees.md"
    answer = command("ask", "When was Ada born?")
    assert "1815" in json.dumps(answer["evidence"])
    assert command("info")["items"]["total"] == 3
    assert command("explain", "honey")
    states = {each["name"]: each for each in command("doctor")["checks"]}
    assert states["index folder"]["detail"] == f"{address}: an index is here"
    (files / "bees.md").unlink()
    assert command("index", str(files), "--prune")["files"]["removed"] == 1
    assert command("info")["items"]["total"] == 2


def test_pictures_of_an_index_in_a_bucket_are_found(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import canopy_rag as canopy
    from canopy_rag.config import load
    from canopy_rag.core.protocols import MediaPart

    (tmp_path / "files").mkdir()
    pytest.importorskip("PIL.Image").new("RGB", (40, 30), "red").save(tmp_path / "files/red.png")
    config = load({"index.path": address, "encoder.name": "hashing"}, {})
    canopy.Index.open(create=True, config=config).add(tmp_path / "files")
    again = canopy.Index.open(config=config)
    assert again.place == address
    assert again.load(MediaPart(media="red.png")).startswith("data:image/")


def test_uploads_beside_a_bucket_need_a_folder(address: str, tmp_path: Path) -> None:
    import canopy_rag as canopy
    from canopy_rag.config import load
    from canopy_rag.core.errors import ConfigError
    from canopy_rag.server.uploads import Uploads

    flags = {"index.path": address, "encoder.name": "hashing"}
    index = canopy.Index.open(create=True, config=load(flags, {}))
    with pytest.raises(ConfigError, match=r"set server\.upload_folder"):
        Uploads(index, load(flags, {}).server, lambda state: None)
    named = load({**flags, "server.upload_folder": str(tmp_path / "new/uploads")}, {})
    Uploads(index, named.server, lambda state: None).resume()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["encode:2", "committed:2", "compact:1"])
def test_a_writer_that_is_killed_is_followed_at_once_and_nothing_is_lost(
    docs: Path, address: str, tmp_path: Path, point: str
) -> None:
    if not _machine():
        pytest.skip("this system does not tell whether a process lives on the same machine")
    with child(docs, address, point) as killed:
        killed.kill()
    follower = bench(address, tmp_path)
    follower.run(docs, prune=True)
    assert follower.store.digest() == clean(docs, tmp_path / "clean")
    assert LanceStore.open(address).sources() == {f"{n}.txt": 3 for n in range(6)}


@pytest.mark.slow
def test_of_two_writers_one_is_told_who_writes_and_may_go_on_afterwards(
    docs: Path, address: str, tmp_path: Path
) -> None:
    with child(docs, address, "committed:1") as first:
        second = bench(address, tmp_path)
        with pytest.raises(StoreError, match=f"is being written by process {first.pid} on "):
            second.run(docs)
        assert sum(second.store.sources().values()) > 0  # reading goes on
        assert first.stdin is not None
        first.stdin.close()
        assert first.wait(60) == 0
    assert second.run(docs).unchanged == 6
    assert second.store.digest() == clean(docs, tmp_path / "clean")


@pytest.mark.slow
def test_a_writer_that_slept_until_another_took_over_doubles_nothing(
    docs: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a laptop that was closed in the middle, and a cluster that did not wait for it."""
    with child(docs, address, "encode:2") as sleeper:
        monkeypatch.setattr("canopy_rag.store.lease.TTL_S", -1.0)
        monkeypatch.setattr("canopy_rag.store.lease.Lease._renew", lambda self: None)
        follower = bench(address, tmp_path)
        follower.run(docs)
        expected = clean(docs, tmp_path / "clean")
        assert follower.store.digest() == expected
        assert sleeper.stdin is not None
        sleeper.stdin.close()
        assert sleeper.wait(60) == 1
    assert LanceStore.open(address).digest() == expected


def test_an_index_that_is_gone_or_refused_is_told_by_the_command(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"no index in '{address}'" in command("info", "--index", address, exit_code=1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    told = command("info", "--index", address, exit_code=1)
    assert "refuses the credentials" in told
    assert not locate(str(tmp_path)).has_index
