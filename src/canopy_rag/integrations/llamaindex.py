"""LlamaIndex: `CanopyPostprocessor` for any retriever's nodes, `CanopyRetriever` over an index.

Docs: docs/integrations/llamaindex.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canopy_rag._optional import require

require("llama_index.core", extra="llamaindex", feature="the LlamaIndex integration")

from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)

from canopy_rag.api import Compressor, Index
from canopy_rag.core.budget import Cap
from canopy_rag.core.select import Select
from canopy_rag.core.types import ImagePayload, Modality
from canopy_rag.integrations._refining import KEY, Given, Refined, Refiner, make_compressor
from canopy_rag.integrations._retrieving import Retrieved, opened, retrieve
from canopy_rag.pipeline.factory import media_place

__all__ = ["CanopyPostprocessor", "CanopyRetriever"]


class CanopyPostprocessor(BaseNodePostprocessor):
    """Leaves of each retrieved node the part that the query needs.

    Ids, relationships, metadata, scores and order stay; the text becomes a part of the original or
    stays all of it. Rows of Markdown tables are never cut, and their header comes along. A node
    with a picture, sound or video passes whole. `metadata["canopy"]`, which neither model nor
    embedding sees, says what was kept and why: `spans` are half-open character intervals of the
    original text. If something fails, the original stays and `fallbacks` says what. A node that
    keeps nothing (over budget, or with `select="set"`) is left out, as LlamaIndex's own
    postprocessors do; never all of them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    compressor: Compressor | None = Field(default=None, exclude=True)
    """One of your own, instead of the settings below."""
    encoder: str | None = None
    """Encoder name; None: as configured (`minilm`)."""
    select: Select | None = None
    """`paper`, the default: every node keeps something. `set`: what stands out among all."""
    budget: int | None = None
    """Most tokens of the text of all nodes together; None: as configured, or 16,000."""
    cap: Cap | None = None
    """What goes first over budget: `margin` or `tail`."""
    min_tokens: int | None = None
    """Nodes that are no longer together stay whole; None: as configured (32)."""

    _refiner: Refiner = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings.

        Raises:
            ConfigError: If a setting cannot work, or both a compressor and settings are given.
        """
        super().model_post_init(context)
        own = make_compressor(
            self.compressor,
            encoder=self.encoder,
            select=self.select,
            budget=self.budget,
            cap=self.cap,
            min_tokens=self.min_tokens,
        )
        self._refiner = Refiner(own)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises it."""
        return "CanopyPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        texts = [at for at, each in enumerate(nodes) if _is_text(each.node)]
        given_at = set(texts)
        given = [_given(nodes[at].node) for at in texts]
        query = None if query_bundle is None else query_bundle.query_str
        shown = {texts[each.position]: each for each in self._refiner.refine(query, given)}
        kept: list[NodeWithScore] = []
        for at, node in enumerate(nodes):
            if at in shown:
                kept.append(_with_text(node, shown[at]))
            elif at not in given_at:
                kept.append(node)
        return kept

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)


class CanopyRetriever(BaseRetriever):
    """Finds items of a canopy index and shows the part of each that the query needs.

    One node an item, best first, scored by the cosine of query and item: title and kept regions as
    text, an `ImageNode` for a picture, `metadata["canopy"]` with every fragment and its place.

    Args:
        index: The index or its folder.
        k: Items to retrieve; None: as configured (10).
        modalities: Only items of these; None: all.
        select: `paper`: `k` nodes. `set`: only what stands out among them, which may be fewer.
        budget: Most tokens of all nodes together; None: as configured, or 16,000.
        **base: What LlamaIndex's retrievers take, such as `callback_manager`.

    Raises:
        StoreError: If there is no index, or it belongs to another encoder or version.
    """

    def __init__(
        self,
        index: Index | str | Path,
        *,
        k: int | None = None,
        modalities: Sequence[Modality] | None = None,
        select: Select = "paper",
        budget: int | None = None,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self._index = opened(index)
        self._k = k
        self._modalities = modalities
        self._select = select
        self._budget = budget

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = retrieve(
            self._index,
            query_bundle.query_str,
            k=self._k,
            modalities=self._modalities,
            select=self._select,
            budget=self._budget,
        )
        return [NodeWithScore(node=self._node(each), score=each.similarity) for each in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _node(self, found: Retrieved) -> TextNode:
        fields: dict[str, Any] = {
            "id_": found.item.id,
            "text": found.text,
            "metadata": found.metadata,
            "excluded_llm_metadata_keys": [KEY],
            "excluded_embed_metadata_keys": [KEY],
        }
        if not isinstance(found.item.payload, ImagePayload):
            return TextNode(**fields)
        media = found.item.payload.media
        if media.startswith("data:"):
            head, _, data = media.partition(",")
            mime = head.removeprefix("data:").removesuffix(";base64")
            return ImageNode(**fields, image=data, image_mimetype=mime)
        return ImageNode(**fields, image_path=media_place(self._index.path)(media)[0])


def _is_text(node: BaseNode) -> bool:
    if isinstance(node, ImageNode):
        return False
    if isinstance(node, Node):
        return not (node.image_resource or node.audio_resource or node.video_resource)
    return isinstance(node, TextNode)


def _given(node: BaseNode) -> Given:
    title = node.metadata.get("title")
    return Given(
        text=node.get_content(),
        title=title if isinstance(title, str) else "",
        uri=node.ref_doc_id or node.node_id,
    )


def _with_text(scored: NodeWithScore, refined: Refined) -> NodeWithScore:
    node = scored.node.model_copy(deep=False)
    node.metadata = {**node.metadata, KEY: refined.record}
    node.excluded_llm_metadata_keys = _including(node.excluded_llm_metadata_keys)
    node.excluded_embed_metadata_keys = _including(node.excluded_embed_metadata_keys)
    if isinstance(node, Node) and node.text_resource is not None:
        node.text_resource = node.text_resource.model_copy()
    node.set_content(refined.text)
    return NodeWithScore(node=node, score=scored.score)


def _including(keys: Sequence[str]) -> list[str]:
    return [*keys, KEY] if KEY not in keys else list(keys)
