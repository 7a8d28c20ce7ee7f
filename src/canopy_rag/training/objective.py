"""What a step makes smaller: the preferences' loss (D4), and one that keeps items comparable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.types import Item
from canopy_rag.training.data import Example
from canopy_rag.training.loss import Contrasts, Pairs, moved, pairs
from canopy_rag.training.recipe import Recipe
from canopy_rag.training.torch_loss import contrast_losses, instance_losses
from canopy_rag.training.trainable import Compared, Trainable, Trunk

DECISIONS, LEAVES, ROOTS = "decisions", "leaves", "roots"
"""Parts of the loss: inside items; gold leaves against all others; gold items against others."""


def part_names(recipe: Recipe) -> tuple[str, ...]:
    """Return what a recipe's loss is put together from."""
    return (DECISIONS, LEAVES, ROOTS) if recipe.across else (DECISIONS,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """Of some examples; tensors."""

    decisions: Any
    """Of each instance, `(n_instances,)`, in order of the examples."""
    across: dict[str, Any]
    """`leaves` and `roots`: of each example, `(n_examples,)`; without the second term empty."""
    n_counted: dict[str, int]
    """How many of those count: the others have nothing to be compared with."""

    def total(self, n_instances: int, weight: float) -> tuple[Any, dict[str, float]]:
        """Return what is made smaller, and its parts as numbers.

        Args:
            n_instances: Of the whole step, of which these examples may be a share.
            weight: Of the second term.
        """
        parts = {DECISIONS: self.decisions.sum() / max(1, n_instances)}
        for name, losses in self.across.items():
            parts[name] = losses.sum() / max(1, self.n_counted[name])
        loss = parts[DECISIONS] + weight * sum(parts[name] for name in self.across)
        return loss, {name: float(part.detach()) for name, part in parts.items()}

    def bad(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples, with single instances, whose loss is not a number."""
        torch = require("torch", extra="train", feature="training")
        owners = [each for each in examples for _ in each.instances]
        wrong = [owners[row] for row in _rows(~torch.isfinite(self.decisions))]
        for losses in self.across.values():
            wrong += [examples[row] for row in _rows(~torch.isfinite(losses))]
        return wrong


def losses(trainable: Trainable, examples: Sequence[Example], recipe: Recipe) -> Losses:
    """Compute the losses of some examples; with `across` all of a step's.

    Raises:
        ConfigError: If items are to be compared by a trainable that cannot.
        EncodeError: Naming an item that cannot be read.
    """
    torch = require("torch", extra="train", feature="training")
    device = next(trainable.module.parameters()).device.type
    half = torch.autocast(device, torch.bfloat16, enabled=recipe.precision == "bf16")
    if not recipe.across:
        with half:
            found = torch.cat([each.float() for each in trainable.similarities(examples)])
        wanted = example_pairs(examples)
        own = instance_losses(found, wanted, recipe.scale, recipe.reduction)
        return Losses(decisions=own, across={}, n_counted={})
    if not isinstance(trainable, Trunk):
        raise ConfigError(
            "training: across needs an encoder that reads whole items at once; set it to 0"
        )
    with half:
        compared = trainable.compare(examples)
    return _across(compared, examples, recipe)


def _across(compared: Compared, examples: Sequence[Example], recipe: Recipe) -> Losses:
    starts = first_nodes(compared.items)
    width = int(compared.similarities.shape[1])
    flat = compared.similarities.reshape(-1)
    begins = [row * width + starts[each.item.id] for row, each in enumerate(examples)]
    wanted = pairs([each.instances for each in examples], begins)
    leaves, roots = contrasts(examples, compared.items)
    return Losses(
        decisions=instance_losses(flat, wanted, recipe.scale, recipe.reduction),
        across={
            LEAVES: contrast_losses(compared.similarities, leaves, recipe.scale),
            ROOTS: contrast_losses(compared.cosines, roots, recipe.scale),
        },
        n_counted={LEAVES: leaves.n_counted, ROOTS: roots.n_counted},
    )


def first_nodes(items: Iterable[Item]) -> dict[str, int]:
    """Return where each item's nodes begin if all stand one after the other."""
    starts, position = {}, 0
    for item in items:
        starts[item.id] = position
        position += len(item.nodes)
    return starts


def contrasts(examples: Sequence[Example], items: Sequence[Item]) -> tuple[Contrasts, Contrasts]:
    """Return what must lie above what across the items of a batch, a row for each example.

    First among leaves: the example's gold leaves above all other leaves, of its own item and of
    the others. Then among roots: its item's above the others'. Other items with gold of the same
    question are left aside.

    Args:
        examples: The batch.
        items: Theirs, each once, in the order in which their nodes stand.
    """
    starts = first_nodes(items)
    is_leaf = np.array([not node.children for item in items for node in item.nodes])
    owner = np.repeat(np.arange(len(items)), [len(item.nodes) for item in items])
    is_root = np.zeros(len(is_leaf), np.bool_)
    is_root[list(starts.values())] = True
    shape = (len(examples), len(is_leaf))
    gold_leaves, other_leaves = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    gold_roots, other_roots = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for row, each in enumerate(examples):
        start = starts[each.item.id]
        gold_leaves[row, [start + leaf for leaf in sorted(each.gold)]] = True
        gold_roots[row, start] = True
        aside = [item.id in each.gold_items and item.id != each.item.id for item in items]
        comparable = ~np.array(aside)[owner]
        other_leaves[row] = is_leaf & comparable & ~gold_leaves[row]
        other_roots[row] = is_root & comparable & ~gold_roots[row]
    return Contrasts(gold_leaves, other_leaves), Contrasts(gold_roots, other_roots)


def example_pairs(examples: Sequence[Example]) -> Pairs:
    """Return the pairs of examples whose nodes' similarities stand one after the other."""
    starts, instances, position = [], [], 0
    for each in examples:
        where = {node: number for number, node in enumerate(each.nodes)}
        starts.append(position)
        position += len(where)
        instances.append([moved(instance, where) for instance in each.instances])
    return pairs(instances, starts)


def _rows(mask: Any) -> list[int]:
    found: list[int] = mask.nonzero().flatten().tolist()
    return found
