"""The seam between the training loop and the models that it can train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

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


def trained(trainable: Trainable) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that are trained, with their names."""
    for name, parameter in trainable.module.named_parameters():
        if parameter.requires_grad:
            yield name, parameter
