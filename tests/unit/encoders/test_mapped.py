from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.core.errors import ConfigError, EncodeError
from canopy_rag.core.vectors import node_matrix, similarities
from canopy_rag.encoders.adapters import read_adapter
from canopy_rag.encoders.mapped import MappedEncoder
from canopy_rag.testing.encoder_contract import sample_items
from canopy_rag.testing.hashing import HashingEncoder

DIM = 64
MODES = ("late", "node")


def random_map(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((DIM, DIM)).astype(np.float32)


def mapped(folder: Path, mode: str = "late", **maps: np.ndarray) -> MappedEncoder:
    base = HashingEncoder(mode=mode)
    manifest = {
        "format": 1,
        "kind": "map",
        "base": {"model": "hashing", "revision": base.fingerprint.revision},
        "mode": mode,
    }
    (folder / "adapter.json").write_text(json.dumps(manifest), encoding="utf-8")
    save_file(maps, folder / "map.safetensors")
    return MappedEncoder(base, read_adapter(folder))


def applied(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    found = matrix.astype(np.float64) @ vector.astype(np.float64)
    return found / np.linalg.norm(found)


@pytest.mark.parametrize("mode", MODES)
def test_a_map_on_queries_changes_only_how_they_meet_nodes(tmp_path: Path, mode: str) -> None:
    matrix = random_map(0)
    encoder, base = mapped(tmp_path, mode, query=matrix), HashingEncoder(mode=mode)
    queries = ["ada wrote", "the castle", ""]
    plain, found = base.encode_queries(queries), encoder.encode_queries(queries)
    assert np.array_equal(found.retrieval, plain.retrieval)
    for before, after in zip(plain.node, found.node, strict=True):
        assert np.allclose(after, applied(matrix, before), atol=1e-6)
    assert found.node.dtype == np.float32
    items = sample_items()
    for one, other in zip(base.encode_items(items), encoder.encode_items(items), strict=True):
        assert one.nodes.rows.tobytes() == other.nodes.rows.tobytes()
        assert one.item.tobytes() == other.item.tobytes()
    assert encoder.fingerprint == base.fingerprint


@pytest.mark.parametrize("mode", MODES)
def test_a_map_on_nodes_maps_every_nodes_unit_vector(tmp_path: Path, mode: str) -> None:
    matrix = random_map(1)
    encoder = mapped(tmp_path, mode, query=np.eye(DIM, dtype=np.float32), node=matrix)
    base = HashingEncoder(mode=mode)
    items = sample_items()
    for item, one, other in zip(
        items, base.encode_items(items), encoder.encode_items(items), strict=True
    ):
        assert np.array_equal(one.item, other.item)
        assert other.nodes.rows.dtype == np.float16
        expected = np.stack([applied(matrix, row) for row in node_matrix(item.nodes, one.nodes)])
        assert np.allclose(node_matrix(item.nodes, other.nodes), expected, atol=2e-3)
        query = base.encode_queries(["castle"]).node[0]
        assert np.allclose(
            similarities(item.nodes, other.nodes, query), expected @ query, atol=3e-3
        )


def test_a_map_on_nodes_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    encoder = mapped(tmp_path, query=random_map(0), node=random_map(1))
    plain = HashingEncoder().fingerprint
    assert encoder.fingerprint.revision.startswith(f"{plain.revision}+")
    first = encoder.fingerprint
    assert mapped(tmp_path, query=random_map(0), node=random_map(2)).fingerprint != first


def test_nodes_that_say_the_same_still_tie(tmp_path: Path) -> None:
    encoder = mapped(tmp_path, "node", query=random_map(0), node=random_map(1))
    silent = [item for item in sample_items() if item.source.uri == "a.mp4"]
    rows = encoder.encode_items(silent)[0].nodes.rows
    assert len({row.tobytes() for row in rows}) < len(rows) or len(rows) == 1
    several = encoder.encode_queries(["castle"] * 1001).node
    assert len({row.tobytes() for row in several}) == 1


def test_a_map_that_leaves_no_direction_is_an_error_that_names_whom_it_hit(tmp_path: Path) -> None:
    zero = np.zeros((DIM, DIM), np.float32)
    with pytest.raises(EncodeError, match=r"query 0.*makes its vector zero"):
        mapped(tmp_path, query=zero).encode_queries(["castle"])
    encoder = mapped(tmp_path, "node", query=random_map(0), node=zero)
    items = sample_items()
    with pytest.raises(EncodeError, match="makes a node's vector zero") as caught:
        encoder.encode_items(items)
    assert caught.value.item_id == items[0].id


def test_a_map_of_another_encoder_is_refused(tmp_path: Path) -> None:
    mapped(tmp_path, query=random_map(0))
    with pytest.raises(ConfigError, match="was trained on the encoder 'hashing'"):
        MappedEncoder(HashingEncoder(mode="node"), read_adapter(tmp_path))


def test_a_map_of_other_dimensions_is_refused_at_the_first_use(tmp_path: Path) -> None:
    encoder = mapped(tmp_path, query=np.eye(8, dtype=np.float32))
    with pytest.raises(ConfigError, match="vectors have 64 entries"):
        encoder.encode_queries(["castle"])


def test_the_rest_is_the_encoders(tmp_path: Path) -> None:
    encoder, base = mapped(tmp_path, query=random_map(0)), HashingEncoder()
    assert encoder.media == base.media
    assert encoder.languages == base.languages
    assert encoder.count_tokens("one two") == base.count_tokens("one two")
