from __future__ import annotations

import numpy as np
import pytest

from canopy_rag.core.errors import ConfigError
from canopy_rag.encoders import checkpoint as layout

QUERY = "encoder.layer.0.attention.self.query.weight"


def test_linear_layers_are_transposed_and_token_type_0_is_in_the_positions(
    checkpoint: dict[str, np.ndarray],
) -> None:
    weights = layout.from_checkpoint(checkpoint)
    inner = "encoder.layer.3.intermediate.dense.weight"
    assert (weights.graph[inner] == checkpoint[inner].T).all()
    assert (weights.graph[QUERY] == checkpoint[QUERY].T).all()
    position = checkpoint[layout.POSITIONS][5] + checkpoint[layout.TYPES][0]
    assert np.allclose(weights.graph[layout.POSITIONS][5], position)


def test_a_packed_file_gives_nearly_the_same_weights(checkpoint: dict[str, np.ndarray]) -> None:
    weights = layout.from_checkpoint(checkpoint)
    packed = layout.pack(weights)
    again = layout.unpack(packed)
    assert packed[QUERY].dtype == np.int8
    for name, tensor in weights.graph.items():
        assert again.graph[name].dtype == np.float32
        assert np.allclose(again.graph[name], tensor, atol=0.002), name
    ids = np.array([[3, 9], [0, 3]])
    assert again.embed(ids).shape == (2, 2, layout.DIM)
    assert np.allclose(again.embed(ids), weights.embed(ids), atol=0.002)
    assert (weights.embed(ids)[0, 1] == checkpoint[layout.WORDS][9]).all()


def test_a_missing_tensor_is_another_architecture(checkpoint: dict[str, np.ndarray]) -> None:
    tensors = {name: tensor for name, tensor in checkpoint.items() if name != QUERY}
    with pytest.raises(ConfigError, match=r"no tensor 'encoder\.layer\.0.*all-MiniLM-L6-v2"):
        layout.from_checkpoint(tensors)


def test_a_tensor_of_another_shape_is_another_architecture(
    checkpoint: dict[str, np.ndarray],
) -> None:
    tensors = {**checkpoint, layout.WORDS: np.zeros((9, 768), np.float32)}
    with pytest.raises(ConfigError, match=r"word_embeddings.* shape \(9, 768\)"):
        layout.from_checkpoint(tensors)
