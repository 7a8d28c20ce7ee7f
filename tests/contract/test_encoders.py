"""Every encoder keeps the promises of its protocol."""

from __future__ import annotations

import base64
import io
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
        return encoder("minilm", mode=mode)


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
        write_manifest(folder, encoder("minilm", mode=mode), kind="lora")
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
        return self.mapped("minilm", mode)


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
        config = EncoderConfig(name=f"{self.name}+lora:tuned", mode=mode, form="chat")
        return from_config(config, place=lambda media: (picture(), None))


class TestAMapOnAServersVectors(Mapped, OverHTTP):
    one_encoding = False

    def make(self, mode: Mode) -> Encoder:
        return self.mapped(self.name, mode)


def picture() -> str:
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.new("RGB", (8, 6), "green").save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


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
