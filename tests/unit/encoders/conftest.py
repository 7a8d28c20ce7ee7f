"""A MiniLM with random weights and a small vocabulary, as a folder, made in a moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.unit.encoders.serving import MODELS

from canopy_rag.encoders import checkpoint as layout
from canopy_rag.encoders.qwen3_vl import Qwen3VL
from canopy_rag.testing.embedding_server import EmbeddingHost
from canopy_rag.testing.tiny_qwen import write_tiny_qwen

TEXT = (
    "ada wrote the first program it computed numbers castle lies on a hill river name born title "
    "section of in and lake x y z 1815 1912 > : ; . , ? sep [ ] ##s"
)
WORDS = TEXT.split()
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def random_checkpoint(seed: int = 0) -> dict[str, np.ndarray]:
    """Return tensors as a published checkpoint holds them."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        layout.WORDS: (len(SPECIAL) + len(WORDS), layout.DIM),
        layout.TYPES: (2, layout.DIM),
        **layout.graph_shapes(),
    }
    tensors = {}
    for name, shape in shapes.items():
        is_linear = name.removesuffix(".weight") in layout.linear_names()
        values = rng.standard_normal(shape[::-1] if is_linear else shape, np.float32)
        tensors[name] = values * np.float32(0.06) + ("LayerNorm.weight" in name)
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def tokenizer_json() -> str:
    """Return a WordPiece tokenizer that pads and cuts to 8 tokens, as published ones do to 128."""
    vocabulary = {**SPECIAL, **{word: len(SPECIAL) + i for i, word in enumerate(WORDS)}}
    tokenizer = {
        "version": "1.0",
        "truncation": {
            "max_length": 8,
            "strategy": "LongestFirst",
            "stride": 0,
            "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, number in SPECIAL.items()
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    return json.dumps(tokenizer)


@pytest.fixture(scope="session")
def checkpoint() -> dict[str, np.ndarray]:
    return random_checkpoint()


@pytest.fixture(scope="session")
def random_model(
    checkpoint: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder as a user would name it; shared by all tests, not to be written to."""
    folder = tmp_path_factory.mktemp("random-minilm")
    save_file(checkpoint, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    return folder


@pytest.fixture
def host() -> Iterator[EmbeddingHost]:
    with EmbeddingHost(models=MODELS) as served:
        yield served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL, not to be written to."""
    return write_tiny_qwen(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Qwen3VL:
    """Text alone; shared, since it loads slowly."""
    return Qwen3VL(str(folder))


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], tuple[str, Path | None]]:
    """Finds media in the test's own folder."""
    return lambda media: (media, tmp_path)
