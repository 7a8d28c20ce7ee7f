"""In which order instances are learned. Depends on seed and epoch alone, on every platform."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from canopy_rag.training.data import Example
from canopy_rag.training.recipe import Recipe

T = TypeVar("T")


def units(examples: Sequence[Example], recipe: Recipe) -> list[Example]:
    """Return what a batch counts: whole examples, or one for each of their instances."""
    if recipe.unit == "item":
        return list(examples)
    return [
        replace(example, instances=(instance,))
        for example in examples
        for instance in example.instances
    ]


def n_steps(n_units: int, recipe: Recipe) -> int:
    """Return the number of steps of a whole training.

    >>> n_steps(18_575, Recipe())  # the paper's (P10)
    2322
    """
    return -(-n_units // recipe.batch) * recipe.epochs


def step_batch(own: Sequence[T], recipe: Recipe, step: int) -> list[T]:
    """Return the units of one step, counted from 0; the last batch of an epoch may be smaller."""
    per_epoch = -(-len(own) // recipe.batch)
    epoch, position = divmod(step, per_epoch)
    chosen = _order(len(own), recipe.seed, epoch)[position * recipe.batch :][: recipe.batch]
    return [own[unit] for unit in chosen]


def split_evenly(batch: Sequence[T], n_parts: int) -> list[list[T]]:
    """Return a batch in `n_parts` parts, some perhaps empty; sizes differ by at most one."""
    bounds = [len(batch) * part // n_parts for part in range(n_parts + 1)]
    return [list(batch[a:b]) for a, b in pairwise(bounds)]


@lru_cache(maxsize=2)
def _order(n_units: int, seed: int, epoch: int) -> tuple[int, ...]:
    def rank(unit: int) -> bytes:
        return hashlib.sha256(f"{seed}\0{epoch}\0{unit}".encode()).digest()

    return tuple(sorted(range(n_units), key=rank))
