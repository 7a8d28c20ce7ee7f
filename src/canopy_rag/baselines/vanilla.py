"""Vanilla RAG: one round, the retrieved items whole in rank order, one call.

The loop with one round and without selection: no critic, no router, no classifier.

Differences from the paper:

- Beyond the cap, where the paper drops the latest retrieved (`cap = "tail"`), the first
  item that does not fit is cut between its leaves, so that a single long video does not leave the
  reader without evidence; the paper does not say what happens there.
"""

from __future__ import annotations

from canopy_rag.baselines.base import LoopMethod, Method, NoSettings, Parts, Spec, one_round


def build(name: str, parts: Parts, settings: NoSettings) -> Method:
    """Return the method."""
    return LoopMethod(name=name, loop=one_round(parts.loop))


SPECS = (
    Spec(
        name="vanilla",
        summary="one round, items whole, one call",
        module=__name__,
        build=build,
    ),
)
