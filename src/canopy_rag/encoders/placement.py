"""Where and how a torch model computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Dtype = Literal["auto", "bf16", "fp16", "fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Device, number format and attention of a model."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, `mps`; `auto`: the first GPU, else the CPU."""
    device_map: str | None = None
    """`auto` or another of accelerate's maps, to spread a large model; then `device` is unused."""
    dtype: Dtype = "auto"
    """`auto`: bf16 on a GPU that has it, fp16 on another, fp32 on a CPU."""
    attention: str | None = None
    """Such as `sdpa` or `flash_attention_2`; None: what the library takes."""


def device_of(torch: Any, placement: Placement) -> str:
    """Return the name of the device."""
    if placement.device != "auto":
        return placement.device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def loading_options(torch: Any, placement: Placement) -> dict[str, Any]:
    """Return the arguments of transformers' `from_pretrained`."""
    options: dict[str, Any] = {"dtype": _dtype(torch, placement)}
    if placement.device_map is not None:
        options["device_map"] = placement.device_map
    if placement.attention is not None:
        options["attn_implementation"] = placement.attention
    return options


def _dtype(torch: Any, placement: Placement) -> Any:
    named = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    if placement.dtype != "auto":
        return named[placement.dtype]
    device = device_of(torch, placement)
    if device == "cpu":
        return torch.float32
    if device.startswith("cuda") and torch.cuda.is_bf16_supported():
        return torch.bfloat16
    return torch.float16
