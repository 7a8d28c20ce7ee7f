"""The steps of training, by any `Trainable`: resumable, and the same however often it was killed.

A step depends on the weights, the optimizer's state, the seed and its number alone. So a run that
is resumed from its checkpoint goes on exactly as if nothing had happened (on the same device, with
the same number of threads).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, ModelError
from canopy_rag.training.batches import Likeness, n_steps, split_evenly, step_batch, units
from canopy_rag.training.data import N_NAMED, Example, Portion
from canopy_rag.training.folder import Checkpoint
from canopy_rag.training.judge import Judged
from canopy_rag.training.objective import losses, part_names
from canopy_rag.training.processes import Processes
from canopy_rag.training.recipe import Recipe
from canopy_rag.training.trainable import Trainable, Trunk, trained

EVALUATION_BATCH = 16
"""Questions with an item each that are compared at once when decisions are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a training is."""

    step: int
    n_steps: int
    loss: float | None
    """What the last step made smaller."""
    accuracy: float | None
    """Decision accuracy on the validation part when it was last looked at."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the loss was put together from, by the names in `objective`."""


OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class State:
    """What a run has come to; saved as a whole."""

    step: int = 0
    seconds: float = 0.0
    before: dict[str, Any] | None = None
    """`Judged` of the frozen encoder, as plain values."""
    now: dict[str, Any] | None = None
    """And when it was last looked at."""
    n_worse: int = 0
    """Looks since the best one."""
    best: dict[str, Any] | None = None
    """`step`, `judged` and the tensors of that step."""
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """How a training ended; the trainable holds the weights."""

    n_steps: int
    kept_step: int
    """Whose weights were kept."""
    stopped_early: bool
    before: Judged | None
    """Decisions on the validation part, of the frozen encoder; None without that part."""
    after: Judged | None
    """And of what was kept."""
    loss: float | None
    """Mean of the last tenth of the steps."""
    parts: Mapping[str, float]
    """The same of the loss's parts."""
    seconds: float
    history: tuple[dict[str, Any], ...]
    """Step, loss and accuracy, wherever the validation part was looked at."""


def fit(
    trainable: Trainable,
    train: Portion,
    validation: Portion | None,
    recipe: Recipe,
    *,
    likeness: Likeness | None = None,
    checkpoint: Checkpoint | None = None,
    on_progress: OnProgress | None = None,
) -> Fitted:
    """Train until the steps are done or nothing gets better.

    Args:
        trainable: What is trained, in place.
        train: What from.
        validation: By which the best step is chosen; None or empty: the last is kept.
        recipe: How.
        likeness: Of the training examples, which neighbours in batches need.
        checkpoint: Where the state is saved, and found again; None: nowhere.
        on_progress: Called after every step.

    Raises:
        ConfigError: If the recipe asks for what this trainable, or several processes, cannot do.
        ModelError: If the loss or its gradient is not a number, naming the instances.
        EncodeError: Naming an item that cannot be read.
    """
    torch = require("torch", extra="train", feature="training")
    run = _Run(trainable, train, validation, recipe, likeness, checkpoint)
    devices = [run.processes.device] if run.processes.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        return run.finish(on_progress)


class _Run:
    def __init__(
        self,
        trainable: Trainable,
        train: Portion,
        validation: Portion | None,
        recipe: Recipe,
        likeness: Likeness | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._torch = require("torch", extra="train", feature="training")
        self.processes = Processes()
        self._trainable = trainable
        trainable.module.to(self.processes.device)
        self._recipe = recipe
        if recipe.across and self.processes.count > 1:
            raise ConfigError(
                "training: across compares all items of a batch with each other, which several "
                "processes cannot share; start one process"
            )
        if recipe.neighbours > 1 and likeness is None:
            raise ValueError("neighbours > 1 needs the likeness of the examples")
        if isinstance(trainable, Trunk):
            trainable.count_words({each.item.id: each.item for each in train.examples}.values())
        self._units = units(train.examples, recipe)
        self._likeness = likeness if recipe.neighbours > 1 else None
        judged = validation.examples if validation is not None else ()
        # Side by side, an item with several questions is read once, and few tokens are padding.
        self._validation = sorted(judged, key=lambda each: (len(each.item.nodes), each.item.id))
        self._n_steps = n_steps(len(self._units), recipe)
        self._parameters = dict(trained(trainable))
        self._optimizer = self._torch.optim.AdamW(
            [
                {"params": [each for each in self._parameters.values() if each.ndim]},
                # A single number is no matrix: the lexical term's weight is not drawn to zero.
                {
                    "params": [each for each in self._parameters.values() if not each.ndim],
                    "weight_decay": 0.0,
                },
            ],
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
        )
        self._checkpoint = checkpoint
        self._state = self._loaded()

    def finish(self, on_progress: OnProgress | None) -> Fitted:
        """Take the steps that are left."""
        state, recipe = self._state, self._recipe
        if state.before is None and self._validation:
            frozen = self._trainable
            with frozen.vectors_alone() if isinstance(frozen, Trunk) else nullcontext():
                state.before = state.now = asdict(self._judged())
        per_epoch = -(-len(self._units) // recipe.batch)
        every = recipe.evaluate_every or per_epoch
        while state.step < self._n_steps and not self._is_over():
            began = time.perf_counter()
            loss, parts = self._step(state.step)
            state.step += 1
            state.history.append({"step": state.step, "loss": loss, "parts": parts})
            looks = state.step % every == 0 or state.step == self._n_steps
            if looks and self._validation:
                self._look()
            state.seconds += time.perf_counter() - began
            if looks or state.step % recipe.checkpoint_every == 0:
                self._save()
            if on_progress is not None and self.processes.is_first:
                on_progress(
                    Progress(
                        step=state.step,
                        n_steps=self._n_steps,
                        loss=loss,
                        accuracy=None if state.now is None else Judged(**state.now).accuracy,
                        parts=parts,
                    )
                )
        return self._fitted()

    def _is_over(self) -> bool:
        patience = self._recipe.patience
        return patience is not None and self._state.n_worse >= patience

    def _step(self, step: int) -> tuple[float, dict[str, float]]:
        """Take one step and return its loss, and the parts of it."""
        torch, recipe = self._torch, self._recipe
        batch = step_batch(self._units, recipe, step, self._likeness)
        n_instances = sum(len(each.instances) for each in batch)
        torch.manual_seed(_seed(recipe.seed, step, self.processes.rank))
        self._trainable.module.train()
        self._optimizer.zero_grad(set_to_none=True)
        mine = split_evenly(batch, self.processes.count)[self.processes.rank]
        total, parts = 0.0, dict.fromkeys(part_names(recipe), 0.0)
        for some in split_evenly(mine, recipe.accumulate):
            if some:
                found = losses(self._trainable, some, recipe)
                if bad := found.bad(some):
                    raise self._not_a_number("loss", step, bad)
                loss, own = found.total(n_instances, recipe.across)
                loss.backward()
                total += float(loss.detach())
                parts = {name: parts[name] + own[name] for name in parts}
        self._take(batch, step)
        summed = {name: self.processes.sum(part) for name, part in parts.items()}
        return self.processes.sum(total), summed

    def _take(self, batch: Sequence[Example], step: int) -> None:
        """Add the gradients of all processes up, clip them, and move."""
        torch = self._torch
        parameters = list(self._parameters.values())
        self.processes.sum_gradients(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._recipe.clip)
        if not math.isfinite(float(norm)):
            raise self._not_a_number("gradient", step, batch)
        for group in self._optimizer.param_groups:
            group["lr"] = self._recipe.learning_rate * factor(self._recipe, step, self._n_steps)
        self._optimizer.step()

    def _not_a_number(self, what: str, step: int, examples: Sequence[Example]) -> ModelError:
        names = list(dict.fromkeys(each.name for each in examples))
        shown = "; ".join(names[:N_NAMED])
        more = f"; and {len(names) - N_NAMED:,} more" if len(names) > N_NAMED else ""
        return ModelError(
            f"the {what} of step {step + 1} is not a number, at {shown}{more}. No adapter was "
            "written; try a lower learning rate or fp32, and look at these items"
        )

    def _look(self) -> None:
        """Judge the validation part, and keep the weights if they are the best so far."""
        state = self._state
        judged = self._judged()
        state.now = asdict(judged)
        state.history[-1] |= {
            "accuracy": judged.accuracy,
            "accuracy_by_benchmark": judged.by_benchmark,
        }
        if state.best is None or judged.accuracy > Judged(**state.best["judged"]).accuracy:
            state.best = {"step": state.step, "judged": state.now, "tensors": self._tensors()}
            state.n_worse = 0
        else:
            state.n_worse += 1

    def _judged(self) -> Judged:
        """Count the validation part's decisions that are right (P11)."""
        torch = self._torch
        mine = self._validation[self.processes.rank :: self.processes.count]
        self._trainable.module.eval()
        found = Judged()
        enabled = self._recipe.precision == "bf16"
        device = self.processes.device.type
        for start in range(0, len(mine), EVALUATION_BATCH):
            batch = mine[start : start + EVALUATION_BATCH]
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=enabled):
                similarities = self._trainable.similarities(batch)
            for example, values in zip(batch, similarities, strict=True):
                found.add(example, values.float().tolist())
        names = sorted({each.benchmark for each in self._validation})
        return found.together(names, self.processes.sum)

    def _fitted(self) -> Fitted:
        state = self._state
        kept, after = state.step, state.now if self._validation else None
        if self._recipe.keep == "best" and state.best is not None:
            self._put(state.best["tensors"])
            kept, after = state.best["step"], state.best["judged"]
        self._trainable.module.eval()
        last = state.history[-max(1, len(state.history) // 10) :]
        return Fitted(
            n_steps=state.step,
            kept_step=kept,
            stopped_early=state.step < self._n_steps,
            before=None if state.before is None else Judged(**state.before),
            after=None if after is None else Judged(**after),
            loss=sum(each["loss"] for each in last) / len(last) if last else None,
            parts={
                name: sum(each["parts"][name] for each in last) / len(last)
                for name in part_names(self._recipe)
                if last
            },
            seconds=state.seconds,
            history=tuple(each for each in state.history if "accuracy" in each),
        )

    def _tensors(self) -> dict[str, Any]:
        return {
            name: parameter.detach().cpu().clone() for name, parameter in self._parameters.items()
        }

    def _put(self, tensors: dict[str, Any]) -> None:
        with self._torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(tensors[name])

    def _save(self) -> None:
        if self._checkpoint is None or not self.processes.is_first:
            return
        state = self._state
        self._checkpoint.save(
            {
                "tensors": self._tensors(),
                "optimizer": self._optimizer.state_dict(),
                **{name: getattr(state, name) for name in State.__slots__},
            }
        )

    def _loaded(self) -> State:
        saved = None if self._checkpoint is None else self._checkpoint.load()
        if saved is None:
            return State()
        self._put(saved["tensors"])
        self._optimizer.load_state_dict(saved["optimizer"])
        return State(**{name: saved[name] for name in State.__slots__})


def factor(recipe: Recipe, step: int, n_steps: int) -> float:
    """Return by what the learning rate of a step, counted from 0, is multiplied.

    >>> recipe = Recipe(schedule="linear", warmup=0.2)
    >>> [round(factor(recipe, step, 10), 3) for step in range(10)]
    [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    n_warm = math.ceil(recipe.warmup * n_steps)
    if step < n_warm:
        return (step + 1) / n_warm
    left = 1 - (step - n_warm) / max(1, n_steps - n_warm)
    if recipe.schedule == "linear":
        return left
    return (1 - math.cos(math.pi * left)) / 2 if recipe.schedule == "cosine" else 1.0


def _seed(seed: int, step: int, rank: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{step}\0{rank}".encode()).digest()[:4], "big")
