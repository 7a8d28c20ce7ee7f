"""The embedded encoder as a torch module: the same texts, windows and pooling, with gradients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.node_text import context_text, node_parts, pieces
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import leaf_intervals
from canopy_rag.encoders import checkpoint, minilm
from canopy_rag.encoders.locate import EmbeddedModel, FolderModel
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.windows import Ids, Run, batches, cut
from canopy_rag.training.data import Example
from canopy_rag.training.lexical import LexicalTerm
from canopy_rag.training.lora import FEATURE, with_lora, write_lora, write_tensors
from canopy_rag.training.recipe import Recipe
from canopy_rag.training.trainable import Compared

TARGETS = ("query", "key", "value", "dense")
"""Attention and MLP projections of a BERT layer; the three outputs are all called `dense`."""
BATCH_TOKENS = 8192
"""Most tokens of one forward pass, padding included."""
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "num_hidden_layers": checkpoint.N_LAYERS,
    "num_attention_heads": checkpoint.N_HEADS,
    "hidden_size": checkpoint.DIM,
    "intermediate_size": checkpoint.N_INNER,
    "max_position_embeddings": checkpoint.N_POSITIONS,
    "hidden_act": "gelu",
    "layer_norm_eps": checkpoint.EPSILON,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "type_vocab_size": 2,
}

Part = tuple[Ids, list[Run], int]
"""One sequence to be read: its context, runs of tokens, and the number of rows these count to."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What the network made of a part."""

    rows: Any
    """Sum of the states of each row's tokens, `(n_rows, dim)`."""
    rest: Any
    """Sum of the states of context and marks over all windows, `(dim,)`."""
    n_windows: int


class MiniLMTrunk:
    """`encoders.minilm.MiniLM` with weights that can be trained.

    Args:
        recipe: How it is trained: adapters, or all weights.
        mode: How nodes are read.
        weights: Folder with other weights of the architecture; None: those of the package.

    Raises:
        ConfigError: If the weights are of another architecture, or the recipe asks for what nodes
            that are read one by one cannot give.
        MissingDependencyError: If torch, transformers or peft is not installed.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        mode: Literal["late", "node"] = "late",
        weights: Path | None = None,
    ) -> None:
        self._torch = require("torch", extra="train", feature=FEATURE)
        if mode == "node" and (recipe.across or recipe.lexical):
            raise ConfigError(
                "training: across and lexical need the mode 'late', in which an item is read once"
            )
        self._files = EmbeddedModel() if weights is None else FolderModel(weights)
        self._tokens = TokenModel(self._files, threads=1)
        self._mode = mode
        self._kind = recipe.kind
        fingerprint = minilm.MiniLM(mode=mode, weights=weights).fingerprint
        self._base = {"model": fingerprint.model, "revision": fingerprint.revision}
        bert = _bert(self._files.weights())
        self._network = bert if recipe.kind == "full" else with_lora(bert, recipe, TARGETS)
        self._lexical: LexicalTerm | None = None
        if recipe.lexical:
            self._lexical = LexicalTerm(
                self._tokens.ids,
                bert.config.vocab_size,
                max_leaf_tokens=minilm.MAX_LEAF_TOKENS,
                max_query_tokens=minilm.WINDOW - minilm.N_MARKS,
            )
            self._network.lexical = self._lexical.parameter

    @property
    def base(self) -> dict[str, str]:
        """Model and revision of the frozen encoder."""
        return self._base

    @property
    def mode(self) -> Literal["late", "node"]:
        """How nodes are read."""
        return self._mode

    @property
    def module(self) -> Any:
        """The network, with its adapter and the weight of the lexical term."""
        return self._network

    @property
    def lexical_weight(self) -> float | None:
        """What the lexical term weighs; None: there is none."""
        return None if self._lexical is None else self._lexical.weight

    def vectors_alone(self) -> AbstractContextManager[None]:
        """Leave the lexical term out for a while, as the encoder without an adapter does."""
        return nullcontext() if self._lexical is None else self._lexical.off()

    def count_words(self, items: Iterable[Item]) -> None:
        """Count how rare tokens are for the lexical term, if there is one."""
        if self._lexical is not None:
            self._lexical.count_words(items)

    def count_tokens(self, item: Item) -> int:
        """Return how many tokens an item has, its context once."""
        texts = [context_text(item), *(piece.text for piece in pieces(item))]
        return sum(len(self._tokens.ids(text, minilm.MAX_LEAF_TOKENS)) for text in texts)

    def similarities(self, batch: Sequence[Example]) -> list[Any]:
        """Return for each example the similarities of its nodes, float32."""
        queries = list(dict.fromkeys(each.query for each in batch))
        items = {each.item.id: each.item for each in batch}
        wanted: dict[str, set[int]] = {item_id: set() for item_id in items}
        for each in batch:
            wanted[each.item.id].update(each.nodes)
        query_rows = dict(zip(queries, self.query_vectors(queries), strict=True))
        node_rows = {
            item_id: (nodes, self._node_vectors(items[item_id], nodes, read))
            for item_id, nodes, read in self._read_items(items, wanted)
        }
        found = []
        for each in batch:
            nodes, rows = node_rows[each.item.id]
            positions = np.searchsorted(nodes, each.nodes).tolist()
            with self._full_precision():
                values = rows[positions] @ query_rows[each.query]
            if self._lexical is not None:
                own = self._lexical.coverage(each.query, each.item)[list(each.nodes)]
                values = self._lexical.add(values, own)
            found.append(values)
        return found

    def compare(self, batch: Sequence[Example]) -> Compared:
        """Return how similar each example's question is to all nodes of all items of a batch."""
        items = {each.item.id: each.item for each in batch}
        every = {item_id: set(range(len(item.nodes))) for item_id, item in items.items()}
        queries = list(dict.fromkeys(each.query for each in batch))
        query_rows = self.query_vectors(queries)
        node_rows = [
            self._node_vectors(items[item_id], nodes, read)
            for item_id, nodes, read in self._read_items(items, every)
        ]
        asked = [queries.index(each.query) for each in batch]
        with self._full_precision():
            cosines = query_rows[asked] @ self._torch.cat(node_rows).T
        similarities = cosines
        if self._lexical is not None:
            coverages = self._lexical.coverages(queries, list(items.values()))
            similarities = self._lexical.add(cosines, coverages[asked])
        return Compared(items=tuple(items.values()), cosines=cosines, similarities=similarities)

    def query_vectors(self, queries: Sequence[str]) -> Any:
        """Return the unit vectors of queries, `(n_queries, dim)`."""
        limit = minilm.WINDOW - minilm.N_MARKS
        parts: list[Part] = [((), [Run(0, self._tokens.ids(each, limit))], 1) for each in queries]
        sums = [read.rows[0] + read.rest for read in self._read(parts)]
        return _unit(self._torch.stack(sums))

    def node_vectors(self, item: Item) -> Any:
        """Return the unit vectors of all nodes of an item, `(n_nodes, dim)`."""
        every = {item.id: set(range(len(item.nodes)))}
        ((_, nodes, read),) = self._read_items({item.id: item}, every)
        return self._node_vectors(item, nodes, read)

    def _read_items(
        self, items: dict[str, Item], wanted: dict[str, set[int]]
    ) -> list[tuple[str, list[int], list[Read]]]:
        parts: list[Part] = []
        chosen = {item_id: sorted(wanted[item_id]) for item_id in items}
        for item_id, item in items.items():
            if self._mode == "late":
                parts.append(self._late_part(item))
            else:
                parts += [self._node_part(item, node) for node in chosen[item_id]]
        reads = iter(self._read(parts))
        return [
            (
                item_id,
                nodes,
                [next(reads) for _ in range(1 if self._mode == "late" else len(nodes))],
            )
            for item_id, nodes in chosen.items()
        ]

    def _late_part(self, item: Item) -> Part:
        found = pieces(item)
        runs = [
            Run(piece.leaf, self._tokens.ids(piece.text, minilm.MAX_LEAF_TOKENS)) for piece in found
        ]
        context = self._tokens.ids(context_text(item), minilm.MAX_CONTEXT_TOKENS)
        return context, runs, sum(piece.leaf is not None for piece in found)

    def _node_part(self, item: Item, node: int) -> Part:
        context, body = node_parts(item, item.nodes[node])
        run = Run(0, self._tokens.ids(body, minilm.MAX_LEAF_TOKENS))
        return self._tokens.ids(context, minilm.MAX_CONTEXT_TOKENS), [run], 1

    def _node_vectors(self, item: Item, nodes: list[int], reads: list[Read]) -> Any:
        if self._mode == "node":
            return _unit(self._torch.stack([read.rows[0] + read.rest for read in reads]))
        bounds = leaf_intervals(item.nodes)[nodes]
        leaves = np.arange(len(reads[0].rows))
        inside = (bounds[:, :1] <= leaves) & (leaves < bounds[:, 1:])  # (n_nodes, n_leaves)
        membership = self._torch.as_tensor(inside.astype(np.float32)).to(reads[0].rows.device)
        with self._full_precision():
            leaf_sums = membership @ reads[0].rows
        # However many windows repeat the context, it counts once.
        return _unit(leaf_sums + reads[0].rest / reads[0].n_windows)

    def _full_precision(self) -> Any:
        """Compare in float32 whatever the network computes in: equal words must stay equal."""
        return self._torch.autocast(next(self._network.parameters()).device.type, enabled=False)

    def _read(self, parts: Sequence[Part]) -> list[Read]:
        """Run parts through the network; padded together, in as few passes as the budget allows."""
        torch = self._torch
        first, last = self._tokens.special("[CLS]"), self._tokens.special("[SEP]")
        starts = np.cumsum([0, *(n_rows + 1 for _, _, n_rows in parts)])
        sequences: list[list[int]] = []
        targets: list[list[int]] = []
        n_windows = [0] * len(parts)
        for number, (context, runs, n_rows) in enumerate(parts):
            start, rest = int(starts[number]), int(starts[number]) + n_rows
            for window in cut(number, runs, minilm.WINDOW - minilm.N_MARKS - len(context)):
                ids, rows = [first, *context], [rest] * (1 + len(context))
                for run in window.runs:
                    ids += run.ids
                    nowhere = int(starts[-1])  # headings between leaves count to no row
                    rows += [nowhere if run.row is None else start + run.row] * len(run.ids)
                sequences.append([*ids, last])
                targets.append([*rows, rest])
                n_windows[number] += 1
        device = next(self._network.parameters()).device
        sums = torch.zeros(int(starts[-1]) + 1, checkpoint.DIM, device=device)
        for positions in batches([len(ids) for ids in sequences], BATCH_TOKENS):
            states, rows = self._states(
                [sequences[position] for position in positions],
                [targets[position] for position in positions],
            )
            sums = sums.index_add(0, rows, states)
        return [
            Read(sums[start : start + n_rows], sums[start + n_rows], n)
            for start, (_, _, n_rows), n in zip(starts.tolist(), parts, n_windows, strict=False)
        ]

    def _states(self, sequences: list[list[int]], targets: list[list[int]]) -> tuple[Any, Any]:
        """Return the states of all tokens of a batch, `(n_tokens, dim)`, and their rows."""
        torch = self._torch
        device = next(self._network.parameters()).device
        length = max(map(len, sequences))
        ids = torch.zeros(len(sequences), length, dtype=torch.long)
        mask = torch.zeros(len(sequences), length, dtype=torch.long)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        mask = mask.to(device)
        states = self._network(input_ids=ids.to(device), attention_mask=mask).last_hidden_state
        rows = torch.tensor([row for target in targets for row in target], device=device)
        return states.float()[mask.bool()], rows

    def write(self, folder: Path) -> None:
        """Write the adapter's files, or a folder of weights that `encoder.weights` takes."""
        if self._kind == "lora":
            write_lora(self._network, folder)
            if self._lexical is not None:
                self._lexical.write(folder)
            return
        write_tensors(folder / "model.safetensors", self._network.state_dict())
        (folder / "tokenizer.json").write_bytes(self._files.tokenizer_json())
        text = json.dumps(CONFIG | {"vocab_size": self._network.config.vocab_size}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def _unit(rows: Any) -> Any:
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def _bert(weights: checkpoint.Weights) -> Any:
    """Return the network in float32 with these weights."""
    torch = require("torch", extra="train", feature=FEATURE)
    transformers = require("transformers", extra="train", feature=FEATURE)
    n_words = len(weights.words)
    settings = {k: v for k, v in CONFIG.items() if k not in ("architectures", "model_type")}
    config = transformers.BertConfig(vocab_size=n_words, **settings)
    with torch.random.fork_rng(devices=[]):
        module = transformers.BertModel(config, add_pooling_layer=False)
    tensors = {
        name: value.T if value.ndim == 2 and name != checkpoint.POSITIONS else value
        for name, value in weights.graph.items()
    }
    tensors[checkpoint.WORDS] = weights.embed(np.arange(n_words))
    tensors[checkpoint.TYPES] = np.zeros((2, checkpoint.DIM), np.float32)  # inside the positions
    missing, unexpected = module.load_state_dict(
        {name: torch.tensor(np.ascontiguousarray(value)) for name, value in tensors.items()},
        strict=False,
    )
    if missing or unexpected:
        raise ConfigError(
            f"transformers' BertModel does not fit the weights: missing {missing}, unexpected "
            f"{unexpected}; use transformers 4.57 or a version that this release was tested with"
        )
    return module.eval()
