"""Decision instances to adapters: LoRA, whole small encoders, and maps on stored vectors."""

from __future__ import annotations

from canopy_rag.training.recipe import MAP, MINILM, PAPER, Recipe, preset

__all__ = ["MAP", "MINILM", "PAPER", "Recipe", "preset"]
