"""The network of Qwen3-VL: loaded once, asked with its adapter on (f_theta) or off (f0)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, ModelError
from canopy_rag.encoders.placement import Placement, device_of, loading_options
from canopy_rag.encoders.qwen3_inputs import EXTRA, FEATURE

MODEL_TYPE = "qwen3_vl"
LANGUAGE_PROJECTIONS = (
    r".*language_model\.layers\.\d+\.(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)"
)
"""What the paper's adapter may change (P1); the vision tower is not in it."""
WHOLE = r"^model\."
"""Before the names in an adapter of the model with its language head, as servers have it."""


def load_config(folder: Path) -> Any:
    """Return the configuration of a checkpoint.

    Raises:
        ConfigError: If it is not of this architecture.
    """
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    try:
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"encoder model {str(folder)!r}: no usable config.json: {error}"
        ) from error
    if config.model_type != MODEL_TYPE:
        raise ConfigError(
            f"encoder model {str(folder)!r} is of the type {config.model_type!r}; qwen3-vl reads "
            f"{MODEL_TYPE!r} alone. For another model use hf:<model>"
        )
    return config


def load_model(folder: Path, placement: Placement) -> Any:
    """Return the network without a language head, in evaluation mode.

    Raises:
        ConfigError: If the weights are incomplete or of another shape: the library would fill
            gaps with random numbers.
        ModelError: If they cannot be read or do not fit the device.
    """
    torch = require("torch", extra=EXTRA, feature=FEATURE)
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    try:
        model, report = transformers.Qwen3VLModel.from_pretrained(
            str(folder),
            output_loading_info=True,
            local_files_only=True,
            **loading_options(torch, placement),
        )
        if placement.device_map is None:
            model.to(device_of(torch, placement))
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise ModelError(f"encoder model {str(folder)!r} cannot be loaded: {error}") from error
    gaps = [*report["missing_keys"], *report["mismatched_keys"]]
    if gaps:
        raise ConfigError(
            f"encoder model {str(folder)!r}: {len(gaps)} tensors are missing or of another shape, "
            f"such as {gaps[0]}; its files are incomplete or of another model"
        )
    return model.eval()


def with_adapter(model: Any, folder: Path) -> Any:
    """Return the network with a LoRA adapter that can be switched off.

    Raises:
        ConfigError: If the adapter does not fit the network, or changes its vision tower.
    """
    peft = require("peft", extra=EXTRA, feature=f"{FEATURE} with an adapter")
    try:
        config = peft.PeftConfig.from_pretrained(str(folder))
        config.inference_mode = True
        with warnings.catch_warnings():
            # peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            adapted = peft.PeftModel(model, config)
            report = adapted.load_adapter(
                str(folder), "default", is_trainable=False, key_mapping={WHOLE: ""}
            )
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"adapter {str(folder)!r} does not fit its base: {error}") from error
    names = [name for name, _ in adapted.named_parameters() if "lora_" in name]
    if any(".visual." in name for name in names):
        raise ConfigError(
            f"adapter {str(folder)!r} changes the vision tower; one for the language model alone "
            "is needed"
        )
    gaps = [*report.missing_keys, *report.unexpected_keys]
    if gaps or not names:
        raise ConfigError(
            f"adapter {str(folder)!r}: {len(gaps)} tensors do not belong to the base, such as "
            f"{gaps[0] if gaps else 'all'}; it was trained for another model"
        )
    return adapted.eval()


def pooled(model: Any, batch: Mapping[str, Any]) -> Any:
    """Return the last token's state of each sequence, `(n, hidden)`, float32, not normalised.

    Gradients flow through it.

    Args:
        model: As `load_model` or `with_adapter` return it.
        batch: Tensors by the names of `Inputs.batch`, on the model's device.
    """
    states = model(**batch, use_cache=False).last_hidden_state
    last = batch["attention_mask"].sum(dim=1) - 1
    rows = last.new_tensor(range(len(last)))
    return states[rows, last.to(states.device)].float()


def to_tensors(model: Any, batch: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return a batch as tensors where the model reads them."""
    torch = require("torch", extra=EXTRA, feature=FEATURE)
    device = model.get_input_embeddings().weight.device
    return {name: torch.from_numpy(array).to(device) for name, array in batch.items()}


class Network:
    """One model in memory for both encoders.

    Args:
        folder: Of the checkpoint.
        adapter: Folder with a LoRA adapter; None: f_theta is f0.
        placement: Where and how it computes.

    Raises:
        ConfigError: As `load_model` and `with_adapter`.
        ModelError: As `load_model`.
    """

    def __init__(self, folder: Path, adapter: Path | None, placement: Placement) -> None:
        self._torch = require("torch", extra=EXTRA, feature=FEATURE)
        self._model = load_model(folder, placement)
        self._adapted = adapter is not None
        if adapter is not None:
            self._model = with_adapter(self._model, adapter)

    @property
    def on_gpu(self) -> bool:
        """Whether it reads its input on a GPU."""
        return bool(self._model.get_input_embeddings().weight.device.type != "cpu")

    def states(self, batch: Mapping[str, NDArray[Any]], *, adapted: bool) -> NDArray[np.float32]:
        """Return the pooled states of a batch, `(n, hidden)`, not normalised.

        Not for two threads at once: the adapter is switched for the whole model.

        Args:
            batch: From `Inputs.batch`.
            adapted: With the adapter (f_theta) or without (f0).
        """
        off = self._adapted and not adapted
        switch = self._model.disable_adapter() if off else contextlib.nullcontext()
        with self._torch.inference_mode(), switch:
            found = pooled(self._model, to_tensors(self._model, batch))
        return np.asarray(found.cpu().numpy(), np.float32)
