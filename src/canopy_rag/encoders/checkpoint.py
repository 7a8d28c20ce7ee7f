"""The weights of a 6-layer MiniLM: from a published checkpoint, or from the packed 8-bit file.

In memory, matrices of linear layers are `(inputs, outputs)`, the way a matrix product reads them;
names are those of the graph's initializers. The packed file keeps that layout, so that loading
transposes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import ConfigError
from canopy_rag.encoders.quantize import Floats, dequantize, dequantize_columns, quantize

N_LAYERS = 6
N_HEADS = 12
DIM = 384
N_INNER = 1536
N_POSITIONS = 512
EPSILON = 1e-12
"""Of the layer normalisations."""

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
SCALE = ".scale"
"""Suffix of the tensor that holds another's scales."""


def linear_names() -> dict[str, tuple[int, int]]:
    """Return the prefixes of the linear layers with their numbers of inputs and outputs."""
    names: dict[str, tuple[int, int]] = {}
    for layer in range(N_LAYERS):
        prefix = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            names[f"{prefix}attention.self.{part}"] = (DIM, DIM)
        names[f"{prefix}attention.output.dense"] = (DIM, DIM)
        names[f"{prefix}intermediate.dense"] = (DIM, N_INNER)
        names[f"{prefix}output.dense"] = (N_INNER, DIM)
    return names


def norm_names() -> list[str]:
    """Return the prefixes of the layer normalisations."""
    inner = ("attention.output.LayerNorm", "output.LayerNorm")
    return ["embeddings.LayerNorm"] + [
        f"encoder.layer.{layer}.{name}" for layer in range(N_LAYERS) for name in inner
    ]


def graph_shapes() -> dict[str, tuple[int, ...]]:
    """Return names and shapes of what the graph needs from outside; the word table is not in it."""
    shapes: dict[str, tuple[int, ...]] = {POSITIONS: (N_POSITIONS, DIM)}
    for name, (n_in, n_out) in linear_names().items():
        shapes[f"{name}.weight"] = (n_in, n_out)
        shapes[f"{name}.bias"] = (n_out,)
    for name in norm_names():
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (DIM,)
    return shapes


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A model in memory.

    The word table is by far the largest matrix and only some rows of it are ever read: it stays as
    it was stored.
    """

    words: NDArray[Any]
    """`(n_words, dim)`, float32 or int8."""
    word_scale: NDArray[np.float16] | None
    """`(n_words, dim / 64)`; None: `words` are float32."""
    graph: dict[str, Floats]
    """Everything else, by the names of `graph_shapes`. Positions include token type 0."""

    def embed(self, ids: NDArray[np.int64]) -> Floats:
        """Return the rows of the word table, `(*ids.shape, dim)`."""
        flat = ids.reshape(-1)
        if self.word_scale is None:
            rows = self.words[flat]
        else:
            rows = dequantize(self.words[flat], self.word_scale[flat])
        return np.asarray(rows, np.float32).reshape(*ids.shape, DIM)


def from_checkpoint(tensors: Mapping[str, NDArray[Any]]) -> Weights:
    """Arrange the tensors of a published checkpoint.

    Raises:
        ConfigError: If a tensor is missing or has another shape: another architecture.
    """
    graph: dict[str, Floats] = {}
    for name, shape in graph_shapes().items():
        is_linear = name.endswith(".weight") and name.removesuffix(".weight") in linear_names()
        tensor = _tensor(tensors, name, shape[::-1] if is_linear else shape)
        graph[name] = np.ascontiguousarray(tensor.T if is_linear else tensor)
    graph[POSITIONS] = graph[POSITIONS] + _tensor(tensors, TYPES, (2, DIM))[0]
    words = _tensor(tensors, WORDS, (None, DIM))
    return Weights(words=words, word_scale=None, graph=graph)


def _tensor(
    tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...]
) -> Floats:
    found = tensors.get(name)
    if found is None:
        raise ConfigError(
            f"the weights have no tensor {name!r}: not a MiniLM of {N_LAYERS} layers and "
            f"{DIM} dimensions; use the files of all-MiniLM-L6-v2 or of a model tuned from it"
        )
    fits = len(found.shape) == len(shape) and all(
        want in (None, have) for want, have in zip(shape, found.shape, strict=True)
    )
    if not fits:
        raise ConfigError(
            f"tensor {name!r} of the weights has the shape {found.shape}, expected {shape}: "
            "use the files of all-MiniLM-L6-v2 or of a model tuned from it"
        )
    return np.asarray(found, np.float32)


def pack(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return the tensors of the packed file: matrices as int8 with float16 scales."""
    packed: dict[str, NDArray[Any]] = {}
    packed[WORDS], packed[WORDS + SCALE] = quantize(np.asarray(weights.words, np.float32))
    for name, tensor in weights.graph.items():
        if tensor.ndim == 1 or name == POSITIONS:
            packed[name] = tensor
            continue
        steps, scale = quantize(np.ascontiguousarray(tensor.T))
        packed[name] = np.ascontiguousarray(steps.T)
        packed[name + SCALE] = np.ascontiguousarray(scale.T)
    return packed


def unpack(packed: Mapping[str, NDArray[Any]]) -> Weights:
    """Return the weights of a packed file."""
    graph = {
        name: dequantize_columns(packed[name], packed[name + SCALE])
        if name + SCALE in packed
        else packed[name]
        for name in graph_shapes()
    }
    return Weights(words=packed[WORDS], word_scale=packed[WORDS + SCALE], graph=graph)
