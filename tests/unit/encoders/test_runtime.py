from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError, MissingDependencyError
from canopy_rag.encoders.locate import FolderModel
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.registry import from_config

TEXTS = [
    "Ada wrote it.",
    "It rained in the harbour, and nobody came to see the engine that was never built.",
    "1815",
]


def test_openvino_gives_nearly_the_states_of_onnxruntime(random_model: Path) -> None:
    pytest.importorskip("openvino", reason="needs the extra openvino")
    sequences = [[2, 9, 8, 7, 3], [2, 11, 3], [2, *range(5, 40), 3]]
    plain = TokenModel(FolderModel(random_model), threads=1)
    other = TokenModel(FolderModel(random_model), threads=1, backend="openvino")
    for (places, one), (_, two) in zip(
        plain.states(sequences), other.states(sequences), strict=True
    ):
        for row, place in enumerate(places):
            a, b = one[row, : len(sequences[place])], two[row, : len(sequences[place])]
            lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
            assert ((a * b).sum(axis=1) / lengths).min() > 0.999


def test_openvino_reads_queries_as_the_packaged_encoder_does() -> None:
    pytest.importorskip("openvino", reason="needs the extra openvino")
    plain = from_config(EncoderConfig(name="minilm")).encode_queries(TEXTS)
    other = from_config(EncoderConfig(name="minilm", backend="openvino")).encode_queries(TEXTS)
    assert (plain.node * other.node).sum(axis=1).min() > 0.9995


def test_passes_of_openvino_side_by_side_do_not_write_into_each_other(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino", reason="needs the extra openvino")
    monkeypatch.setattr("canopy_rag.encoders.model.BATCH_TOKENS", 32)
    sequences = [[2, *range(5, 5 + length), 3] for length in range(1, 25)]
    one = TokenModel(FolderModel(random_model), threads=1, backend="openvino")
    several = TokenModel(FolderModel(random_model), threads=3, backend="openvino")
    expected, found = list(one.states(sequences)), list(several.states(sequences))
    for (places, a), (others, b) in zip(expected, found, strict=True):
        assert places == others
        np.testing.assert_allclose(a, b, atol=0.05)


def test_both_runtimes_make_vectors_of_one_index(random_model: Path) -> None:
    plain = MiniLM(weights=random_model)
    assert MiniLM(weights=random_model, backend="openvino").fingerprint == plain.fingerprint


def test_without_openvino_its_extra_is_named(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingDependencyError, match=r"canopy-rag\[openvino\]"):
        MiniLM(weights=random_model, backend="openvino").encode_queries(["who?"])


def test_another_encoder_takes_no_runtime() -> None:
    with pytest.raises(ConfigError, match="backend is for minilm"):
        from_config(EncoderConfig(name="hf:model", backend="openvino"))
