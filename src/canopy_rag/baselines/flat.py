"""Flat leaf selection (P14): of each retrieved item the `m` leaves most similar to the query.

The rest of the pipeline is unchanged: rounds, critic, aggregate questions, cap. So it is the loop
with another way to select. The paper sweeps m in 1, 5, 10, 20; it compares with the frozen encoder
(`encoder=f0`) in its Section 4.3 and with the fine-tuned one in its Figure 7.

Differences from the paper:

- An item is never written longer than it is whole: where elision marks outweigh what is left out,
  it is shown whole (D9).
- A leaf without words (an empty row) can be among the `m`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from canopy_rag.baselines import _selectors
from canopy_rag.baselines.base import (
    LoopMethod,
    Method,
    Parts,
    Spec,
    refined_always,
    with_rounds,
)
from canopy_rag.config.values import Least
from canopy_rag.pipeline.route import ModalityRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSettings:
    """How many leaves, and what chooses them."""

    m: Annotated[int, Least(1)] = 5
    """Most leaves of an item."""
    encoder: Literal["f_theta", "f0"] = "f_theta"
    """Compares leaves: the fine-tuned or the frozen one."""
    rounds: Annotated[int, Least(1)] | None = None
    """Most rounds; unset: as configured."""
    routed: bool = False
    """Let the chat model route every query."""


def build(name: str, parts: Parts, settings: FlatSettings) -> Method:
    """Return the method.

    Raises:
        ConfigError: If the frozen encoder or the chat model is wanted and missing.
    """
    loop = with_rounds(refined_always(parts.loop), settings.rounds)
    return LoopMethod(
        name=name,
        loop=replace(
            loop,
            retriever=parts.retriever(name, settings.encoder),
            router=ModalityRouter(llm=parts.chat(name)) if settings.routed else None,
            selector=_selectors.flat(settings.m),
        ),
    )


SPECS = (
    Spec(
        name="flat",
        summary="canopy with the m best leaves of each item in the place of refinement",
        module=__name__,
        build=build,
        settings=FlatSettings,
    ),
)
