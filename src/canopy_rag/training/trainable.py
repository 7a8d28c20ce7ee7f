"""The seam between the training loop and the models that it can train."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from canopy_rag.core.types import Item
from canopy_rag.training.data import Example


class Trainable(Protocol):
    """A node encoder as a torch module; only parameters that ask for gradients are trained."""

    @property
    def base(self) -> Mapping[str, str]:
        """`model` and `revision` of the frozen encoder that the adapter belongs to."""
        ...

    @property
    def mode(self) -> Literal["late", "node"]:
        """How its nodes are read."""
        ...

    @property
    def module(self) -> Any:
        """The torch module."""
        ...

    def similarities(self, batch: Sequence[Example]) -> list[Any]:
        """Return for each example the similarities of its `nodes`, a float32 tensor each.

        Raises:
            EncodeError: Naming the item that cannot be read.
        """
        ...

    def count_tokens(self, item: Item) -> int:
        """Return about how many tokens an item has."""
        ...

    def write(self, folder: Path) -> None:
        """Write what was trained into a folder that exists."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """Each example of a batch against all nodes of all its items."""

    items: tuple[Item, ...]
    """Each once; their nodes stand one after the other."""
    cosines: Any
    """`(n_examples, n_nodes)`, float32: by vectors alone, as items are retrieved."""
    similarities: Any
    """`(n_examples, n_nodes)`, float32: as nodes are compared, with a lexical term if any."""


@runtime_checkable
class Trunk(Trainable, Protocol):
    """A trainable that reads whole items, so that all of a batch can be compared at once."""

    @property
    def lexical_weight(self) -> float | None:
        """What the lexical term weighs; None: there is none."""
        ...

    def vectors_alone(self) -> AbstractContextManager[None]:
        """Leave the lexical term out for a while, as the encoder without an adapter does."""
        ...

    def count_words(self, items: Iterable[Item]) -> None:
        """Count how rare tokens are, for the lexical term."""
        ...

    def compare(self, batch: Sequence[Example]) -> Compared:
        """Compare each example's question with all nodes of all items of a batch."""
        ...


def trained(trainable: Trainable) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that are trained, with their names."""
    for name, parameter in trainable.module.named_parameters():
        if parameter.requires_grad:
            yield name, parameter
