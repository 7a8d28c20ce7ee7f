"""An encoder without a model: words hashed to directions. Same words, same direction.

For tests and examples: numpy and the standard library, the same vectors on every machine, a
similarity that one can work out by hand (shared words raise it, length lowers it).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.node_text import context_text, leaf_texts, node_text
from canopy_rag.core.protocols import Fingerprint
from canopy_rag.core.types import Item, Modality
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors, node_matrix, pool

WORD = re.compile(r"\w+")
N_DIRECTIONS = 4
"""Dimensions that a word is spread over."""


class HashingEncoder:
    """Encodes words, not meaning; any language that puts spaces or marks between words.

    Dimension 0 belongs to no word: every node has a share of it, so that one without words still
    has a direction.

    Args:
        mode: `late`: nodes are pooled from words, the context's added. `node`: each node's text,
            with its context, is encoded alone.
        dim: Dimensions, at least 8.

    Raises:
        ConfigError: If an argument cannot work.
    """

    def __init__(self, *, mode: Literal["late", "node"] = "late", dim: int = 64) -> None:
        if mode not in ("late", "node"):
            raise ConfigError(f"encoder mode must be 'late' or 'node', got {mode!r}")
        if dim < 8:
            raise ConfigError(f"the hashing encoder needs at least 8 dimensions, got {dim}")
        self._mode: Literal["late", "node"] = mode
        self._dim = dim

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on."""
        return Fingerprint(
            model="hashing", revision="1", mode=self._mode, instruction="", dim=self._dim
        )

    @property
    def media(self) -> frozenset[Modality]:
        """None: images and videos are embedded through their text."""
        return frozenset()

    @property
    def languages(self) -> frozenset[str] | None:
        """Any."""
        return None

    def count_tokens(self, text: str) -> int:
        """Return the number of words."""
        return len(WORD.findall(text))

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order; one without words points along dimension 0."""
        rows = np.zeros((len(queries), self._dim), np.float32)
        for position, query in enumerate(queries):
            rows[position] = self._sum(query)
            if not rows[position].any():
                rows[position, 0] = 1
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return QueryVectors(retrieval=rows, node=rows)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and their nodes, in order."""
        return [self._late(item) if self._mode == "late" else self._nodes(item) for item in items]

    def _late(self, item: Item) -> ItemVectors:
        texts = leaf_texts(item)
        counts = [max(1, self.count_tokens(text)) for text in texts]
        sums = np.stack([self._sum(text) for text in texts])
        means = sums / np.asarray(counts, np.float32)[:, None]
        context = context_text(item)
        n_context = self.count_tokens(context) + 1
        nodes = pool(
            item.nodes, means, counts, self._marked(context) / np.float32(n_context), n_context
        )
        return ItemVectors(item=node_matrix(item.nodes, nodes)[0], nodes=nodes)

    def _nodes(self, item: Item) -> ItemVectors:
        rows = np.stack([self._marked(node_text(item, node)) for node in item.nodes])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return ItemVectors(item=rows[0], nodes=NodeVectors(rows=rows.astype(np.float16)))

    def _marked(self, text: str) -> NDArray[np.float32]:
        total = self._sum(text)
        total[0] += 1
        return total

    def _sum(self, text: str) -> NDArray[np.float32]:
        """Return the sum of the words' directions, `(dim,)`."""
        total = np.zeros(self._dim, np.float32)
        for word in WORD.findall(text.casefold()):
            for position, sign in _directions(word, self._dim):
                total[position] += sign / 2
        return total


@lru_cache(maxsize=1 << 16)
def _directions(word: str, dim: int) -> tuple[tuple[int, float], ...]:
    """Return the dimensions of a word, never dimension 0, each with a sign."""
    digest = hashlib.blake2b(
        word.encode("utf-8", "surrogatepass"), digest_size=4 * N_DIRECTIONS
    ).digest()
    numbers = np.frombuffer(digest, "<u4")
    return tuple(
        (1 + int(number >> 1) % (dim - 1), 1.0 if number & 1 else -1.0) for number in numbers
    )
