"""Every encoder keeps the promises of its protocol."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.config import EncoderConfig
from canopy_rag.core.protocols import Encoder
from canopy_rag.encoders import checkpoint, encoder, locate
from canopy_rag.encoders.registry import from_config
from canopy_rag.testing.embedding_server import EmbeddingHost, embedding_of
from canopy_rag.testing.encoder_contract import EncoderContract, Mode
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.testing.tiny_bert import write_tiny_bert
from canopy_rag.testing.tiny_qwen import write_tiny_qwen

has_weights = locate.PACKED.is_file() or locate.package_checkpoint() is not None
needs_weights = pytest.mark.skipif(
    not has_weights, reason=f"the embedded encoder's weights are not here; run: {locate.INSTALL}"
)


class TestHashingEncoder(EncoderContract):
    def make(self, mode: Mode) -> Encoder:
        return HashingEncoder(mode=mode)


@needs_weights
class TestMiniLM(EncoderContract):
    def make(self, mode: Mode) -> Encoder:
        return encoder("minilm:base", mode=mode)


class WithFolders:
    """Has a folder for the adapter of each mode."""

    @classmethod
    def setup_class(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()

    @classmethod
    def teardown_class(cls) -> None:
        cls.place.cleanup()

    def folder(self, mode: Mode) -> Path:
        folder = Path(self.place.name) / mode
        folder.mkdir(exist_ok=True)
        return folder


@needs_weights
class TestMiniLMWithALoRA(WithFolders, EncoderContract):
    one_encoding = False

    def make(self, mode: Mode) -> Encoder:
        folder = self.folder(mode)
        write_manifest(folder, encoder("minilm:base", mode=mode), kind="lora")
        write_small_lora(folder)
        return encoder(f"minilm+{folder}")


class Mapped(WithFolders):
    """Adds a map on both sides that is near the identity."""

    def mapped(self, name: str, mode: Mode) -> Encoder:
        folder = self.folder(mode)
        plain = from_config(EncoderConfig(name=name, mode=mode))
        write_manifest(folder, plain, kind="map")
        rng = np.random.default_rng(0)
        dim = plain.fingerprint.dim
        near = np.eye(dim) + 0.02 * rng.standard_normal((2, dim, dim)) / np.sqrt(dim)
        query, node = near.astype(np.float32)
        save_file({"query": query, "node": node}, folder / "map.safetensors")
        return from_config(EncoderConfig(name=f"{name}+{folder}"))


@needs_weights
class TestMiniLMWithAMap(Mapped, EncoderContract):
    one_encoding = False

    def make(self, mode: Mode) -> Encoder:
        return self.mapped("minilm:base", mode)


@pytest.fixture(scope="module")
def host() -> Iterator[EmbeddingHost]:
    words = embedding_of(HashingEncoder(mode="node"))
    with EmbeddingHost(models={"words": words, "tuned": lambda text: -words(text)}) as served:
        yield served


class OverHTTP(EncoderContract):
    """Encoders whose server is on loopback, with words hashed to directions behind it."""

    modes = ("node",)

    @pytest.fixture(autouse=True)
    def _with_a_server(self, host: EmbeddingHost) -> None:
        self.name = f"http:{host.url}#words"


class TestStringsOverHTTP(OverHTTP):
    def make(self, mode: Mode) -> Encoder:
        return encoder(self.name, mode=mode)


class TestConversationsOverHTTP(OverHTTP):
    one_encoding = False

    def make(self, mode: Mode) -> Encoder:
        return from_config(EncoderConfig(name=f"{self.name}+lora:tuned", mode=mode, form="chat"))


class TestAMapOnAServersVectors(Mapped, OverHTTP):
    one_encoding = False

    def make(self, mode: Mode) -> Encoder:
        return self.mapped(self.name, mode)


class RandomWeights(WithFolders, EncoderContract):
    """Models of real architectures, tiny, whose vectors mean nothing."""

    modes = ("node",)
    understands = False
    reads_all = False


class TestQwen3VL(RandomWeights):
    def make(self, mode: Mode) -> Encoder:
        return encoder(f"qwen3-vl:{self.model(mode)}", mode=mode)

    def model(self, mode: Mode) -> Path:
        for module in ("torch", "transformers"):
            pytest.importorskip(module, reason=f"needs the extra qwen: {module} is not installed")
        folder = self.folder(mode) / "model"
        return folder if folder.is_dir() else write_tiny_qwen(folder)


class TestQwen3VLWithALoRA(TestQwen3VL):
    one_encoding = False

    @pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
    def make(self, mode: Mode) -> Encoder:
        model = self.model(mode)
        folder = self.folder(mode)
        write_manifest(folder, encoder(f"qwen3-vl:{model}"), kind="lora")
        write_qwen_lora(folder, model)
        return encoder(f"qwen3-vl:{model}+{folder}", mode=mode)


class TestSentenceTransformers(RandomWeights):
    def make(self, mode: Mode) -> Encoder:
        for module in ("torch", "sentence_transformers"):
            pytest.importorskip(module, reason=f"needs the extra hf: {module} is not installed")
        folder = self.folder(mode) / "model"
        return encoder(f"hf:{folder if folder.is_dir() else write_tiny_bert(folder)}", mode=mode)


def write_manifest(folder: Path, plain: Encoder, *, kind: str) -> None:
    found = plain.fingerprint
    manifest = {
        "format": 1,
        "kind": kind,
        "base": {"model": found.model, "revision": found.revision},
        "mode": found.mode,
    }
    (folder / "adapter.json").write_text(json.dumps(manifest), encoding="utf-8")


def write_small_lora(folder: Path, rank: int = 2) -> None:
    rng = np.random.default_rng(0)
    tensors = {}
    for name, (n_in, n_out) in checkpoint.linear_names().items():
        for part, shape in (("A", (rank, n_in)), ("B", (n_out, rank))):
            values = 0.01 * rng.standard_normal(shape)
            tensors[f"base_model.model.{name}.lora_{part}.weight"] = values.astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 4}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


def write_qwen_lora(folder: Path, model: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = {}
    for name in ("self_attn.q_proj", "mlp.down_proj"):
        n_in = {"self_attn.q_proj": 64, "mlp.down_proj": 128}[name]
        prefix = f"base_model.model.language_model.layers.1.{name}.lora"
        tensors[f"{prefix}_A.weight"] = rng.standard_normal((2, n_in)).astype(np.float32) * 0.1
        tensors[f"{prefix}_B.weight"] = rng.standard_normal((64, 2)).astype(np.float32) * 0.1
    save_file(tensors, folder / "adapter_model.safetensors")
    targets = r".*language_model\.layers\.1\.(self_attn\.q_proj|mlp\.down_proj)"
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": targets}
    config |= {"base_model_name_or_path": str(model), "task_type": "FEATURE_EXTRACTION"}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
