"""Adapter folders: what an encoder is tuned with, read and checked without torch.

A folder holds `adapter.json` and the tensors of its kind. `lora`: peft's own files, merged into the
weights here or loaded by peft elsewhere. `map`: matrices on vectors, for any encoder. Nothing in a
folder is executed: JSON and safetensors.

```json
{"format": 1, "kind": "lora", "base": {"model": "minilm", "revision": "9a4e..."}, "mode": "late",
 "retrieves": false, "config": {}, "data": {}, "results": {}, "versions": {}}
```

`"lexical": {"weight": 0.3}` beside these says that token matches count, as rare as the file
`lexical.safetensors` has each token (D3).

`base` is model and revision of the fingerprint of the encoder that it was trained on. `retrieves`
says that the tuned encoder ranks items too, so that nothing is encoded twice (D12).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import Fingerprint, placeless
from canopy_rag.encoders.locate import read_tensors, tensor_names
from canopy_rag.encoders.quantize import Floats

FORMAT = 1
MANIFEST = "adapter.json"
LORA_CONFIG = "adapter_config.json"
LORA_TENSORS = "adapter_model.safetensors"
MAP_TENSORS = "map.safetensors"
LEXICAL_TENSORS = "lexical.safetensors"
FILES = {"lora": (LORA_CONFIG, LORA_TENSORS), "map": (MAP_TENSORS,)}
"""What the vectors depend on, by kind."""

_PREFIX = "base_model.model."
_NOT_MERGED = ("use_dora", "lora_bias", "modules_to_save", "trainable_token_indices")
_TRAIN = "train one with `canopy train`"


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter folder whose manifest has been read."""

    folder: Path
    kind: Literal["lora", "map"]
    base_model: str
    base_revision: str
    mode: Literal["late", "node"]
    retrieves: bool
    manifest: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """Checksum over what vectors depend on: the tensors, peft's settings, `retrieves`."""
        digest = hashlib.sha256(f"{self.kind} {self.retrieves}".encode())
        names = FILES[self.kind]
        if self.manifest.get("lexical") is not None:
            digest.update(repr(self.manifest["lexical"]).encode())
            names += (LEXICAL_TENSORS,)
        for name in names:
            with (self.folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """A lexical term beside the cosine (D3)."""

    weight: float
    """What a leaf gains that holds all of a question's tokens."""
    idf: Floats
    """How rare each token is, `(n_words,)`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Maps:
    """Matrices on unit vectors: `matrix @ vector`, then to length one."""

    query: Floats
    """`(dim, dim)`."""
    node: Floats | None
    """`(dim, dim)`; None: nodes stay as they are."""


def read_adapter(folder: Path) -> Adapter:
    """Read the manifest of an adapter folder; its tensors stay where they are.

    Raises:
        ConfigError: If the folder is none, is of another format, or lacks a file.
    """
    path = folder / MANIFEST
    manifest = _json(path, f"{_TRAIN}, or name the folder that holds {MANIFEST}")
    if manifest.get("format") != FORMAT:
        raise ConfigError(
            f"{path}: format {manifest.get('format')!r}, this version reads {FORMAT}; {_TRAIN}"
        )
    kind, mode = manifest.get("kind"), manifest.get("mode")
    if kind not in FILES:
        raise ConfigError(f"{path}: kind must be one of {', '.join(FILES)}, got {kind!r}")
    if mode not in ("late", "node"):
        raise ConfigError(f"{path}: mode must be 'late' or 'node', got {mode!r}")
    base = manifest.get("base")
    named = [base.get(key) for key in ("model", "revision")] if isinstance(base, dict) else []
    known = [value for value in named if isinstance(value, str) and value]
    if len(known) != 2:
        raise ConfigError(f"{path}: base must name `model` and `revision`, got {base!r}")
    retrieves = manifest.get("retrieves", False)
    if not isinstance(retrieves, bool):
        raise ConfigError(f"{path}: retrieves must be true or false, got {retrieves!r}")
    for name in FILES[kind]:
        if not (folder / name).is_file():
            raise ConfigError(f"adapter {str(folder)!r} has no {name}; restore it, or {_TRAIN}")
    return Adapter(
        folder=folder,
        kind=kind,
        base_model=known[0],
        base_revision=known[1],
        mode=mode,
        retrieves=retrieves,
        manifest=manifest,
    )


def check_base(adapter: Adapter, fingerprint: Fingerprint) -> None:
    """Check that an adapter was trained on this very encoder.

    Args:
        adapter: The adapter.
        fingerprint: Of the encoder without it.

    Raises:
        ConfigError: Naming both.
    """
    trained = f"{adapter.base_model!r} (revision {adapter.base_revision!r}, mode {adapter.mode!r})"
    used = f"{fingerprint.model!r} (revision {fingerprint.revision!r}, mode {fingerprint.mode!r})"
    wanted = (placeless(adapter.base_model), adapter.base_revision, adapter.mode)
    if wanted != (placeless(fingerprint.model), fingerprint.revision, fingerprint.mode):
        raise ConfigError(
            f"adapter {str(adapter.folder)!r} was trained on the encoder {trained}, not on {used}; "
            "use it with that one, or train one on this"
        )


def load_lexicon(adapter: Adapter) -> Lexicon | None:
    """Return the lexical term that was trained with an adapter; None if there is none.

    Raises:
        ConfigError: If it is damaged, or the adapter does not pool nodes late.
    """
    told = adapter.manifest.get("lexical")
    if told is None:
        return None
    weight = told.get("weight") if isinstance(told, dict) else None
    path = adapter.folder / MANIFEST
    if not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
        raise ConfigError(f"{path}: lexical.weight must be a number from 0, got {weight!r}")
    if adapter.mode != "late":
        raise ConfigError(f"{path}: a lexical term needs the mode 'late', not {adapter.mode!r}")
    place = adapter.folder / LEXICAL_TENSORS
    if not place.is_file():
        raise ConfigError(f"adapter {str(adapter.folder)!r} has no {LEXICAL_TENSORS}; {_TRAIN}")
    idf = read_tensors(place).get("idf")
    if idf is None or idf.ndim != 1 or not np.isfinite(idf).all() or (idf < 0).any():
        raise ConfigError(f"{place}: needs one tensor 'idf' of numbers from 0; {_TRAIN}")
    return Lexicon(weight=float(weight), idf=np.asarray(idf, np.float32))


def maps_nodes(adapter: Adapter) -> bool:
    """Return whether a map changes nodes too; reads the file's head alone.

    Raises:
        ConfigError: If the file is not safetensors.
    """
    return "node" in tensor_names(adapter.folder / MAP_TENSORS)


def load_maps(adapter: Adapter, dim: int) -> Maps:
    """Return the matrices of an adapter of kind `map`.

    Args:
        adapter: The adapter.
        dim: Dimensions of the encoder.

    Raises:
        ConfigError: If one has another shape or type, or is not finite.
    """
    path = adapter.folder / MAP_TENSORS
    tensors = read_tensors(path)
    unknown = sorted(set(tensors) - {"query", "node"})
    if "query" not in tensors or unknown:
        raise ConfigError(
            f"{path}: needs the tensor 'query' and may have 'node', it has {sorted(tensors)}"
        )
    for name, tensor in tensors.items():
        if tensor.shape != (dim, dim):
            raise ConfigError(
                f"{path}: {name!r} has the shape {tensor.shape}, the encoder's vectors have {dim} "
                f"entries; it needs ({dim}, {dim})"
            )
        if not np.isfinite(tensor).all():
            raise ConfigError(f"{path}: {name!r} holds values that are no numbers; {_TRAIN}")
    plain = {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}
    return Maps(query=plain["query"], node=plain.get("node"))


def merge_lora(weights: Mapping[str, NDArray[Any]], folder: Path) -> dict[str, Floats]:
    """Return weights with a LoRA adapter added: `W + scale * B A`, float32 (P1).

    Args:
        weights: Linear layers by their names in the checkpoint, `...query.weight`, as torch keeps
            them: `(outputs, inputs)`. Prefixes before the names in the adapter are ignored.
        folder: With peft's two files.

    Returns:
        All of `weights`; those that the adapter does not touch are the same arrays.

    Raises:
        ConfigError: If the adapter is none of peft's plain LoRA, touches a layer that is not in
            `weights`, or has other shapes.
    """
    config = _lora_config(folder)
    path = folder / LORA_TENSORS
    merged = dict(weights)
    for layer, (down, up) in _pairs(path, read_tensors(path)).items():
        name = _target(layer, merged, path)
        delta = (up @ down) * np.float32(_scale(layer, len(down), config, path))
        delta = delta.T if config.get("fan_in_fan_out") else delta
        if delta.shape != merged[name].shape:
            raise ConfigError(
                f"{path}: the layer {layer!r} gives a change of shape {delta.shape}, the weights "
                f"{name!r} have {merged[name].shape}; the adapter is of another base"
            )
        changed = np.asarray(merged[name], np.float32) + delta
        if not np.isfinite(changed).all():
            raise ConfigError(f"{path}: the layer {layer!r} holds values that are no numbers")
        merged[name] = changed
    return merged


def _lora_config(folder: Path) -> Mapping[str, Any]:
    path = folder / LORA_CONFIG
    config = _json(path, _TRAIN)
    if config.get("peft_type") != "LORA":
        raise ConfigError(f"{path}: peft_type is {config.get('peft_type')!r}, only LORA is merged")
    for key in _NOT_MERGED:
        if config.get(key):
            raise ConfigError(f"{path}: {key} is {config[key]!r}, which cannot be merged")
    if config.get("bias", "none") != "none":
        raise ConfigError(f"{path}: bias is {config['bias']!r}, which cannot be merged")
    return config


def _pairs(path: Path, tensors: Mapping[str, NDArray[Any]]) -> dict[str, tuple[Floats, Floats]]:
    """Return `A`, `(rank, inputs)`, and `B`, `(outputs, rank)`, of each layer."""
    found: dict[str, dict[str, Floats]] = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(.+)\.lora_([AB])(?:\.default)?\.weight", name)
        if match is None:
            raise ConfigError(f"{path}: {name!r} is no part of a plain LoRA, it cannot be merged")
        parts = found.setdefault(match[1].removeprefix(_PREFIX), {})
        parts[match[2]] = np.asarray(tensor, np.float32)
    pairs: dict[str, tuple[Floats, Floats]] = {}
    for layer, parts in found.items():
        if set(parts) != {"A", "B"}:
            raise ConfigError(f"{path}: the layer {layer!r} has lora_{min(parts)} alone")
        down, up = parts["A"], parts["B"]
        if down.ndim != 2 or up.ndim != 2 or len(down) != up.shape[1]:
            raise ConfigError(
                f"{path}: lora_A and lora_B of {layer!r} have the shapes {down.shape} and "
                f"{up.shape}, which do not fit each other"
            )
        pairs[layer] = (down, up)
    if not pairs:
        raise ConfigError(f"{path}: holds no tensors; {_TRAIN}")
    return pairs


def _target(layer: str, weights: Mapping[str, NDArray[Any]], path: Path) -> str:
    """Return the name of the weights that a layer of the adapter changes."""
    full = f"{layer}.weight"
    matches = [name for name in weights if full == name or full.endswith(f".{name}")]
    if not matches:
        raise ConfigError(
            f"{path}: the adapter changes the layer {layer!r}, which the encoder has not; it is of "
            "another base"
        )
    return max(matches, key=len)


def _scale(layer: str, rank: int, config: Mapping[str, Any], path: Path) -> float:
    """Return the factor of a layer's change, as peft computes it."""
    place = path.with_name(LORA_CONFIG)
    told = _of_layer(config.get("rank_pattern"), layer, config.get("r"), place)
    alpha = _of_layer(config.get("alpha_pattern"), layer, config.get("lora_alpha"), place)
    if told != rank:
        raise ConfigError(f"{path}: {layer!r} has rank {rank}, {LORA_CONFIG} says {told!r}")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not math.isfinite(alpha):
        raise ConfigError(f"{place}: lora_alpha is {alpha!r}, not a number")
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _of_layer(pattern: Any, layer: str, default: Any, path: Path) -> Any:
    """Return what holds for a layer: the first key that its name ends with, else the default."""
    try:
        for key, value in (pattern or {}).items():
            if re.match(rf"(.*\.)?({key})$", layer):
                return value
    except (re.error, AttributeError) as error:
        raise ConfigError(f"{path}: a pattern cannot be read ({error})") from error
    return default


def _json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"adapter: there is no {str(path)!r}; {remedy}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON ({error}); {remedy}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a JSON object, got {type(found).__name__}")
    return cast("dict[str, Any]", found)
