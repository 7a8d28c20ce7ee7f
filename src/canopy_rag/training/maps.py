"""Matrices on stored vectors: trained in seconds, for any encoder, without torch.

A query's vector `q` becomes `M q`, scaled to length one; with `sides="both"` a node's becomes
`N v`, too. Both begin as the identity. With the query's matrix alone an existing index stays as it
is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import EncodeError, ModelError
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.vectors import NodeVectors, node_matrix
from canopy_rag.training.batches import n_steps, step_batch
from canopy_rag.training.data import Example
from canopy_rag.training.judge import Judged
from canopy_rag.training.loop import Fitted, OnProgress, Progress, factor
from canopy_rag.training.loss import Pairs, gradient, instance_losses, moved, pairs
from canopy_rag.training.objective import DECISIONS
from canopy_rag.training.recipe import Recipe

Stored: TypeAlias = Callable[[Sequence[str]], Mapping[str, NodeVectors]]
TENSORS = "map.safetensors"
Floats = NDArray[np.float32]
ENCODED_AT_ONCE = 64
"""Items per call of the encoder."""
BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's own defaults."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """An example's vectors."""

    example: Example
    query: Floats
    """`(dim,)`, unit length."""
    nodes: Floats
    """`(n_nodes, dim)`, unit length, of `example.nodes`."""
    wanted: Pairs
    """Of all its instances, over the rows of `nodes`."""


def known(
    examples: Sequence[Example],
    encoder: Encoder,
    stored: Stored | None = None,
) -> list[Known]:
    """Return examples with their vectors.

    Args:
        examples: Questions with an item each.
        encoder: Encodes the queries, and the items that are not stored.
        stored: Returns the node vectors of those items of some ids that an index holds already.

    Raises:
        EncodeError: Naming an item or question whose vectors have other dimensions than the
            encoder's, or are no numbers.
    """
    dim = encoder.fingerprint.dim
    items = {each.item.id: each.item for each in examples}
    vectors = dict(stored(list(items))) if stored is not None else {}
    missing = [item for item_id, item in items.items() if item_id not in vectors]
    for start in range(0, len(missing), ENCODED_AT_ONCE):
        group = missing[start : start + ENCODED_AT_ONCE]
        for item, each in zip(group, encoder.encode_items(group), strict=True):
            vectors[item.id] = each.nodes
    nodes = {
        item_id: _checked(item_id, _unit(node_matrix(item.nodes, vectors[item_id])), dim)
        for item_id, item in items.items()
    }
    queries = list(dict.fromkeys(each.query for each in examples))
    rows = encoder.encode_queries(queries).node if queries else np.zeros((0, dim), np.float32)
    by_query = dict(zip(queries, rows, strict=True))
    return [
        Known(
            each,
            _checked(f"question {each.question_id}", by_query[each.query][None], dim)[0],
            nodes[each.item.id][list(each.nodes)],
            _own_pairs(each),
        )
        for each in examples
    ]


@dataclass(slots=True)
class Maps:
    """The matrices that are learned."""

    query: Floats
    node: Floats | None

    @classmethod
    def identity(cls, dim: int, recipe: Recipe) -> Maps:
        """Return maps that change nothing."""
        eye = np.eye(dim, dtype=np.float32)
        return cls(eye, eye.copy() if recipe.sides == "both" else None)

    def similarities(self, given: Known) -> Floats:
        """Return the similarities of an example's nodes."""
        nodes = given.nodes if self.node is None else _unit(given.nodes @ self.node.T)
        return np.asarray(nodes @ _unit(self.query @ given.query), np.float32)

    def copy(self) -> Maps:
        """Return maps that further steps leave alone."""
        return Maps(self.query.copy(), None if self.node is None else self.node.copy())

    def write(self, folder: Path) -> None:
        """Write the tensors into a folder."""
        safetensors = require("safetensors.numpy", extra="local", feature="training")
        tensors = {"query": self.query}
        if self.node is not None:
            tensors["node"] = self.node
        (folder / TENSORS).write_bytes(safetensors.save(tensors))


def fit_maps(
    train: Sequence[Known],
    validation: Sequence[Known],
    recipe: Recipe,
    on_progress: OnProgress | None = None,
) -> tuple[Maps, Fitted]:
    """Learn the matrices.

    Args:
        train: At least one example.
        validation: By which the best epoch is chosen; empty: the last is kept.
        recipe: How; a batch counts examples.
        on_progress: Called after every epoch.

    Raises:
        ModelError: If the loss is not a number, naming the instances.
    """
    began = time.perf_counter()
    dim = len(train[0].query)
    maps, steps = Maps.identity(dim, recipe), n_steps(len(train), recipe)
    before = after = _judged(maps, validation)
    best, best_step, n_worse, step = maps, 0, 0, 0
    history: list[dict[str, Any]] = []
    losses: list[float] = []
    optimizer = _Adam(recipe, dim)
    per_epoch = -(-len(train) // recipe.batch)
    while step < steps and (recipe.patience is None or n_worse < recipe.patience):
        for _ in range(per_epoch):
            batch = step_batch(train, recipe, step)
            loss, gradients = _gradients(maps, batch, recipe, step)
            losses.append(loss)
            optimizer.take(maps, gradients, factor(recipe, step, steps))
            step += 1
        judged = _judged(maps, validation)
        accuracy = None if judged is None else judged.accuracy
        mean = sum(losses[-per_epoch:]) / per_epoch
        history.append({"step": step, "loss": mean, "accuracy": accuracy})
        better = judged is None or after is None or judged.accuracy > after.accuracy
        if better or recipe.keep == "last" or not best_step:
            best, best_step, after, n_worse = maps.copy(), step, judged, 0
        else:
            n_worse += 1
        if on_progress is not None:
            on_progress(Progress(step=step, n_steps=steps, loss=mean, accuracy=accuracy))
    return best, Fitted(
        n_steps=step,
        kept_step=best_step,
        stopped_early=step < steps,
        before=before,
        after=after,
        loss=history[-1]["loss"] if history else None,
        parts={DECISIONS: history[-1]["loss"]} if history else {},
        seconds=time.perf_counter() - began,
        history=tuple(history),
    )


class _Adam:
    """AdamW on the matrices; what decays is the distance from the identity."""

    def __init__(self, recipe: Recipe, dim: int) -> None:
        self._recipe = recipe
        self._eye = np.eye(dim, dtype=np.float32)
        self._moments: dict[str, tuple[Floats, Floats]] = {}
        self._n = 0

    def take(self, maps: Maps, gradients: dict[str, Floats], share: float) -> None:
        """Move the matrices by one step."""
        self._n += 1
        rate = self._recipe.learning_rate * share
        total = math.sqrt(sum(float((each**2).sum()) for each in gradients.values()))
        clip = min(1.0, self._recipe.clip / max(total, 1e-12))
        for name, given in gradients.items():
            change = given * np.float32(clip)
            first, second = self._moments.get(name, (np.zeros_like(change),) * 2)
            first = BETAS[0] * first + (1 - BETAS[0]) * change
            second = BETAS[1] * second + (1 - BETAS[1]) * change**2
            self._moments[name] = (first, second)
            matrix = getattr(maps, name)
            decay = self._recipe.weight_decay * (matrix - self._eye)
            mean, spread = first / (1 - BETAS[0] ** self._n), second / (1 - BETAS[1] ** self._n)
            step = mean / (np.sqrt(spread) + EPSILON) + decay
            setattr(maps, name, np.asarray(matrix - rate * step, np.float32))


def _gradients(
    maps: Maps, batch: Sequence[Known], recipe: Recipe, step: int
) -> tuple[float, dict[str, Floats]]:
    """Return the mean loss of a batch's instances and its derivative by each matrix."""
    n = sum(each.wanted.n_instances for each in batch)
    total = 0.0
    found = {"query": np.zeros_like(maps.query)}
    if maps.node is not None:
        found["node"] = np.zeros_like(maps.node)
    for each in batch:
        moved_query = maps.query @ each.query
        query = _unit(moved_query)
        moved_nodes = each.nodes if maps.node is None else each.nodes @ maps.node.T
        nodes = each.nodes if maps.node is None else _unit(moved_nodes)
        similarities = nodes @ query  # (n_nodes,)
        wanted = each.wanted
        own = instance_losses(similarities, wanted, recipe.scale, recipe.reduction)
        if not np.isfinite(own).all():
            raise ModelError(
                f"the loss of step {step + 1} is not a number, at {each.example.name}. No adapter "
                "was written; try a lower learning rate"
            )
        total += float(own.sum())
        slope = gradient(similarities, wanted, recipe.scale, recipe.reduction)
        slope = np.asarray(slope * wanted.n_instances / n, np.float32)
        found["query"] += np.outer(_through_unit(nodes.T @ slope, moved_query, query), each.query)
        if maps.node is not None:
            steps = _through_unit(slope[:, None] * query[None], moved_nodes, nodes)
            found["node"] += steps.T @ each.nodes
    return total / n, found


def _through_unit(slope: NDArray[np.floating], before: Floats, after: Floats) -> Floats:
    """Return the derivative by a vector, given that by the same vector at length one."""
    along = (slope * after).sum(axis=-1, keepdims=True)
    length = np.maximum(np.linalg.norm(before, axis=-1, keepdims=True), 1e-12)
    return np.asarray((slope - along * after) / length, np.float32)


def _judged(maps: Maps, given: Sequence[Known]) -> Judged | None:
    if not given:
        return None
    found = Judged()
    for each in given:
        found.add(each.example, maps.similarities(each).tolist())
    return found


def _own_pairs(example: Example) -> Pairs:
    where = {node: number for number, node in enumerate(example.nodes)}
    return pairs([[moved(instance, where) for instance in example.instances]], [0])


def _checked(name: str, rows: Floats, dim: int) -> Floats:
    if rows.shape[-1] != dim:
        raise EncodeError(
            name,
            f"its vectors have {rows.shape[-1]} dimensions, the encoder's have {dim}; all must "
            "come from one encoder",
        )
    if not np.isfinite(rows).all():
        raise EncodeError(name, "its vectors hold values that are no numbers; encode it again")
    return rows


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12), np.float32)
