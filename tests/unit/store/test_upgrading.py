"""Indices of older formats, really written by older commits, brought to today's.

`tests/fixtures/index-format-N.zip` was written by the command line of the commit that the JSON file
beside it names: three files, one of them indexed again after it had changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canopy_rag
from canopy_rag.config import Config, EncoderConfig, IndexConfig
from canopy_rag.core.coding import CodedRows, dense
from canopy_rag.core.errors import StoreError
from canopy_rag.core.lexical import node_similarities
from canopy_rag.encoders.registry import encoder
from canopy_rag.store import LanceStore, upgrade
from canopy_rag.testing.store_contract import FINGERPRINT, make_entry, make_item, unit

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FORMATS = (1, 2)


def unpacked(version: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return a copy of an old index, and what the commit that wrote it found in it."""
    with zipfile.ZipFile(FIXTURES / f"index-format-{version}.zip") as file:
        file.extractall(folder / "index")
    expected = json.loads((FIXTURES / f"index-format-{version}.json").read_text("utf-8"))
    return folder / "index", expected


def tables(index: Path) -> list[str]:
    return sorted(path.name for path in (index / "tables").iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("version", FORMATS)
def test_an_index_of_an_older_format_is_refused_with_the_command_that_upgrades_it(
    version: int, tmp_path: Path
) -> None:
    index, _ = unpacked(version, tmp_path)
    with pytest.raises(StoreError, match=rf"format version {version}.*canopy upgrade --index"):
        canopy_rag.Index.open(index)


@pytest.mark.parametrize("version", FORMATS)
def test_an_upgraded_index_holds_the_same_items_and_finds_the_same(
    version: int, tmp_path: Path
) -> None:
    index, expected = unpacked(version, tmp_path)
    opened = canopy_rag.Index.upgrade(index)
    info = opened.info()
    assert (info["format_version"], info["vectors"]) == (3, "int4")
    assert (info["digest"], info["nodes"]) == (expected["digest"], expected["nodes"])
    assert info["hybrid"] is (version == 2)
    assert opened.encoder.fingerprint == encoder(expected["encoder"]).fingerprint
    assert len(tables(index)) == 1
    assert opened.store.verify().is_sound
    for search in expected["searches"]:
        evidence = opened.search(search["query"], k=3).to_dict()
        left_out = evidence["left_out"]
        ranked = sorted((each["rank"], each["id"]) for each in (*evidence["items"], *left_out))
        assert [item_id for _, item_id in ranked] == search["ranked"]
        assert len(evidence["items"]) == len(search["shown"])
        for item, was in zip(evidence["items"], search["shown"], strict=True):
            assert item["id"] == was["id"]
            assert item["similarity"] == pytest.approx(was["similarity"], abs=1e-3)
            shown = [[each["node"], each["text"]] for each in item["fragments"]]
            assert shown == [[node, text] for node, text, _ in was["fragments"]]
            for each, (_, _, similarity) in zip(item["fragments"], was["fragments"], strict=True):
                assert each["similarity"] == pytest.approx(similarity, abs=0.02)


@pytest.mark.parametrize("version", FORMATS)
def test_an_upgraded_index_has_the_vectors_that_its_encoder_makes(
    version: int, tmp_path: Path
) -> None:
    index, expected = unpacked(version, tmp_path)
    opened = canopy_rag.Index.upgrade(index)
    query = opened.encoder.encode_queries([expected["searches"][0]["query"]])
    for found in opened.store.search(query.retrieval[0], 3):
        (fresh,) = opened.encoder.encode_items([found.item])
        assert isinstance(found.nodes.rows, CodedRows)
        stored, made = (
            node_similarities([(found.item.nodes, nodes)], query.of(0))[0]
            for nodes in (found.nodes, fresh.nodes)
        )
        np.testing.assert_allclose(stored, made, atol=0.02)


def test_files_go_on_being_unchanged_after_an_upgrade(tmp_path: Path) -> None:
    """What is known of the files is not lost: their manifest stays that of the index."""
    index, _ = unpacked(2, tmp_path)
    identity = json.loads((index / "index.json").read_text())["identity"]
    assert upgrade(index) is True
    assert LanceStore.open(index).identity == identity
    assert LanceStore.open(index).sources() == {"harbours.csv": 1, "towers.html": 1, "whales.md": 1}
    assert upgrade(index) is False


def test_vectors_can_become_less_exact_but_never_more(tmp_path: Path) -> None:
    index, expected = unpacked(2, tmp_path)
    for precision in ("float16", "int8", "int4"):
        assert upgrade(index, precision) is True
        store = LanceStore.open(index)
        assert store.precision == precision
        assert store.digest() == expected["digest"]
        assert len(tables(index)) == 1
    with pytest.raises(StoreError, match="in int4, which cannot be made as exact as int8"):
        upgrade(index, "int8")


def test_a_store_that_is_open_goes_on_with_the_new_table(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT, vectors="float16")
    entry = make_entry(make_item("a"), unit(1, 2))
    store.replace({"a"}, [entry])
    before = store.search(unit(1), 1)[0].nodes
    upgrade(tmp_path / "index", "int4")
    after = store.search(unit(1), 1)[0].nodes
    assert isinstance(after.rows, CodedRows)
    assert np.allclose(dense(after.rows), dense(before.rows), atol=0.1)
    store.replace({"b"}, [make_entry(make_item("b"), unit(1))])
    assert store.sources() == {"a": 1, "b": 1}


def test_a_store_that_looks_for_commits_after_an_upgrade_finds_the_new_table(
    tmp_path: Path,
) -> None:
    """A search that the upgrade took the files of looks again in this way."""
    writer = LanceStore.create(tmp_path / "index", FINGERPRINT, vectors="float16")
    writer.replace({"a"}, [make_entry(make_item("a"), unit(1))])
    reader = LanceStore.open(tmp_path / "index")
    assert len(reader.search(unit(1), 1)) == 1
    upgrade(tmp_path / "index", "int4")
    reader.refresh()
    assert len(reader.search(unit(1), 1)) == 1


def test_an_upgraded_index_without_items_takes_new_ones_into_its_table(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "index", FINGERPRINT, vectors="float16")
    store.replace({"a"}, [make_entry(make_item("a"), unit(1))])
    store.remove({"a"})
    upgrade(tmp_path / "index", "int4")
    (before,) = tables(tmp_path / "index")
    store.replace({"b"}, [make_entry(make_item("b"), unit(1))])
    assert tables(tmp_path / "index") == [before]
    assert store.sources() == {"b": 1}


def test_an_index_keeps_its_precision_and_refuses_files_with_another(tmp_path: Path) -> None:
    config = Config(index=IndexConfig(path=str(tmp_path / "index"), vectors="int8"))
    assert canopy_rag.Index.open(create=True, config=config).info()["vectors"] == "int8"
    plain = Config(index=IndexConfig(path=str(tmp_path / "index")))
    assert canopy_rag.Index.open(create=True, config=plain).info()["vectors"] == "int8"
    other = Config(index=IndexConfig(path=str(tmp_path / "index"), vectors="int4"))
    assert canopy_rag.Index.open(config=other).info()["vectors"] == "int8"
    with pytest.raises(StoreError, match=r"in int8, not in int4 as index\.vectors says"):
        canopy_rag.Index.open(create=True, config=other)


@pytest.mark.parametrize("name", ["minilm", "minilm:base", "minilm:paper"])
def test_an_index_of_a_variant_of_the_embedded_encoder_is_opened_with_it(
    name: str, tmp_path: Path
) -> None:
    config = Config(encoder=EncoderConfig(name=name), origins={"encoder.name": "test"})
    made = canopy_rag.Index.open(tmp_path / "index", create=True, config=config)
    again = canopy_rag.Index.open(tmp_path / "index")
    assert again.encoder.fingerprint == made.encoder.fingerprint


def test_what_is_no_index_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="make one with"):
        upgrade(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "index").mkdir()
    (tmp_path / "index/index.json").write_text('{"format_version": 99}')
    with pytest.raises(StoreError, match="format version 99"):
        upgrade(tmp_path / "index")


_KILLED = """
import os, signal, sys
from canopy_rag.store import table, upgrade
from canopy_rag.store.catalog import Catalog
from canopy_rag.store.location import Location

def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

index, point = sys.argv[1:]
write = Location.write_meta
if point == "while copying":
    table.ItemTable.optimize = kill
elif point == "before the step":
    Location.write_meta = kill
elif point == "after the step":
    Location.write_meta = lambda place, meta: (write(place, meta), kill())
upgrade(index)
"""


@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("point", ["while copying", "before the step", "after the step"])
def test_an_upgrade_that_is_killed_leaves_one_index_whole(point: str, tmp_path: Path) -> None:
    index, expected = unpacked(2, tmp_path)
    before = files(index / "tables")
    done = subprocess.run([sys.executable, "-c", _KILLED, str(index), point], check=False)
    assert done.returncode == -9
    assert len(tables(index)) == 2
    left = files(index / "tables")
    assert {name: left[name] for name in before} == before
    version = json.loads((index / "index.json").read_text())["format_version"]
    assert version == (3 if point == "after the step" else 2)
    if version == 3:  # whole already; what is left of the old one goes with the next compaction
        assert LanceStore.open(index).digest() == expected["digest"]
        LanceStore.open(index).compact()
    else:
        assert upgrade(index) is True
    assert len(tables(index)) == 1
    assert LanceStore.open(index).digest() == expected["digest"]


def test_an_old_index_that_cannot_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    index, _ = unpacked(2, tmp_path)
    (data,) = (index / "tables/main.lance/data").iterdir()
    data.write_bytes(data.read_bytes()[:2000])
    before = files(index / "tables")
    with pytest.raises(StoreError, match="cannot be read"):
        upgrade(index)
    assert json.loads((index / "index.json").read_text())["format_version"] == 2
    assert {name: content for name, content in files(index / "tables").items() if name in before}
    with pytest.raises(StoreError, match="cannot be read"):
        upgrade(index)
    assert len(tables(index)) == 2  # what the first left is gone
