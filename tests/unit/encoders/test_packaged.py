"""The adapters that come with the package: which name has which, and their lexical term."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.lexical import node_similarities
from canopy_rag.core.trees import table_tree
from canopy_rag.core.types import Item, Source, TablePayload
from canopy_rag.core.vectors import similarities
from canopy_rag.encoders import encoder
from canopy_rag.encoders.adapters import load_lexicon, read_adapter
from canopy_rag.encoders.locate import ADAPTERS

ROWS = (("Ada Lovelace", "1815"), ("Charles Babbage", "1791"), ("", ""))


@pytest.fixture
def table() -> Item:
    payload = TablePayload(header=("name", "born"), rows=ROWS)
    return Item(
        id="t",
        modality="table",
        title="People",
        payload=payload,
        nodes=table_tree(len(ROWS)),
        source=Source(uri="people.csv"),
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ADAPTERS[""], tmp_path / "adapter"))


def test_minilm_has_an_adapter_and_its_base_has_none() -> None:
    revisions = [encoder(name).fingerprint.revision for name in ("minilm", "minilm:base")]
    assert revisions[0].startswith(f"{revisions[1]}+")
    assert encoder("minilm:paper").fingerprint.revision not in revisions


def test_the_default_adapter_ranks_items_and_the_papers_does_not() -> None:
    assert read_adapter(ADAPTERS[""]).retrieves
    assert not read_adapter(ADAPTERS["paper"]).retrieves


@pytest.mark.parametrize("folder", ADAPTERS.values())
def test_an_adapter_says_what_it_was_trained_on(folder: Path) -> None:
    named = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    data = read_adapter(folder).manifest["data"]
    assert data
    assert not any(name.endswith(":test") for name in data)
    assert "Natural Questions" in named
    assert ("TAT-QA" in named) == ("tatqa:train" in data) == (folder == ADAPTERS[""])


def test_an_own_adapter_takes_the_place_of_the_packages(copied: Path) -> None:
    assert encoder(f"minilm+{copied}").fingerprint == encoder("minilm").fingerprint
    assert encoder(f"minilm:base+{copied}").fingerprint == encoder("minilm").fingerprint
    with pytest.raises(ConfigError, match="it has an adapter already; use minilm"):
        encoder(f"minilm:paper+{copied}")


def test_nodes_read_one_by_one_need_the_base() -> None:
    with pytest.raises(ConfigError, match="minilm:base"):
        encoder("minilm", mode="node")
    assert encoder("minilm:base", mode="node").fingerprint.mode == "node"


def test_words_of_the_question_count_beside_the_vectors(table: Item) -> None:
    model = encoder("minilm")
    (one,) = model.encode_items([table])
    queries = model.encode_queries(["When was Charles born?", "of 1815"])
    assert queries.terms is not None
    for position, row in ((0, 1), (1, 0)):
        query = queries.of(position)
        (both,) = node_similarities([(table.nodes, one.nodes)], query)
        gain = both - similarities(table.nodes, one.nodes, query.vector)
        ends = [node.index for node in table.nodes if not node.children]
        assert np.argmax(gain[ends]) == row
        assert gain[ends[2]] == 0


def test_the_base_stores_no_tokens_and_asks_for_none(table: Item) -> None:
    model = encoder("minilm:base")
    assert model.encode_items([table])[0].nodes.tokens is None
    assert model.encode_queries(["Ada"]).terms is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"weight": -1.0}, "must be a number from 0"),
        ({"weight": "much"}, "must be a number from 0"),
        (3, "must be a number from 0"),
    ],
)
def test_a_weight_that_is_none_is_refused(copied: Path, told: object, expected: str) -> None:
    path = copied / "adapter.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "lexical": told}))
    with pytest.raises(ConfigError, match=expected):
        load_lexicon(read_adapter(copied))


def test_a_lexicon_that_is_missing_or_damaged_is_refused(copied: Path) -> None:
    place = copied / "lexical.safetensors"
    for idf in (np.ones((2, 2), np.float16), np.array([np.nan]), np.array([-1.0])):
        save_file({"idf": idf}, place)
        with pytest.raises(ConfigError, match="one tensor 'idf'"):
            load_lexicon(read_adapter(copied))
    place.unlink()
    with pytest.raises(ConfigError, match=r"has no lexical\.safetensors"):
        load_lexicon(read_adapter(copied))


def test_the_lexicon_is_part_of_what_vectors_depend_on(copied: Path) -> None:
    before = read_adapter(copied).digest
    save_file({"idf": np.ones(5, np.float16)}, copied / "lexical.safetensors")
    assert read_adapter(copied).digest != before
