"""An encoder that asks a server on loopback, which answers with directions of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from canopy_rag.core.types import Item
from canopy_rag.encoders.http import HttpEncoder
from canopy_rag.encoders.http_inputs import HttpOptions
from canopy_rag.testing.chat_server import Served
from canopy_rag.testing.embedding_server import EmbeddingHost
from canopy_rag.testing.encoder_contract import text_item

DIM = 4
KEY = "sk-very-secret"


def vector_of(text: str) -> np.ndarray:
    """Another direction for every text, not of unit length."""
    return np.asarray([len(text) + 1, sum(map(ord, text)) % 97, 3, text.count("e")], np.float32)


def tuned(text: str) -> np.ndarray:
    return -vector_of(text)


MODELS: dict[str, Callable[[str], np.ndarray]] = {"m": vector_of, "tuned": tuned}


def unit(text: str) -> np.ndarray:
    row = vector_of(text).astype(np.float64)
    return row / np.linalg.norm(row)


def asking(
    *hosts: EmbeddingHost,
    place: Any = None,
    dim: int | None = DIM,
    api_key: str | None = None,
    **changes: Any,
) -> HttpEncoder:
    options = HttpOptions(
        urls=tuple(each.url for each in hosts),
        **{"model": "m", "max_retries": 2, "backoff_s": 0.001, **changes},
    )
    return HttpEncoder(options, place=place, dim=dim, api_key=api_key)


def scripted(*script: Served) -> EmbeddingHost:
    return EmbeddingHost(*script, models=MODELS)


def many(n_items: int = 40) -> list[Item]:
    return [text_item(f"item {n}", [f"Sentence {n}.", f"And {n} more."]) for n in range(n_items)]
