"""How an adapter is trained: every number, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from canopy_rag.core.errors import ConfigError, UnknownNameError

Kind = Literal["lora", "full", "map"]
Reduction = Literal["mean", "logsumexp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings of one training run. Defaults are the paper's (P10), else ours as said."""

    kind: Kind = "lora"
    """`lora`: low-rank adapters. `full`: all weights, for small encoders. `map`: a matrix on stored
    vectors. Paper: lora (P1)."""
    rank: int = 8
    """Of the adapter. Paper: 8 (P1)."""
    alpha: float = 16.0
    """The adapter counts alpha / rank. Paper: 16 (P1)."""
    dropout: float = 0.05
    """Of the adapter's input. Paper: 0.05 (P1)."""
    learning_rate: float = 5e-5
    """Of AdamW. Paper: 5e-5 (P10)."""
    weight_decay: float = 0.01
    """Of AdamW, towards zero; for a map towards the identity. Ours: the paper is silent, this is
    AdamW's usual value."""
    batch: int = 16
    """Units of a step. Paper: 16 instances (P10)."""
    unit: Literal["instance", "item"] = "instance"
    """What a batch counts: single decisions, or a question with one of its gold items and all
    decisions there. Paper: instances (P10)."""
    accumulate: int = 1
    """Parts that a step's batch is computed in; the step is the same, its memory less. Ours."""
    epochs: int = 2
    """Passes over the instances. Paper: 2 (P10)."""
    scale: float = 20.0
    """Lambda of the loss. Paper: 20 (P10)."""
    reduction: Reduction = "mean"
    """How the pairs of an instance become its loss: see `loss` (D4). Ours: the paper's equation is
    not available to us."""
    across: float = 0.0
    """Weight of a second term, which keeps items comparable (D12): gold leaves against
    all other leaves of the batch, gold items against its other items. 0: none, as in the paper.
    Ours."""
    neighbours: int = 1
    """Questions whose items are alike for the frozen encoder stand together in a batch, in groups
    of so many: what `across` tells apart is then hard to tell apart. Ours."""
    lexical: bool = False
    """Learn, with an adapter of a trunk read late, how much it counts that a question's words stand
    in a node (D3). Ours."""
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """Of the learning rate, after the warm-up. Ours: the paper is silent."""
    warmup: float = 0.03
    """Share of the steps in which the learning rate rises. Ours: the paper is silent."""
    clip: float = 1.0
    """Largest norm of a step's gradient. Ours: the paper is silent."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """`bf16`: matrix products in bfloat16, weights and loss in float32. Ours."""
    recompute: bool = False
    """Compute inner states again in the backward pass instead of keeping them: less memory, a third
    more time. For Qwen3-VL. Ours."""
    evaluate_every: int | None = None
    """Steps between two looks at the validation part; unset: after each epoch. Ours."""
    patience: int | None = None
    """Looks without a better decision accuracy before training ends; unset: never. Ours."""
    keep: Literal["best", "last"] = "best"
    """Which state becomes the adapter, if there is a validation part. Ours: the paper has none."""
    checkpoint_every: int = 50
    """Steps between two checkpoints. Ours."""
    max_item_tokens: int | None = None
    """Gold items with more tokens are left out of training, and counted; unset: none is. Ours."""
    sides: Literal["query", "both"] = "query"
    """What a map changes: the query alone, so that nothing is encoded again, or nodes too. Ours."""
    seed: int = 0
    """Of the order of the instances, of the adapter's first values and of dropout."""

    def __post_init__(self) -> None:
        for name in ("rank", "batch", "accumulate", "epochs", "checkpoint_every", "neighbours"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("evaluate_every", "patience", "max_item_tokens"):
            value = getattr(self, name)
            _check(name, value, value is None or value >= 1, "at least 1")
        for name in ("learning_rate", "scale", "clip", "alpha"):
            value = getattr(self, name)
            _check(name, value, math.isfinite(value) and value > 0, "a number above 0")
        for name in ("dropout", "warmup", "weight_decay"):
            value = getattr(self, name)
            _check(name, value, 0 <= value < 1, "from 0 to below 1")
        _check("across", self.across, math.isfinite(self.across) and self.across >= 0, "0 or more")
        choices = {
            "kind": ("lora", "full", "map"),
            "unit": ("instance", "item"),
            "reduction": ("mean", "logsumexp"),
            "schedule": ("constant", "linear", "cosine"),
            "precision": ("fp32", "bf16"),
            "keep": ("best", "last"),
            "sides": ("query", "both"),
        }
        for name, known in choices.items():
            _check(name, getattr(self, name), getattr(self, name) in known, f"one of {known}")
        self._check_together()

    def _check_together(self) -> None:
        if self.kind == "map" and (self.across or self.lexical or self.neighbours > 1):
            raise ConfigError(
                "training: across, neighbours and lexical are for a trunk that is trained; a map "
                "has none of them (kind lora)"
            )
        if self.lexical and self.kind != "lora":
            raise ConfigError(
                "training: the lexical term is part of an adapter (kind lora); whole weights have "
                "no place for it, turn it off (--no-lexical)"
            )
        if (self.across or self.neighbours > 1) and self.unit != "item":
            raise ConfigError(
                "training: across and neighbours need batches that count items (unit 'item'), as "
                "in the preset minilm"
            )
        if self.across and self.accumulate > 1:
            raise ConfigError(
                "training: across compares all items of a batch with each other, so the batch "
                "cannot be computed in parts; accumulate 1, and a smaller batch if memory is short"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _check(name: str, value: Any, good: bool, allowed: str) -> None:
    if not good:
        raise ConfigError(f"training: {name} must be {allowed}, got {value!r}")


PAPER = Recipe()
"""P1 and P10."""

MINILM = Recipe(
    rank=32,
    alpha=64.0,
    dropout=0.0,
    learning_rate=1e-3,
    weight_decay=0.0,
    batch=16,
    unit="item",
    epochs=3,
    across=0.5,
    neighbours=4,
    lexical=True,
    warmup=0.05,
    precision="bf16",
    max_item_tokens=2500,
)
"""For a trunk of 22 million weights read late: one network that finds items and compares nodes
(D12), with a lexical term. Every number was chosen on validation parts."""

MAP = Recipe(
    kind="map",
    learning_rate=1e-3,
    weight_decay=0.0,
    batch=64,
    unit="item",
    epochs=60,
    schedule="constant",
    warmup=0.0,
    patience=10,
)
"""For a matrix on stored vectors, in seconds."""

PRESETS = {"paper": PAPER, "minilm": MINILM, "map": MAP}


def preset(name: str) -> Recipe:
    """Return a named recipe.

    Raises:
        UnknownNameError: If there is none, with the nearest one.

    >>> preset("paper").rank
    8
    """
    if name not in PRESETS:
        raise UnknownNameError("recipe", name, PRESETS)
    return PRESETS[name]
