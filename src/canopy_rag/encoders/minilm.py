"""`minilm`: all-MiniLM-L6-v2 on onnxruntime, the embedded default encoder.

Late pooling: an item is read once, its context first; a node's vector is the mean of
its tokens' states and the context's. An item longer than the model's window is read in several
windows that repeat the context. Tables, images and videos are embedded through their text.

A LoRA adapter is merged into the weights of a second network, which reads queries and nodes once
more: the first one, as it was, ranks items (P1). An adapter whose trunk still retrieves takes the
place of the first, and everything is read once (D12). An adapter with a lexical term has the
leaves' tokens stored beside their vectors, and the queries' tokens weighed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core import vectors
from canopy_rag.core.errors import CanopyError, ConfigError, EncodeError
from canopy_rag.core.lexical import question_terms
from canopy_rag.core.node_text import context_text, node_parts, pieces
from canopy_rag.core.protocols import Fingerprint
from canopy_rag.core.types import Item, Modality
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors
from canopy_rag.encoders.adapters import Adapter, Lexicon, check_base, load_lexicon, merge_lora
from canopy_rag.encoders.checkpoint import DIM, Weights, linear_names
from canopy_rag.encoders.locate import EmbeddedModel, FolderModel
from canopy_rag.encoders.model import ModelFiles, TokenModel
from canopy_rag.encoders.runtime import Backend
from canopy_rag.encoders.windows import Ids, Run, Sums, Window, cut

WINDOW = 256
"""Most tokens of one forward pass, `[CLS]` and `[SEP]` included: what the model was trained on."""
MAX_CONTEXT_TOKENS = 64
"""Title, section path and caption are read up to here: they must leave room for the item."""
MAX_LEAF_TOKENS = 4096
"""A leaf is read up to here: about ten pages in one sentence, row or segment."""
PAD = 0
"""Id of `[PAD]`, which stands in no question."""
N_MARKS = 2
"""`[CLS]` and `[SEP]`, which stand around every sequence."""
POOLING = 1
"""Goes up when the same weights would give other vectors."""

Part = tuple[Ids, list[Run]]
"""One sequence to be read: its context, and runs of tokens."""


class MiniLM:
    """Encodes queries and items; English, text only, 384 dimensions.

    Args:
        mode: `late`: one pass per item, nodes pooled from its token states. `node`: each node is
            encoded on its own, with its heading path.
        weights: Folder with model.safetensors and tokenizer.json of the same architecture; None:
            the weights that come with canopy.
        threads: Most forward passes side by side; a query takes one. None: one for each core.
        backend: What runs them; `openvino` computes in bfloat16 where the CPU has it.
        adapter: Of kind `lora`; unless it `retrieves`, every pass is made twice.

    Raises:
        ConfigError: If an argument cannot work, or the adapter was trained on another encoder.
            Without an adapter, files are looked at on first use.
    """

    def __init__(
        self,
        *,
        mode: Literal["late", "node"] = "late",
        weights: Path | None = None,
        threads: int | None = None,
        backend: Backend = "onnxruntime",
        adapter: Adapter | None = None,
    ) -> None:
        if mode not in ("late", "node"):
            raise ConfigError(f"encoder mode must be 'late' or 'node', got {mode!r}")
        if threads is not None and threads < 1:
            raise ConfigError(f"encoder threads must be at least 1, got {threads}")
        self._mode: Literal["late", "node"] = mode
        self._files = EmbeddedModel() if weights is None else FolderModel(Path(weights))
        self._retrieval = self._nodes = TokenModel(self._files, threads, backend)
        self._adapter = None
        if adapter is not None:
            check_base(adapter, self.fingerprint)
            self._adapter = adapter
            tuned = _Tuned(self._retrieval, self._files, adapter)
            self._nodes = TokenModel(tuned, threads, backend)
            if adapter.retrieves:
                self._retrieval = self._nodes

    @cached_property
    def _lexicon(self) -> Lexicon | None:
        return None if self._adapter is None else load_lexicon(self._adapter)

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on; for a folder, its checksum is taken once."""
        tuned = "" if self._adapter is None else f"+{self._adapter.digest}"
        return Fingerprint(
            model="minilm",
            revision=f"{self._files.revision[:16]}.{POOLING}{tuned}",
            mode=self._mode,
            instruction="",
            dim=DIM,
        )

    @property
    def media(self) -> frozenset[Modality]:
        """None: images and videos are embedded through captions, OCR and subtitles."""
        return frozenset()

    @property
    def languages(self) -> frozenset[str] | None:
        """English."""
        return frozenset({"en"})

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens."""
        return len(self._retrieval.ids(text))

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order; each is read up to 254 tokens.

        Raises:
            EncodeError: If the model fails.
        """
        ids = [self._retrieval.ids(query, WINDOW - N_MARKS) for query in queries]
        read = _Reading(
            parts=[((), [Run(0, own)]) for own in ids],
            n_rows=[1] * len(queries),
            names=[f"query {position}" for position in range(len(queries))],
        )
        retrieval = node = _unit(_whole(_read(self._retrieval, read)))
        if self._nodes is not self._retrieval:
            node = _unit(_whole(_read(self._nodes, read)))
        terms = None
        if self._lexicon is not None:
            terms = [question_terms(own, self._lexicon.idf, self._lexicon.weight) for own in ids]
        return QueryVectors(retrieval=retrieval, node=node, terms=terms)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and their nodes, in order; the result does not depend on the batch.

        All items of one call are held in memory; a few hundred make full batches.

        Raises:
            EncodeError: Naming the item that failed.
        """
        return self._late(items) if self._mode == "late" else self._per_node(items)

    def _late(self, items: Sequence[Item]) -> list[ItemVectors]:
        read = _Reading([], [], [item.id for item in items])
        for item in items:
            found = pieces(item)
            runs = [self._run(piece.leaf, piece.text) for piece in found]
            read.parts.append((self._retrieval.ids(context_text(item), MAX_CONTEXT_TOKENS), runs))
            read.n_rows.append(sum(piece.leaf is not None for piece in found))
        own = base = _pooled(self._nodes, items, read)
        if self._retrieval is not self._nodes:
            base = _pooled(self._retrieval, items, read)
        if self._lexicon is not None:
            parts = zip(own, read.parts, strict=True)
            own = [replace(nodes, tokens=_leaf_tokens(runs)) for nodes, (_, runs) in parts]
        return [
            ItemVectors(item=vectors.node_matrix(item.nodes, whole)[0], nodes=nodes)
            for item, whole, nodes in zip(items, base, own, strict=True)
        ]

    def _per_node(self, items: Sequence[Item]) -> list[ItemVectors]:
        texts: dict[tuple[str, str], int] = {}
        # Nodes that say the same, such as segments without words, are read once and tie.
        names: list[str] = []
        for item in items:
            for node in item.nodes:
                text = node_parts(item, node)
                if text not in texts:
                    texts[text] = len(texts)
                    names.append(item.id)
        parts: list[Part] = [
            (self._retrieval.ids(context, MAX_CONTEXT_TOKENS), [self._run(0, body)])
            for context, body in texts
        ]
        rows = _unit(_whole(_read(self._nodes, _Reading(parts, [1] * len(parts), names))))
        places = [[texts[node_parts(item, node)] for node in item.nodes] for item in items]
        roots = [place[0] for place in places]
        whole = rows[roots]
        if self._retrieval is not self._nodes:
            read = _Reading(
                [parts[root] for root in roots], [1] * len(roots), [item.id for item in items]
            )
            whole = _unit(_whole(_read(self._retrieval, read)))
        return [
            ItemVectors(item=one, nodes=NodeVectors(rows=rows[place].astype(np.float16)))
            for one, place in zip(whole, places, strict=True)
        ]

    def _run(self, row: int | None, text: str) -> Run:
        return Run(row, self._retrieval.ids(text, MAX_LEAF_TOKENS))


class _Tuned:
    """The files of the network with an adapter merged in; what is not changed is shared."""

    def __init__(self, base: TokenModel, files: ModelFiles, adapter: Adapter) -> None:
        self._base = base
        self._files = files
        self._adapter = adapter

    def tokenizer_json(self) -> bytes:
        return self._files.tokenizer_json()

    def weights(self) -> Weights:
        # One that takes the base's place must not keep it in memory.
        base = self._files.weights() if self._adapter.retrieves else self._base.weights()
        names = [f"{layer}.weight" for layer in linear_names()]
        # In memory matrices are (inputs, outputs); adapters know them as the checkpoint has them.
        layers = merge_lora({name: base.graph[name].T for name in names}, self._adapter.folder)
        graph = dict(base.graph)
        for name, layer in layers.items():
            graph[name] = np.ascontiguousarray(layer.T)
        return Weights(words=base.words, word_scale=base.word_scale, graph=graph)


class _Reading(NamedTuple):
    """What a network is to read."""

    parts: list[Part]
    """Context and runs of each."""
    n_rows: list[int]
    """Rows that the runs of each part count to; one more row takes the context and the two marks
    around the sequence."""
    names: list[str]
    """What to call each part in an error."""


def _pooled(model: TokenModel, items: Sequence[Item], read: _Reading) -> list[NodeVectors]:
    """Return items' node vectors; a leaf without tokens is its context alone.

    Its row is zero, so that the similarities of leaves without words tie exactly.
    """
    found = []
    for item, sums, (context, _) in zip(items, _read(model, read), read.parts, strict=True):
        means = sums.means()
        found.append(
            vectors.pool(
                item.nodes,
                means[:-1],
                np.maximum(sums.count[:-1], 1).tolist(),
                means[-1],
                len(context) + N_MARKS,
            )
        )
    return found


def _leaf_tokens(runs: Sequence[Run]) -> NDArray[np.uint16]:
    """Return the leaves' token ids; a leaf without any has `[PAD]`, as it weighs one token."""
    found = [token for run in runs if run.row is not None for token in (run.ids or (PAD,))]
    return np.asarray(found, np.uint16)


def _read(model: TokenModel, read: _Reading) -> list[Sums]:
    """Run parts through a network and add the states up."""
    parts = read.parts
    first, last = model.special("[CLS]"), model.special("[SEP]")
    windows = [
        window
        for position, (context, runs) in enumerate(parts)
        for window in cut(position, runs, WINDOW - N_MARKS - len(context))
    ]
    sequences = [_sequence(first, parts[window.part][0], window, last) for window in windows]
    sums = [Sums(n + 1, DIM) for n in read.n_rows]
    try:
        for positions, states in model.states(sequences):
            for position, one in zip(positions, states, strict=True):
                window = windows[position]
                _count(window, len(parts[window.part][0]), one, sums[window.part])
    except CanopyError:
        raise
    except Exception as error:  # whatever the runtime raises
        raise EncodeError(read.names[0], f"the model failed on a batch: {error}") from error
    for name, one in zip(read.names, sums, strict=True):
        if not np.isfinite(one.total).all():
            raise EncodeError(name, "the model gave no number; are its weights damaged?")
    return sums


def _sequence(first: int, context: Ids, window: Window, last: int) -> list[int]:
    ids = [first, *context]
    for run in window.runs:
        ids += run.ids
    ids.append(last)
    return ids


def _count(window: Window, n_context: int, states: NDArray[np.float32], sums: Sums) -> None:
    """Add a window's states to its part's rows."""
    stop = 1 + n_context
    sums.add(-1, states[:stop])
    for run in window.runs:
        begin, stop = stop, stop + len(run.ids)
        if run.row is not None:
            sums.add(run.row, states[begin:stop])
    sums.add(-1, states[stop : stop + 1])


def _whole(sums: Sequence[Sums]) -> NDArray[np.float32]:
    """Return the mean state of everything that was read of each part, `(n_parts, dim)`."""
    means = [one.total.sum(axis=0) / one.count.sum() for one in sums]
    return np.asarray(means, np.float32).reshape(len(means), DIM)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float32
    )
