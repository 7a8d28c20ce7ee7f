"""LlamaIndex's `SentenceEmbeddingOptimizer`: of each item the half of its sentences nearest to it.

A peer, not a method of the paper: what people put behind a retriever today. One round, one call.
The class of `llama_index.core.postprocessor` itself runs, with a percentile of 0.5 and its default
window of one sentence before and after each.

Differences from its use in LlamaIndex:

- The sentences are our leaves: sentences, and rows with their column names; there NLTK splits.
- The shared encoder embeds query and sentences, at the time of the query as there. That time is the
  stage `compress`, and its share of the latency.
- Each sentence is shown once, in the order of the document, with elision marks. The class itself
  joins its windows by similarity, so that sentences come in another order and, where windows
  overlap, several times.
- Images and videos, which it does not know, are shown whole. An item is never written longer than
  it is whole (D9).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from canopy_rag._optional import require
from canopy_rag.baselines._embedding import embed_query, embed_texts, sentences
from canopy_rag.baselines._selectors import WHOLE, Similarities, has_sentences, kept_leaves
from canopy_rag.baselines.base import LoopMethod, Method, Parts, Spec, one_round, refined_always
from canopy_rag.config.values import Above, Least
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.refine import Refinement
from canopy_rag.core.types import Item
from canopy_rag.pipeline.clock import inner_stage

EXTRA = "peers"
FEATURE = "the method `llamaindex-sentence-optimizer`"
_MARK = re.compile("\x00(\\d+)\x00")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """How much the optimizer keeps."""

    percentile: Annotated[float, Above(0)] = 0.5
    """Share of an item's sentences that are looked for."""
    before: Annotated[int, Least(0)] = 1
    """Sentences kept before each."""
    after: Annotated[int, Least(0)] = 1
    """Sentences kept after each."""


class SentenceOptimizer:
    """Selects by LlamaIndex's optimizer.

    Args:
        encoder: Embeds query and sentences.
        settings: Of the optimizer.

    Raises:
        MissingDependencyError: If LlamaIndex is not installed.
    """

    def __init__(self, encoder: Encoder, settings: OptimizerSettings) -> None:
        module = require("llama_index.core.postprocessor", extra=EXTRA, feature=FEATURE)
        self._optimizer: Any = module.SentenceEmbeddingOptimizer
        self._schema: Any = require("llama_index.core.schema", extra=EXTRA, feature=FEATURE)
        self._embedding = _embedding(encoder)
        self._settings = settings

    def __call__(
        self, query: str, items: Sequence[Item], similarities: Similarities
    ) -> list[Refinement]:
        """Return the sentences that the optimizer leaves of each item."""
        listed = [sentences(item) if has_sentences(item) else [] for item in items]
        with inner_stage("compress"):
            kept = self._kept(query, [[text for _, text in each] for each in listed])
        return [
            kept_leaves(item, [own[number][0] for number in numbers]) if own else WHOLE
            for item, own, numbers in zip(items, listed, kept, strict=True)
        ]

    def _kept(self, query: str, texts: list[list[str]]) -> list[list[int]]:
        """Return the numbers of the sentences that stay of each list.

        The class gives back text alone, so each sentence carries its number through it.
        """
        schema, settings = self._schema, self._settings
        optimizer = self._optimizer(
            embed_model=self._embedding,
            percentile_cutoff=settings.percentile,
            tokenizer_fn=lambda place: [
                f"\x00{number}\x00{text}" for number, text in enumerate(texts[int(place)])
            ],
            context_before=settings.before,
            context_after=settings.after,
        )
        nodes = [
            schema.NodeWithScore(node=schema.TextNode(text=str(place)))
            for place, own in enumerate(texts)
            if own
        ]
        places = [place for place, own in enumerate(texts) if own]
        left = optimizer.postprocess_nodes(nodes, schema.QueryBundle(query_str=query))
        kept: list[list[int]] = [[] for _ in texts]
        for place, each in zip(places, left, strict=True):
            numbers = map(int, _MARK.findall(each.node.get_content()))
            kept[place] = sorted(set(numbers))
        return kept


def _embedding(encoder: Encoder) -> Any:
    """Return the shared encoder as an embedding of LlamaIndex."""
    base = require("llama_index.core.base.embeddings.base", extra=EXTRA, feature=FEATURE)

    async def aquery(_: Any, query: str) -> list[float]:
        return embed_query(encoder, query)

    def plain(texts: list[str]) -> list[str]:
        return [_MARK.sub("", text) for text in texts]

    shared: Any = type(
        "SharedEncoder",
        (base.BaseEmbedding,),
        {
            "__module__": __name__,
            "_get_query_embedding": lambda _, query: embed_query(encoder, query),
            "_aget_query_embedding": aquery,
            "_get_text_embedding": lambda _, text: embed_texts(encoder, plain([text]))[0],
            "_get_text_embeddings": lambda _, texts: embed_texts(encoder, plain(texts)),
        },
    )
    return shared()


def build(name: str, parts: Parts, settings: OptimizerSettings) -> Method:
    """Return the method.

    Raises:
        MissingDependencyError: If LlamaIndex is not installed.
    """
    loop = one_round(refined_always(parts.loop))
    selector = SentenceOptimizer(loop.retriever.encoder, settings)
    return LoopMethod(name=name, loop=replace(loop, selector=selector))


SPECS = (
    Spec(
        name="llamaindex-sentence-optimizer",
        summary="one round, cut by LlamaIndex's SentenceEmbeddingOptimizer",
        module=__name__,
        build=build,
        settings=OptimizerSettings,
        packages=("llama_index",),
    ),
)
