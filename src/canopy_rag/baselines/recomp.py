"""RECOMP, extractive: the `n` sentences of all retrieved items that are most similar to the query.

One round, one call. The sentences of all items are ranked in one list, the best `n` are shown in
the order of the documents. A table row, with its header above, is a sentence (P15).

Differences from the original (Xu et al., 2024, github.com/carriex/recomp):

- Sentences are compared by the shared frozen encoder's cosine, as all methods here share one
  encoder; the original trained a Contriever of 110M parameters on each data set, with raw dot
  products.
- The original takes the top 5 documents, 1 sentence for NQ and 2 for HotpotQA; here the k items
  that every method gets, and `n` is a parameter (2; sweep 1, 2, 5, 10, 20).
- Documents in rank order and sentences in the order of the document, as FlashRAG does; BERGEN and
  EXIT order by similarity, and BERGEN chooses in each document.
- Images and videos, for which RECOMP has no rule, are shown whole.
- Elision marks stand where sentences are left out. An item is never written longer than it is
  whole (D9).
- Its abstractive variant, a T5 per data set that rewrites, is not here: it is not verbatim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from canopy_rag.baselines._selectors import pooled
from canopy_rag.baselines.base import LoopMethod, Method, Parts, Spec, one_round, refined_always
from canopy_rag.config.values import Least


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompSettings:
    """How many sentences, and what chooses them."""

    n: Annotated[int, Least(1)] = 2
    """Most sentences of all items together."""
    encoder: Literal["f0", "f_theta"] = "f0"
    """Compares sentences: the frozen or the fine-tuned one."""


def build(name: str, parts: Parts, settings: RecompSettings) -> Method:
    """Return the method.

    Raises:
        ConfigError: If the frozen encoder is wanted and missing.
    """
    loop = one_round(refined_always(parts.loop))
    retriever = parts.retriever(name, settings.encoder)
    return LoopMethod(
        name=name, loop=replace(loop, retriever=retriever, selector=pooled(settings.n))
    )


SPECS = (
    Spec(
        name="recomp",
        summary="one round, the n best sentences of all items, one call",
        module=__name__,
        build=build,
        settings=RecompSettings,
    ),
)
