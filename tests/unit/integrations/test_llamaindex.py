from __future__ import annotations

import json
from pathlib import Path

import pytest

import canopy_rag as canopy
from tests.unit.integrations.conftest import JUDO, TABLE, BrokenEncoder

pytest.importorskip("llama_index.core", reason="needs the extra `llamaindex`")

from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)

from canopy_rag.integrations.llamaindex import CanopyPostprocessor, CanopyRetriever

QUERY = "When was judo created?"
NODES = [
    NodeWithScore(node=TextNode(id_="a", text=JUDO, metadata={"page": 3}), score=0.9),
    NodeWithScore(node=ImageNode(id_="b", text="A hall.", image_path="hall.png"), score=0.7),
    NodeWithScore(node=TextNode(id_="c", text=f"Data follow.\n\n{TABLE}"), score=None),
    NodeWithScore(node=Node(id_="d", text_resource=MediaResource(text=JUDO)), score=0.1),
]


def ids(nodes: list[NodeWithScore]) -> list[str]:
    return [node.node.node_id for node in nodes]


def test_text_is_refined_and_scores_ids_metadata_and_order_stay(compressor) -> None:
    before = [node.model_copy(deep=True) for node in NODES]
    own = CanopyPostprocessor(compressor=compressor)
    refined = own.postprocess_nodes(NODES, query_bundle=QueryBundle(QUERY))
    assert ids(refined) == ["a", "b", "c", "d"]
    assert [node.score for node in refined] == [0.9, 0.7, None, 0.1]
    assert refined[0].node.get_content() == "Judo was created in 1882 by Kano."
    assert refined[0].node.metadata["page"] == 3
    assert refined[3].node.get_content() == "Judo was created in 1882 by Kano."
    assert before == NODES


def test_a_row_of_a_table_node_comes_with_its_header(compressor) -> None:
    own = CanopyPostprocessor(compressor=compressor)
    (refined,) = own.postprocess_nodes(NODES[2:3], query_str="swimming born Cid 1980")
    lines = refined.node.get_content().splitlines()
    assert "| name | sport | born |" in lines
    assert "| Cid | swimming | 1980 |" in lines
    assert "| Bob | golf | 1970 |" not in lines


def test_a_picture_passes_whole_even_where_nothing_else_stands_out(make_compressor) -> None:
    own = CanopyPostprocessor(compressor=make_compressor(select="set"))
    refined = own.postprocess_nodes(NODES, query_str="judo created 1882 Kano")
    assert refined[1] == NODES[1]


def test_a_node_with_sound_passes_whole(compressor) -> None:
    heard = Node(
        text_resource=MediaResource(text=JUDO), audio_resource=MediaResource(data=b"aGVsbG8=")
    )
    node = NodeWithScore(node=heard, score=1.0)
    own = CanopyPostprocessor(compressor=compressor)
    assert own.postprocess_nodes([node], query_str=QUERY) == [node]


def test_an_index_node_keeps_what_it_leads_to(compressor) -> None:
    target = TextNode(text="target")
    node = NodeWithScore(node=IndexNode(text=JUDO, index_id="x", obj=target), score=1.0)
    own = CanopyPostprocessor(compressor=compressor)
    (refined,) = own.postprocess_nodes([node], query_str=QUERY)
    assert refined.node.obj is target
    assert refined.node.get_content() == "Judo was created in 1882 by Kano."


def test_the_record_is_json_and_neither_model_nor_embedding_sees_it(compressor) -> None:
    own = CanopyPostprocessor(compressor=compressor)
    node = own.postprocess_nodes(NODES[:1], query_str=QUERY)[0].node
    assert json.loads(json.dumps(node.metadata["canopy"])) == node.metadata["canopy"]
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "canopy" not in node.get_content(mode)
        assert "page: 3" in node.get_content(mode)


async def test_asynchronously_it_is_the_same(compressor) -> None:
    own = CanopyPostprocessor(compressor=compressor)
    assert await own.apostprocess_nodes(NODES, query_str=QUERY) == own.postprocess_nodes(
        NODES, query_str=QUERY
    )


def test_without_a_query_all_stays_with_the_reason(compressor) -> None:
    refined = CanopyPostprocessor(compressor=compressor).postprocess_nodes(NODES)
    assert [node.node.get_content() for node in refined] == [n.node.get_content() for n in NODES]
    assert refined[0].node.metadata["canopy"]["fallbacks"][0]["stage"] == "query"


def test_a_failure_gives_the_originals_with_the_reason(make_compressor) -> None:
    own = CanopyPostprocessor(compressor=make_compressor(BrokenEncoder()))
    refined = own.postprocess_nodes(NODES, query_str=QUERY)
    assert [node.node.get_content() for node in refined] == [n.node.get_content() for n in NODES]
    assert "out of memory" in refined[0].node.metadata["canopy"]["fallbacks"][0]["reason"]


def test_settings_survive_serialisation() -> None:
    own = CanopyPostprocessor(encoder="hashing", budget=50)
    back = CanopyPostprocessor.from_json(own.to_json())
    assert (back.encoder, back.budget) == ("hashing", 50)


def test_a_setting_that_cannot_work_or_is_unknown_is_named(compressor) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        CanopyPostprocessor(encoder="hashing", budget=0)
    with pytest.raises(ValueError, match="bugdet"):
        CanopyPostprocessor(bugdet=3)
    with pytest.raises(ValueError, match="not both"):
        CanopyPostprocessor(compressor=compressor, encoder="minilm")


def test_the_retriever_gives_nodes_with_the_similarity_as_score(index: canopy.Index) -> None:
    nodes = CanopyRetriever(index, k=3).retrieve("When are pears picked?")
    assert len(nodes) == 3
    assert [node.score for node in nodes] == sorted((n.score for n in nodes), reverse=True)
    assert "Pears are picked in September." in nodes[0].node.get_content()
    assert nodes[0].node.metadata["source"] == "orchard.md"
    assert "canopy" not in nodes[0].node.get_content(MetadataMode.LLM)


async def test_the_retriever_gives_a_picture_that_can_be_opened(index: canopy.Index) -> None:
    retriever = CanopyRetriever(str(index.path), modalities=["image"])
    (node,) = await retriever.aretrieve("red square")
    assert isinstance(node.node, ImageNode)
    assert Path(node.node.image_path).read_bytes().startswith(b"\x89PNG")
