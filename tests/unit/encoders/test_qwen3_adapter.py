"""One model in memory for both encoders: an adapter on and off."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.encoders.pictured import MakeClip, mixed

from canopy_rag.core.errors import ConfigError
from canopy_rag.encoders.adapters import read_adapter
from canopy_rag.encoders.placement import Placement
from canopy_rag.encoders.qwen3_inputs import Budgets, Inputs
from canopy_rag.encoders.qwen3_model import LANGUAGE_PROJECTIONS, Network, load_config
from canopy_rag.encoders.qwen3_vl import (
    Qwen3Options,
    Qwen3VL,
)
from canopy_rag.testing.encoder_contract import (
    SENTENCES,
    headed_item,
)
from canopy_rag.testing.tiny_qwen import write_tiny_qwen

torch = pytest.importorskip("torch", reason="needs the extra qwen: torch is not installed")
transformers = pytest.importorskip("transformers", reason="needs the extra qwen")

# peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def write_adapter(folder: Path, base: Qwen3VL, model: Path, **options: Any) -> Path:
    """Write a LoRA adapter whose change is not zero, as peft writes it."""
    peft = pytest.importorskip("peft", reason="needs the extra qwen")
    settings = {"r": 4, "lora_alpha": 8, "target_modules": LANGUAGE_PROJECTIONS} | options
    adapted = peft.get_peft_model(
        transformers.Qwen3VLModel.from_pretrained(model), peft.LoraConfig(**settings)
    )
    generator = torch.Generator().manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    adapted.save_pretrained(folder)
    found = base.fingerprint
    manifest = {
        "format": 1,
        "kind": "lora",
        "base": {"model": found.model, "revision": found.revision},
        "mode": "node",
    }
    (folder / "adapter.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def adapter(folder: Path, encoder: Qwen3VL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("adapter"), encoder, folder)


def test_with_an_adapter_items_are_those_of_the_frozen_model_bit_by_bit(
    folder: Path, adapter: Path, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    items = mixed(tmp_path, make_clip)
    options = Qwen3Options(batch_tokens=1)  # the same batches with and without
    frozen = Qwen3VL(str(folder), place=place, options=options)
    tuned = Qwen3VL(str(folder), place=place, options=options, adapter=read_adapter(adapter))
    query = ["Who wrote the first program?"]
    for _ in range(2):  # switching leaves nothing behind
        for one, other in zip(frozen.encode_items(items), tuned.encode_items(items), strict=True):
            assert one.item.tobytes() == other.item.tobytes()
            assert np.abs(one.nodes.rows - other.nodes.rows).max() > 0.02
        before, after = frozen.encode_queries(query), tuned.encode_queries(query)
        assert before.retrieval.tobytes() == after.retrieval.tobytes()
        assert np.abs(before.node - after.node).max() > 0.02


def test_adapted_nodes_are_those_of_the_merged_weights(
    folder: Path, adapter: Path, tmp_path: Path
) -> None:
    from peft import PeftModel

    base = transformers.Qwen3VLModel.from_pretrained(folder)
    merged = shutil.copytree(folder, tmp_path / "merged")
    PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(merged)
    item = headed_item()
    found = Qwen3VL(str(folder), adapter=read_adapter(adapter)).encode_items([item])[0]
    expected = Qwen3VL(str(merged)).encode_items([item])[0]
    assert np.allclose(found.nodes.rows, expected.nodes.rows, atol=1e-3)


def test_an_adapter_that_retrieves_is_used_for_items_too(
    folder: Path, adapter: Path, tmp_path: Path
) -> None:
    whole = shutil.copytree(adapter, tmp_path / "whole")
    manifest = json.loads((whole / "adapter.json").read_text()) | {"retrieves": True}
    (whole / "adapter.json").write_text(json.dumps(manifest))
    tuned = Qwen3VL(str(folder), adapter=read_adapter(whole))
    found = tuned.encode_items([headed_item()])[0]
    assert np.allclose(found.item, found.nodes.rows[0], atol=1e-3)
    query = tuned.encode_queries(["castle"])
    assert query.retrieval.tobytes() == query.node.tobytes()


def test_the_adapter_is_part_of_the_fingerprint(folder: Path, adapter: Path) -> None:
    frozen, tuned = Qwen3VL(str(folder)), Qwen3VL(str(folder), adapter=read_adapter(adapter))
    assert tuned.fingerprint.revision.startswith(f"{frozen.fingerprint.revision}+")


def test_an_adapter_goes_on_with_its_base_when_that_moves(
    folder: Path, adapter: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(folder, tmp_path / "moved")
    tuned = Qwen3VL(str(moved), adapter=read_adapter(adapter))
    assert tuned.encode_queries(["castle"]).node.shape == (1, 64)


def test_an_adapter_of_another_base_is_refused(adapter: Path, tmp_path: Path) -> None:
    other = write_tiny_qwen(tmp_path / "other", seed=7)
    tuned = Qwen3VL(str(other), adapter=read_adapter(adapter))
    with pytest.raises(ConfigError, match="was trained on the encoder"):
        tuned.encode_queries(["castle"])


def test_an_adapter_with_layers_that_the_base_lacks_is_refused(
    folder: Path, encoder: Qwen3VL, tmp_path: Path
) -> None:
    deep = write_tiny_qwen(tmp_path / "deep", n_layers=3)
    found = write_adapter(tmp_path / "adapter", encoder, deep)
    with pytest.raises(ConfigError, match=r"do not belong to the base.*layers\.2"):
        Qwen3VL(str(folder), adapter=read_adapter(found)).encode_queries(["castle"])


def test_an_adapter_that_changes_the_vision_tower_is_refused(
    folder: Path, encoder: Qwen3VL, tmp_path: Path
) -> None:
    found = write_adapter(tmp_path, encoder, folder, target_modules=["linear_fc1", "q_proj"])
    with pytest.raises(ConfigError, match="changes the vision tower"):
        Qwen3VL(str(folder), adapter=read_adapter(found)).encode_queries(["castle"])


def test_the_adapter_off_is_the_frozen_network_bit_by_bit_in_any_batch(
    folder: Path, adapter: Path
) -> None:
    inputs = Inputs(folder, load_config(folder), Budgets())
    image = Image.fromarray(
        np.arange(64 * 96 * 3, dtype=np.uint32).astype(np.uint8).reshape(64, 96, 3)
    )
    readings = [inputs.reading("Read.", text, images=[image]) for text in SENTENCES]
    batch = inputs.batch([*readings, inputs.reading("Read.", "castle")])
    frozen = Network(folder, None, Placement()).states(batch, adapted=False)
    tuned = Network(folder, adapter, Placement())
    before = tuned.states(batch, adapted=True)
    assert tuned.states(batch, adapted=False).tobytes() == frozen.tobytes()
    assert tuned.states(batch, adapted=True).tobytes() == before.tobytes() != frozen.tobytes()
