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
from canopy_rag.encoders.locate import GRAPH
from canopy_rag.encoders.windows import Ids, batches

FEATURE = "the embedded encoder"
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
    """

    def __init__(self, files: ModelFiles, threads: int | None) -> None:
        self._files = files
        self._threads = threads or _n_cores()
        self._lock = threading.RLock()
        self._tokenizer: Any = None
        self._session: Any = None
        self._passes: ThreadPoolExecutor | None = None
        self._weights: Weights | None = None
        self._values: list[
            Any
        ] = []  # onnxruntime may read the weights as long as the session lives

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
        session, weights = self._loaded_network()
        length = len(sequences[positions[0]])
        ids = np.zeros((len(positions), length), np.int64)
        mask = np.zeros((len(positions), length), np.float32)
        for row, position in enumerate(positions):
            ids[row, : len(sequences[position])] = sequences[position]
            mask[row, : len(sequences[position])] = 1
        states: NDArray[np.float32] = session.run(
            None, {"words": weights.embed(ids), "mask": mask}
        )[0]
        return states

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

    def _loaded_network(self) -> tuple[Any, Weights]:
        with self._lock:
            if self._session is None or self._weights is None:
                ort = require("onnxruntime", extra="local", feature=FEATURE)
                weights = self._files.weights()
                options = ort.SessionOptions()
                options.intra_op_num_threads = 1
                options.inter_op_num_threads = 1
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                options.enable_mem_pattern = False  # shapes differ from batch to batch
                values = [ort.OrtValue.ortvalue_from_numpy(w) for w in weights.graph.values()]
                options.add_external_initializers(list(weights.graph), values)
                self._session = ort.InferenceSession(
                    GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"]
                )
                self._weights, self._values = weights, values
            return self._session, self._weights


def _n_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
