"""The token model: text to token ids, token ids to states. Loads on first use, for all threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.encoders.checkpoint import Weights
from canopy_rag.encoders.runtime import FEATURE, Backend, Network, network
from canopy_rag.encoders.windows import Ids, batches

BATCH_TOKENS = 1024
"""Most tokens of one forward pass, padding included; with four times as many, one thread is a fifth
slower and takes 130 MB more."""
MAX_CHARS_PER_TOKEN = 64
"""A text that is read only up to some token is cut at this many characters per token before it is
tokenised: a five-megabyte cell costs no more than a page."""


class ModelFiles(Protocol):
    """Where a model's files come from (`locate`)."""

    def tokenizer_json(self) -> bytes:
        """Return the tokenizer's definition."""
        ...

    def weights(self) -> Weights:
        """Read the weights."""
        ...


class TokenModel:
    """Tokenizer and network.

    Several forward passes run side by side, each on one thread: threads that share out one pass
    wait for each other, and on a busy machine they do so most of the time.

    Args:
        files: Where they are.
        threads: Most forward passes side by side; None: one for each core of this process.
        backend: What runs them.
    """

    def __init__(
        self, files: ModelFiles, threads: int | None, backend: Backend = "onnxruntime"
    ) -> None:
        self._files = files
        self._backend = backend
        self._threads = threads or _n_cores()
        self._lock = threading.RLock()
        self._tokenizer: Any = None
        self._network: Network | None = None
        self._passes: ThreadPoolExecutor | None = None
        self._weights: Weights | None = None

    def ids(self, text: str, limit: int | None = None) -> list[int]:
        """Return token ids without `[CLS]` and `[SEP]`, at most the first `limit`."""
        if limit is not None:
            text = text[: limit * MAX_CHARS_PER_TOKEN]
        return list(self._encoded(text).ids[:limit])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of `text` begins and ends, in characters."""
        return list(self._encoded(text).offsets)

    def states(self, sequences: Sequence[Ids]) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Run sequences through the network, in batches of similar length.

        Args:
            sequences: Token ids with their special tokens, each at most the model's window.

        Yields:
            Positions in `sequences`, and the states of their tokens,
            `(n_positions, length, dim)`; states past a sequence's end mean nothing.
        """
        self._loaded_network()
        plan = list(batches([len(ids) for ids in sequences], BATCH_TOKENS))
        if self._threads == 1 or len(plan) < 2:
            for positions in plan:
                yield positions, self._forward(sequences, positions)
            return
        passes = self._side_by_side()
        ahead: deque[tuple[list[int], Future[NDArray[np.float32]]]] = deque()
        try:
            for positions in plan:
                ahead.append((positions, passes.submit(self._forward, sequences, positions)))
                if len(ahead) > self._threads:
                    done, states = ahead.popleft()
                    yield done, states.result()
            while ahead:
                done, states = ahead.popleft()
                yield done, states.result()
        finally:
            for _, states in ahead:
                states.cancel()

    def _forward(self, sequences: Sequence[Ids], positions: Sequence[int]) -> NDArray[np.float32]:
        run, weights = self._loaded_network()
        length = len(sequences[positions[0]])
        ids = np.zeros((len(positions), length), np.int64)
        mask = np.zeros((len(positions), length), np.float32)
        for row, position in enumerate(positions):
            ids[row, : len(sequences[position])] = sequences[position]
            mask[row, : len(sequences[position])] = 1
        return run(weights.embed(ids), mask)

    def _side_by_side(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._passes is None:
                self._passes = ThreadPoolExecutor(self._threads, thread_name_prefix="encoder")
            return self._passes

    def weights(self) -> Weights:
        """Return the weights of the network, loaded."""
        return self._loaded_network()[1]

    def _encoded(self, text: str) -> Any:
        if not text.isascii():  # unpaired surrogates of undecodable bytes are no text
            text = text.encode("utf-8", "replace").decode("utf-8")
        return self._loaded_tokenizer().encode(text, add_special_tokens=False)

    def special(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            ConfigError: If the tokenizer does not know it.
        """
        found = self._loaded_tokenizer().token_to_id(token)
        if found is None:
            raise ConfigError(f"the tokenizer of the encoder has no {token!r} token")
        return int(found)

    def _loaded_tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                tokenizers = require("tokenizers", extra="local", feature=FEATURE)
                try:
                    tokenizer = tokenizers.Tokenizer.from_str(
                        self._files.tokenizer_json().decode("utf-8")
                    )
                except Exception as error:  # the library raises nothing narrower
                    raise ConfigError(f"the encoder's tokenizer.json is broken: {error}") from error
                # The published file pads every text to 128 tokens and cuts it there.
                tokenizer.no_padding()
                tokenizer.no_truncation()
                tokenizer.encode_special_tokens = True  # "[SEP]" in a text is a word like others
                self._tokenizer = tokenizer
            return self._tokenizer

    def _loaded_network(self) -> tuple[Network, Weights]:
        with self._lock:
            if self._network is None or self._weights is None:
                weights = self._files.weights()
                self._network = network(weights, self._backend, self._threads)
                self._weights = weights
            return self._network, self._weights


def _n_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
