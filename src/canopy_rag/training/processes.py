"""One process or several: `accelerate launch` starts them, one for each GPU.

The model is small enough for every device, and what is trained is smaller still; so each process
computes its share of a batch and the gradients are added up. Nothing is wrapped, and a step is the
same whatever the number of processes, but for rounding.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError


def is_first_process() -> bool:
    """Return whether this process reports; known before anything is loaded."""
    return os.environ.get("RANK", "0") == "0"


class Processes:
    """The processes of this run, and what this one is among them."""

    def __init__(self) -> None:
        self._torch = require("torch", extra="train", feature="training")
        self._accelerate: Any = None
        self.rank: int = 0
        self.count: int = 1
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self._accelerate = require("accelerate", extra="train", feature="several processes")
            place = self._accelerate.PartialState(cpu=not self._torch.cuda.is_available())
            self.rank, self.count = place.process_index, place.num_processes
            self.device = place.device
            return
        self.device = self._torch.device("cuda" if self._torch.cuda.is_available() else "cpu")

    @property
    def is_first(self) -> bool:
        """Whether this one writes and reports."""
        return self.rank == 0

    def sum(self, value: float) -> float:
        """Return the sum of a number over the processes."""
        if self._accelerate is None:
            return float(value)
        tensor = self._torch.tensor([value], dtype=self._torch.float32, device=self.device)
        return float(self._accelerate.utils.reduce(tensor, "sum"))

    def sum_gradients(self, parameters: Sequence[Any]) -> None:
        """Replace each gradient by its sum over the processes.

        Raises:
            ConfigError: If nothing is trained.
        """
        if not parameters:
            raise ConfigError("training: no weight of the model asks for gradients")
        if self._accelerate is None:
            return
        for parameter in parameters:
            if parameter.grad is None:  # a process without a share of the batch
                parameter.grad = self._torch.zeros_like(parameter)
            parameter.grad.copy_(self._accelerate.utils.reduce(parameter.grad, "sum"))
