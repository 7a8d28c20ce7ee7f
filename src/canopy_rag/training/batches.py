"""In which order instances are learned.

Depends on seed and epoch alone, on every platform; with `neighbours` on the frozen vectors, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canopy_rag.training.data import Example
from canopy_rag.training.recipe import Recipe

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Likeness:
    """How alike examples are for the frozen encoder: the mean of both cross similarities.

    Of two examples, that of the first one's query to the second one's item, and the other way
    around.
    """

    queries: NDArray[np.float32]
    """`(n_examples, dim)`, unit length."""
    items: NDArray[np.float32]
    """`(n_examples, dim)`, unit length."""
    names: Sequence[tuple[str, str]]
    """Question and item of each example: those that share one are no neighbours."""
    _known: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict, init=False)

    def order(self, seed: int, epoch: int, size: int) -> tuple[int, ...]:
        """Return all examples in the order of an epoch, neighbours one after the other.

        The first of a group is drawn, the others are those most like it that are left; equal ones
        as they stand.

        Args:
            seed: Of the draws.
            epoch: Which one.
            size: Of a group.
        """
        if (seed, epoch, size) not in self._known:
            self._known.clear()
            self._known[seed, epoch, size] = self._grouped(seed, epoch, size)
        return self._known[seed, epoch, size]

    def _grouped(self, seed: int, epoch: int, size: int) -> tuple[int, ...]:
        _, questions = np.unique([name[0] for name in self.names], return_inverse=True)
        _, items = np.unique([name[1] for name in self.names], return_inverse=True)
        used = np.zeros(len(self.names), np.bool_)
        groups: list[list[int]] = []
        for first in _order(len(self.names), seed, epoch):
            if used[first]:
                continue
            used[first] = True
            barred = used | (questions == questions[first]) | (items == items[first])
            alike = self.items @ self.queries[first] + self.queries @ self.items[first]
            nearest = np.argsort(-np.where(barred, -np.inf, alike), kind="stable")[: size - 1]
            others = [int(each) for each in nearest if not barred[each]]
            used[others] = True
            groups.append([first, *others])
        shuffled = _order(len(groups), seed, -1 - epoch)
        return tuple(example for group in shuffled for example in groups[group])


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


def step_batch(
    own: Sequence[T], recipe: Recipe, step: int, likeness: Likeness | None = None
) -> list[T]:
    """Return the units of one step, counted from 0; the last batch of an epoch may be smaller.

    Args:
        own: All units.
        recipe: How many stand in a batch, and how many neighbours together.
        step: Which one.
        likeness: Of the units, where neighbours stand together.
    """
    per_epoch = -(-len(own) // recipe.batch)
    epoch, position = divmod(step, per_epoch)
    if likeness is None:
        order = _order(len(own), recipe.seed, epoch)
    else:
        order = likeness.order(recipe.seed, epoch, recipe.neighbours)
    return [own[unit] for unit in order[position * recipe.batch :][: recipe.batch]]


def split_evenly(batch: Sequence[T], n_parts: int) -> list[list[T]]:
    """Return a batch in `n_parts` parts, some perhaps empty; sizes differ by at most one."""
    bounds = [len(batch) * part // n_parts for part in range(n_parts + 1)]
    return [list(batch[a:b]) for a, b in pairwise(bounds)]


@lru_cache(maxsize=2)
def _order(n_units: int, seed: int, epoch: int) -> tuple[int, ...]:
    def rank(unit: int) -> bytes:
        return hashlib.sha256(f"{seed}\0{epoch}\0{unit}".encode()).digest()

    return tuple(sorted(range(n_units), key=rank))
