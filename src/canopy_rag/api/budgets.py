"""The default budget, and evidence held to it."""

from __future__ import annotations

from dataclasses import replace

from canopy_rag.config import SelectConfig
from canopy_rag.core.budget import fit
from canopy_rag.core.evidence import Evidence
from canopy_rag.pipeline.reader import MAX_BUDGET


def with_budget(selection: SelectConfig) -> SelectConfig:
    """Return the settings with the default budget where none is set (D13)."""
    return selection if selection.budget is not None else replace(selection, budget=MAX_BUDGET)


def fitted(evidence: Evidence, selection: SelectConfig) -> Evidence:
    """Return the evidence within the settings' budget."""
    return fit(evidence, selection.budget, selection.cap)
