"""Low-rank adapters by peft: put on, and written as peft's own files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.training.recipe import Recipe

FEATURE = "training"
CONFIG = "adapter_config.json"
TENSORS = "adapter_model.safetensors"
PREFIX = "base_model.model."
"""Before every name, as peft has it."""


def with_lora(module: Any, recipe: Recipe, targets: Sequence[str] | str) -> Any:
    """Return a model with a fresh adapter, whose first values depend on the seed alone.

    Args:
        module: The model; everything in it is frozen.
        recipe: Rank, alpha, dropout and seed.
        targets: Names of the linear layers that get one, or a regular expression over full names.
    """
    torch = require("torch", extra="train", feature=FEATURE)
    peft = require("peft", extra="train", feature=FEATURE)
    chosen = targets if isinstance(targets, str) else list(targets)
    config = peft.LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=chosen,
        task_type="FEATURE_EXTRACTION",
        inference_mode=False,
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        torch.manual_seed(recipe.seed)
        return peft.get_peft_model(module, config)


def write_lora(model: Any, folder: Path, *, inside: str = "") -> None:
    """Write an adapter as peft does, configuration and tensors; the same bytes each time.

    Args:
        model: With the adapter on it.
        folder: Where to.
        inside: Name of the model, with a dot, in the one that is to load the adapter.
    """
    peft = require("peft", extra="train", feature=FEATURE)
    tensors = peft.get_peft_model_state_dict(model)
    write_tensors(
        folder / TENSORS,
        {f"{PREFIX}{inside}{name.removeprefix(PREFIX)}": each for name, each in tensors.items()},
    )
    config = copy(model.peft_config["default"])
    config.inference_mode = True
    with TemporaryDirectory() as beside:
        config.save_pretrained(beside)
        settings = json.loads((Path(beside) / CONFIG).read_text(encoding="utf-8"))
    if isinstance(settings["target_modules"], list):
        settings["target_modules"].sort()  # a set, whose order differs from process to process
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors in float32 as safetensors."""
    safetensors = require("safetensors.torch", extra="train", feature=FEATURE)
    plain = {name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()}
    path.write_bytes(safetensors.save(plain, metadata={"format": "pt"}))


def assert_frozen(model: Any, part: str) -> None:
    """Check that nothing under a part's name is trained (P1: the vision tower).

    Raises:
        ConfigError: Naming the parameter that would be.
    """
    for name, parameter in model.named_parameters():
        if part in name.split(".") and parameter.requires_grad:
            raise ConfigError(
                f"training: the parameter {name!r} belongs to the frozen part {part!r}; "
                "let the adapter target the language backbone alone"
            )
