"""The same weights under other roofs: texts through onnxruntime, and sentence-transformers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from canopy_rag.encoders.checkpoint import DIM, POSITIONS, TYPES, WORDS
from canopy_rag.encoders.minilm import WINDOW, MiniLM
from canopy_rag.encoders.model import TokenModel

T = TypeVar("T")
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def network(encoder: MiniLM) -> TokenModel:
    """Return the network that makes an encoder's node vectors, loaded."""
    encoder.encode_queries(["load"])
    return encoder._nodes


class Texts:
    """Embeds texts one by one, as sentence-transformers does, on an encoder's own session.

    Batches of similar length, no more padding than they need: the least that it can cost.
    """

    def __init__(self, model: TokenModel) -> None:
        self._model = model
        self._first, self._last = model.special("[CLS]"), model.special("[SEP]")
        self.n_tokens = 0
        """Of all texts so far, with their two marks."""

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, `(n_texts, dim)`."""
        ids = [[self._first, *self._model.ids(text, WINDOW - 2), self._last] for text in texts]
        self.n_tokens += sum(map(len, ids))
        rows = np.empty((len(texts), DIM), np.float32)
        for positions, states in self._model.states(ids):
            for position, own in zip(positions, states, strict=True):
                rows[position] = own[: len(ids[position])].mean(axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


def sentence_transformer(encoder: MiniLM, folder: Path, threads: int) -> Any:
    """Return the encoder's network in sentence-transformers, on the CPU.

    Args:
        encoder: Whose weights, adapter included, it gets.
        folder: Where they are written for it.
        threads: Of torch, in the whole process.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    torch.set_num_threads(threads)
    model = network(encoder)
    weights = model.weights()
    tensors = {
        name: value.T if value.ndim == 2 and name != POSITIONS else value
        for name, value in weights.graph.items()
    }
    tensors[WORDS] = weights.embed(np.arange(len(weights.words)))
    tensors[TYPES] = np.zeros((2, DIM), np.float32)  # they are inside the positions
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: np.ascontiguousarray(value) for name, value in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    config = CONFIG | {"vocab_size": len(weights.words)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(encoder._files.tokenizer_json())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizerFast", "model_max_length": WINDOW}),
        encoding="utf-8",
    )
    parts = [Transformer(str(folder), max_seq_length=WINDOW), Pooling(DIM), Normalize()]
    return SentenceTransformer(modules=parts, device="cpu")


class Watch:
    """Collects durations by name; medians over turns, so that other work falls on all alike."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.cpu_seconds: dict[str, list[float]] = {}
        """Of all threads of this process."""

    def time(self, name: str, call: Callable[[], T], *, keep: bool = True) -> T:
        """Call and note how long it took, unless it is to warm up."""
        started, busy = time.perf_counter(), time.process_time()
        result = call()
        if keep:
            self.seconds.setdefault(name, []).append(time.perf_counter() - started)
            self.cpu_seconds.setdefault(name, []).append(time.process_time() - busy)
        return result

    def median(self, name: str) -> float:
        """Return the median of one name in seconds."""
        return float(np.median(self.seconds[name]))
