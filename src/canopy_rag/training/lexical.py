"""The lexical term (D3) while it is learned: how rare each token is, and how much matches count.

How rare tokens are is counted once, over the leaves that are learned from; the weight is a number
that moves with the adapter's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.lexical import coverage, node_coverage, question_terms
from canopy_rag.core.node_text import leaf_texts
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import Terms
from canopy_rag.encoders.adapters import LEXICAL_TENSORS
from canopy_rag.training.lora import FEATURE

FIRST_WEIGHT = 0.3
"""Of the term, before the first step."""
Tokens = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Ids of all leaves, one leaf after the other, and how many each has."""


class LexicalTerm:
    """Counts matches of tokens for one training.

    Args:
        ids: Returns the tokens of a text, at most so many.
        n_words: Size of the vocabulary.
        max_leaf_tokens: A leaf is read up to here.
        max_query_tokens: And a question up to here.
    """

    def __init__(
        self,
        ids: Callable[[str, int], Sequence[int]],
        n_words: int,
        *,
        max_leaf_tokens: int,
        max_query_tokens: int,
    ) -> None:
        self._torch = require("torch", extra="train", feature=FEATURE)
        self._ids = ids
        self._max_leaf = max_leaf_tokens
        self._max_query = max_query_tokens
        self._tokens: dict[str, Tokens] = {}
        self._terms: dict[str, Terms] = {}
        self._idf = np.zeros(n_words, np.float16)
        self._is_on = True
        # The weight is log(1 + exp(it)): never below zero, where matches would count against.
        first = math.log(math.expm1(FIRST_WEIGHT))
        self.parameter = self._torch.nn.Parameter(self._torch.tensor(first))

    @property
    def idf(self) -> NDArray[np.float16]:
        """How rare each token is, `(n_words,)`, rounded as it is stored."""
        return self._idf

    @property
    def weight(self) -> float:
        """What a leaf gains that holds all of a question's tokens."""
        return float(self._torch.nn.functional.softplus(self.parameter.detach().float()))

    def count_words(self, items: Iterable[Item]) -> None:
        """Count in how many leaves of some items each token stands: `log((n + 1) / (df + 1))`.

        Args:
            items: Those that are learned from, each once.
        """
        found = np.zeros(len(self._idf), np.int64)
        n_leaves = 0
        for item in items:
            tokens, sizes = self._leaves(item)
            n_leaves += len(sizes)
            leaf = np.repeat(np.arange(len(sizes)), sizes)
            pairs = np.unique(leaf * len(self._idf) + tokens)
            found += np.bincount(pairs % len(self._idf), minlength=len(self._idf))
        self._idf = np.log((n_leaves + 1) / (found + 1)).astype(np.float16)
        self._terms.clear()

    def coverages(self, queries: Sequence[str], items: Sequence[Item]) -> NDArray[np.float32]:
        """Return what each question has in the nodes of all items, `(n_queries, n_nodes)`."""
        return np.stack(
            [np.concatenate([self.coverage(query, item) for item in items]) for query in queries]
        )

    def coverage(self, query: str, item: Item) -> NDArray[np.float32]:
        """Return what a question has in each node of an item, 0 to 1, `(n_nodes,)`."""
        terms = self._terms.get(query)
        if terms is None:
            terms = question_terms(self._ids(query, self._max_query), self._idf, 1.0)
            self._terms[query] = terms
        return node_coverage(item.nodes, coverage(*self._leaves(item), terms).tolist())

    def add(self, cosines: Any, coverages: NDArray[np.float32]) -> Any:
        """Return cosines with the term added, with gradients for the weight."""
        if not self._is_on:
            return cosines
        weight = self._torch.nn.functional.softplus(self.parameter)
        return cosines + weight * self._torch.as_tensor(coverages, device=cosines.device)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Add nothing for a while."""
        self._is_on = False
        try:
            yield
        finally:
            self._is_on = True

    def write(self, folder: Path) -> None:
        """Write how rare tokens are; the weight stands in the manifest."""
        safetensors = require("safetensors.numpy", extra="train", feature=FEATURE)
        (folder / LEXICAL_TENSORS).write_bytes(safetensors.save({"idf": self._idf}))

    def _leaves(self, item: Item) -> Tokens:
        found = self._tokens.get(item.id)
        if found is None:
            own = [self._ids(text, self._max_leaf) for text in leaf_texts(item)]
            sizes = np.array([len(ids) for ids in own], np.int64)
            found = (np.array([each for ids in own for each in ids], np.int32), sizes)
            self._tokens[item.id] = found
        return found
