from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import Fingerprint
from canopy_rag.core.vectors import node_matrix
from canopy_rag.encoders import checkpoint as layout
from canopy_rag.encoders import encoder, minilm
from canopy_rag.encoders.adapters import (
    check_base,
    load_maps,
    maps_nodes,
    merge_lora,
    read_adapter,
)
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import TokenModel
from canopy_rag.testing.encoder_contract import headed_item, table_item, text_item

MANIFEST = {
    "format": 1,
    "kind": "lora",
    "base": {"model": "fake", "revision": "7"},
    "mode": "late",
}
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 6}


def write(folder: Path, name: str, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data)
    (folder / name).write_text(text, encoding="utf-8")


def lora_folder(
    folder: Path,
    layers: dict[str, tuple[int, int]],
    *,
    manifest: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    rank: int = 2,
    prefix: str = "base_model.model.",
    size: float = 1.0,
) -> dict[str, np.ndarray]:
    """Write an adapter of random numbers, and return its tensors."""
    rng = np.random.default_rng(1)
    tensors = {}
    for layer, (n_in, n_out) in layers.items():
        for part, shape in (("A", (rank, n_in)), ("B", (n_out, rank))):
            values = size * rng.standard_normal(shape)
            tensors[f"{prefix}{layer}.lora_{part}.weight"] = values.astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    write(folder, "adapter_config.json", {**CONFIG, "r": rank, **(config or {})})
    write(folder, "adapter.json", {**MANIFEST, **(manifest or {})})
    return tensors


def map_folder(folder: Path, **maps: np.ndarray) -> Path:
    save_file(maps, folder / "map.safetensors")
    write(folder, "adapter.json", {**MANIFEST, "kind": "map"})
    return folder


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "format 2, this version reads 1"),
        ({"kind": "full"}, "kind must be one of lora, map, got 'full'"),
        ({"mode": "early"}, "mode must be 'late' or 'node', got 'early'"),
        ({"base": "minilm"}, "base must name `model` and `revision`"),
        ({"base": {"model": "minilm"}}, "base must name `model` and `revision`"),
        ({"base": {"model": "minilm", "revision": 3}}, "base must name"),
        ({"retrieves": "yes"}, "retrieves must be true or false"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    lora_folder(tmp_path, {"a": (3, 4)}, manifest=change)
    with pytest.raises(ConfigError, match=told) as caught:
        read_adapter(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\ud800"])
def test_a_manifest_that_is_no_json_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "adapter.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError, match=r"adapter\.json: (cannot be read|must be a JSON object)"):
        read_adapter(tmp_path)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="canopy train"):
        read_adapter(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    lora_folder(tmp_path, {"a": (3, 4)})
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=name):
        read_adapter(tmp_path)


def test_the_digest_changes_with_what_vectors_depend_on_alone(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    lora_folder(folder, {"a": (3, 4)})
    first = read_adapter(folder).digest
    write(folder, "adapter.json", {**MANIFEST, "results": {"decision_accuracy": 0.6}})
    assert read_adapter(folder).digest == first
    write(folder, "adapter.json", {**MANIFEST, "retrieves": True})
    assert read_adapter(folder).digest != first
    lora_folder(folder, {"a": (3, 4)}, size=2.0)
    assert read_adapter(folder).digest != first


@pytest.mark.parametrize("field", ["model", "revision", "mode"])
def test_an_adapter_of_another_base_is_refused_with_both_names(tmp_path: Path, field: str) -> None:
    lora_folder(tmp_path, {"a": (3, 4)})
    base = {"model": "fake", "revision": "7", "mode": "late"}
    adapter = read_adapter(tmp_path)
    check_base(adapter, Fingerprint(**base, instruction="", dim=4))
    other = Fingerprint(**{**base, field: "node"}, instruction="", dim=4)
    with pytest.raises(ConfigError, match=r"was trained on the encoder 'fake'.*, not on") as caught:
        check_base(adapter, other)
    assert "'node'" in str(caught.value)


def scalar_merge(weight: np.ndarray, down: np.ndarray, up: np.ndarray, scale: float) -> np.ndarray:
    merged = weight.astype(np.float64).copy()
    for i in range(merged.shape[0]):
        for j in range(merged.shape[1]):
            merged[i, j] += scale * sum(up[i, k] * down[k, j] for k in range(len(down)))
    return merged


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 3.0),
        ({"use_rslora": True}, 6 / math.sqrt(2)),
        ({"alpha_pattern": {"dense": 10}}, 5.0),
        ({"alpha_pattern": {"other": 10}}, 3.0),
        ({"r": 9, "rank_pattern": {r"layer\.\d+\.dense": 2}}, 3.0),
    ],
)
def test_merging_adds_the_scaled_product(
    tmp_path: Path, config: dict[str, Any], scale: float
) -> None:
    tensors = lora_folder(tmp_path, {"layer.0.dense": (5, 3)}, config=config)
    down, up = tensors.values()
    rng = np.random.default_rng(2)
    weights = {
        "layer.0.dense.weight": rng.standard_normal((3, 5)).astype(np.float32),
        "layer.1.dense.weight": rng.standard_normal((3, 5)).astype(np.float32),
    }
    merged = merge_lora(weights, tmp_path)
    expected = scalar_merge(weights["layer.0.dense.weight"], down, up, scale)
    assert np.allclose(merged["layer.0.dense.weight"], expected, atol=1e-5)
    assert merged["layer.0.dense.weight"].dtype == np.float32
    assert merged["layer.1.dense.weight"] is weights["layer.1.dense.weight"]


def test_merging_into_weights_kept_the_other_way_round(tmp_path: Path) -> None:
    tensors = lora_folder(tmp_path, {"dense": (5, 3)}, config={"fan_in_fan_out": True})
    down, up = tensors.values()
    merged = merge_lora({"dense.weight": np.zeros((5, 3), np.float32)}, tmp_path)
    assert np.allclose(merged["dense.weight"], 3 * (up @ down).T, atol=1e-5)


@pytest.mark.parametrize("prefix", ["", "base_model.model.bert.", "base_model.model.0.auto_model."])
def test_prefixes_of_the_module_that_was_trained_do_not_matter(tmp_path: Path, prefix: str) -> None:
    lora_folder(tmp_path, {"layer.0.dense": (5, 3)}, prefix=prefix)
    zeros = {"layer.0.dense.weight": np.zeros((3, 5), np.float32)}
    assert merge_lora(zeros, tmp_path)["layer.0.dense.weight"].any()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"peft_type": "IA3"}, "only LORA is merged"),
        ({"use_dora": True}, "use_dora"),
        ({"lora_bias": True}, "lora_bias"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["pooler"]}, "modules_to_save"),
        ({"r": 3}, "has rank 2, adapter_config.json says 3"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"lora_alpha": float("inf")}, "lora_alpha is inf"),
        ({"alpha_pattern": {"(": 3}}, "a pattern cannot be read"),
        ({"alpha_pattern": [1]}, "a pattern cannot be read"),
    ],
)
def test_an_adapter_that_is_no_plain_lora_is_refused(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    lora_folder(tmp_path, {"dense": (5, 3)}, config=change)
    with pytest.raises(ConfigError, match=told):
        merge_lora({"dense.weight": np.zeros((3, 5), np.float32)}, tmp_path)


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({"m.dense.lora_A.weight": (2, 5)}, "has lora_A alone"),
        ({"m.dense.lora_magnitude_vector": (3,)}, "no part of a plain LoRA"),
        ({"m.dense.lora_A.weight": (2, 5), "m.dense.lora_B.weight": (3, 4)}, "do not fit each"),
        ({"m.dense.lora_A.weight": (2, 4), "m.dense.lora_B.weight": (3, 2)}, "of another base"),
        ({"m.gate.lora_A.weight": (2, 5), "m.gate.lora_B.weight": (3, 2)}, "of another base"),
        ({}, "holds no tensors"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tmp_path: Path, tensors: dict[str, tuple[int, ...]], told: str
) -> None:
    lora_folder(tmp_path, {"dense": (5, 3)})
    ones = {
        f"base_model.model.{name}": np.ones(shape, np.float32) for name, shape in tensors.items()
    }
    save_file(ones, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ConfigError, match=told):
        merge_lora({"dense.weight": np.zeros((3, 5), np.float32)}, tmp_path)


def test_values_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    lora_folder(tmp_path, {"dense": (5, 3)}, size=math.nan)
    with pytest.raises(ConfigError, match="'dense' holds values that are no numbers"):
        merge_lora({"dense.weight": np.zeros((3, 5), np.float32)}, tmp_path)


def test_a_torn_tensor_file_is_refused(tmp_path: Path) -> None:
    lora_folder(tmp_path, {"dense": (5, 3)})
    path = tmp_path / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ConfigError, match="cannot be read as safetensors"):
        merge_lora({"dense.weight": np.zeros((3, 5), np.float32)}, tmp_path)


def test_a_map_knows_which_sides_it_changes(tmp_path: Path) -> None:
    square = np.eye(4, dtype=np.float32)
    folder = map_folder(tmp_path, query=square)
    assert not maps_nodes(read_adapter(folder))
    assert load_maps(read_adapter(folder), 4).node is None
    map_folder(tmp_path, query=square, node=2 * square)
    assert maps_nodes(read_adapter(folder))
    found = load_maps(read_adapter(folder), 4).node
    assert found is not None
    assert np.array_equal(found, 2 * square)


@pytest.mark.parametrize(
    ("maps", "told"),
    [
        ({"node": np.eye(4)}, "needs the tensor 'query'"),
        ({"query": np.eye(4), "item": np.eye(4)}, "needs the tensor 'query' and may have 'node'"),
        ({"query": np.eye(5)}, r"shape \(5, 5\), the encoder's vectors have 4 entries"),
        ({"query": np.eye(4)[:3]}, r"shape \(3, 4\)"),
        ({"query": np.full((4, 4), np.nan)}, "no numbers"),
    ],
)
def test_a_map_of_other_dimensions_or_tensors_is_refused(
    tmp_path: Path, maps: dict[str, np.ndarray], told: str
) -> None:
    map_folder(tmp_path, **{name: tensor.astype(np.float32) for name, tensor in maps.items()})
    with pytest.raises(ConfigError, match=told):
        load_maps(read_adapter(tmp_path), 4)


# The embedded encoder with an adapter merged in.


@pytest.fixture(scope="module")
def tuned(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of all layers for the random model, trained in both modes as it were."""
    folder = tmp_path_factory.mktemp("tuned")
    base = MiniLM(weights=random_model).fingerprint
    manifest = {"base": {"model": base.model, "revision": base.revision}}
    lora_folder(folder, layout.linear_names(), manifest=manifest, size=0.1)
    return folder


def merged_folder(checkpoint: dict[str, np.ndarray], source: Path, tuned: Path, to: Path) -> Path:
    """Write the model with the adapter added by a plain loop, as a folder of weights."""
    from safetensors.numpy import load_file

    tensors = dict(checkpoint)
    changes = load_file(tuned / "adapter_model.safetensors")
    for layer in layout.linear_names():
        down = changes[f"base_model.model.{layer}.lora_A.weight"].astype(np.float64)
        up = changes[f"base_model.model.{layer}.lora_B.weight"].astype(np.float64)
        added = tensors[f"{layer}.weight"] + 3.0 * up @ down
        tensors[f"{layer}.weight"] = added.astype(np.float32)
    to.mkdir()
    save_file(tensors, to / "model.safetensors")
    (to / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    return to


@pytest.mark.parametrize("mode", ["late", "node"])
def test_nodes_are_read_by_the_merged_model_and_items_ranked_by_the_plain_one(
    checkpoint, random_model: Path, tuned: Path, tmp_path: Path, mode: str
) -> None:
    if mode == "node":
        manifest = json.loads((tuned / "adapter.json").read_text("utf-8")) | {"mode": "node"}
        folder = tmp_path / "node"
        folder.mkdir()
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            (folder / name).write_bytes((tuned / name).read_bytes())
        write(folder, "adapter.json", manifest)
        tuned = folder
    both = MiniLM(weights=random_model, mode=mode, adapter=read_adapter(tuned))
    plain = MiniLM(weights=random_model, mode=mode)
    whole = merged_folder(checkpoint, random_model, tuned, tmp_path / "merged")
    merged = MiniLM(weights=whole, mode=mode)
    items = [
        text_item("a", ("ada wrote the program .", "castle on a hill ."), "name"),
        table_item("b", [("ada", "1815"), ("z", "1912")], ("name", "born")),
        headed_item(),
    ]
    for item, one, f0, f_theta in zip(
        items, *(each.encode_items(items) for each in (both, plain, merged)), strict=True
    ):
        assert np.array_equal(one.item, f0.item)
        mine, theirs = node_matrix(item.nodes, one.nodes), node_matrix(item.nodes, f_theta.nodes)
        assert np.allclose(mine, theirs, atol=1e-3)  # rows are stored as float16
        assert not np.allclose(mine, node_matrix(item.nodes, f0.nodes), atol=1e-2)
    queries = both.encode_queries(["the castle", "ada"])
    assert np.array_equal(queries.retrieval, plain.encode_queries(["the castle", "ada"]).retrieval)
    theirs = merged.encode_queries(["the castle", "ada"]).node
    assert np.allclose(queries.node, theirs, atol=1e-5)
    assert not np.allclose(queries.node, queries.retrieval, atol=1e-2)


def test_an_adapter_that_retrieves_needs_one_pass(
    random_model: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / name).write_bytes((tuned / name).read_bytes())
    manifest = json.loads((tuned / "adapter.json").read_text("utf-8"))
    write(tmp_path, "adapter.json", manifest | {"retrieves": True})
    passes: list[TokenModel] = []
    states = TokenModel.states

    def counted(self: TokenModel, sequences: Any) -> Any:
        passes.append(self)
        return states(self, sequences)

    monkeypatch.setattr(TokenModel, "states", counted)
    item = text_item("a", ("ada wrote the program .", "castle on a hill ."))
    one = MiniLM(weights=random_model, adapter=read_adapter(tmp_path))
    found, queries = one.encode_items([item])[0], one.encode_queries(["ada"])
    assert len(passes) == 2
    assert len(set(passes)) == 1
    assert queries.retrieval is queries.node
    assert np.allclose(found.item, node_matrix(item.nodes, found.nodes)[0])
    passes.clear()
    two = MiniLM(weights=random_model, adapter=read_adapter(tuned))
    other = two.encode_items([item])[0]
    assert len(set(passes)) == 2
    assert np.array_equal(found.nodes.rows, other.nodes.rows)
    assert two.fingerprint.revision != one.fingerprint.revision


def test_the_fingerprint_tells_the_adapter(random_model: Path, tuned: Path) -> None:
    plain = MiniLM(weights=random_model).fingerprint
    found = MiniLM(weights=random_model, adapter=read_adapter(tuned)).fingerprint
    assert found.model == plain.model
    assert found.revision == f"{plain.revision}+{read_adapter(tuned).digest}"


def test_what_the_adapter_does_not_change_is_held_once(random_model: Path, tuned: Path) -> None:
    base = TokenModel(minilm.FolderModel(random_model), 1)
    merged = minilm._Tuned(base, minilm.FolderModel(random_model), read_adapter(tuned)).weights()
    assert merged.words is base.weights().words
    assert merged.graph[layout.POSITIONS] is base.weights().graph[layout.POSITIONS]


def test_an_adapter_of_other_weights_is_refused_by_name(tuned: Path) -> None:
    with pytest.raises(ConfigError, match="was trained on the encoder 'minilm'"):
        encoder(f"minilm+{tuned}")


def test_an_adapter_of_the_other_mode_is_refused(random_model: Path, tuned: Path) -> None:
    with pytest.raises(ConfigError, match=r"mode 'late'.*not on.*mode 'node'"):
        encoder(f"minilm+{tuned}", mode="node", weights=random_model)
    assert encoder(f"minilm+{tuned}", weights=random_model).fingerprint.mode == "late"
