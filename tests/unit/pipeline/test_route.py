"""Routing by a model, and by guaranteed shares."""

from __future__ import annotations

import json

import numpy as np
import pytest

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import Found
from canopy_rag.core.types import Hit
from canopy_rag.core.vectors import NodeVectors
from canopy_rag.pipeline.route import MAX_TOKENS, ModalityRouter, soft_shares
from canopy_rag.testing.scripted import ScriptedLLM
from tests.unit.pipeline.conftest import text_item

QUERY = "Which medal table shows Japan?"


@pytest.mark.parametrize(
    ("named", "modalities", "none"),
    [
        (["text"], ("text",), False),
        (["table", "text"], ("text", "table"), False),
        (["video", "image", "video"], ("image", "video"), False),
        (["none"], (), True),
        (["none", "table"], ("table",), False),
    ],
)
async def test_the_query_alone_is_routed(named, modalities, none) -> None:
    with ScriptedLLM((QUERY, json.dumps({"modalities": named}))) as llm:
        routing = await ModalityRouter(llm=llm).route(QUERY)
    assert (routing.modalities, routing.none) == (modalities, none)
    assert (routing.llm_calls, routing.fallbacks) == (1, ())
    assert routing.prompt_tokens > 0
    (request,) = llm.calls
    assert (request.schema_name, request.max_tokens) == ("router", MAX_TOKENS)
    assert request.messages[1].content == (f"Query: {QUERY}",)


@pytest.mark.parametrize(
    ("reply", "modalities"), [("text + table", ("text", "table")), ('["clip"]', ("video",))]
)
async def test_a_list_without_its_object_is_understood_and_recorded(reply, modalities) -> None:
    with ScriptedLLM(("", reply)) as llm:
        routing = await ModalityRouter(llm=llm).route(QUERY)
    assert routing.modalities == modalities
    assert routing.fallbacks[0].stage == "router"


@pytest.mark.parametrize("failure", [LLMError("HTTP 500"), "", '{"modalities": ["audio"]}'])
async def test_without_a_decision_all_corpora_are_searched_and_it_says_so(failure) -> None:
    llm = ScriptedLLM(("", failure), ("", "audio"))
    routing = await ModalityRouter(llm=llm).route(QUERY)
    assert (routing.modalities, routing.none) == ((), False)
    assert routing.fallbacks[0].reason.endswith("; all corpora are searched")


def found(name: str, similarity: float) -> Found:
    item = text_item(name, "x")
    return Found(
        hit=Hit(item_id=name, corpus="main", similarity=similarity, rank=7),
        item=item,
        nodes=NodeVectors(rows=np.zeros((len(item.nodes), 2), np.float32)),
    )


def corpora(**similarities):
    return {
        modality: [found(f"{modality}{place}", value) for place, value in enumerate(values)]
        for modality, values in similarities.items()
    }


TEXT = corpora(text=[0.9, 0.8, 0.7, 0.6], table=[0.5, 0.4], image=[0.3])


def chosen(hits) -> list[str]:
    assert [each.hit.rank for each in hits] == list(range(1, len(hits) + 1))
    return [each.hit.item_id for each in hits]


@pytest.mark.parametrize(
    ("k", "minimum", "expected"),
    [
        (4, 0, ["text0", "text1", "text2", "text3"]),
        (4, 1, ["text0", "text1", "table0", "image0"]),
        (5, 2, ["text0", "text1", "table0", "table1", "image0"]),
        (6, 2, ["text0", "text1", "text2", "table0", "table1", "image0"]),
        (3, 3, ["text0", "table0", "image0"]),
        (2, 1, ["text0", "table0"]),
        (1, 9, ["text0"]),
        (99, 1, ["text0", "text1", "text2", "text3", "table0", "table1", "image0"]),
    ],
)
def test_each_corpus_gets_its_share_and_the_nearest_get_the_rest(k, minimum, expected) -> None:
    assert chosen(soft_shares(TEXT, k, minimum)) == expected


def test_ties_go_by_item_id_whatever_the_order_of_the_corpora() -> None:
    hits = corpora(video=[0.5, 0.5], image=[0.5, 0.5])
    backwards = dict(reversed(hits.items()))
    assert chosen(soft_shares(hits, 3, 1)) == chosen(soft_shares(backwards, 3, 1))
    assert chosen(soft_shares(hits, 3, 1)) == ["image0", "image1", "video0"]


def test_nothing_found_is_nothing_chosen() -> None:
    assert soft_shares({}, 5, 1) == []
    assert soft_shares({"text": []}, 5, 1) == []


@pytest.mark.parametrize(("k", "minimum"), [(0, 1), (1, -1)])
def test_impossible_shares_are_refused(k, minimum) -> None:
    with pytest.raises(ValueError, match="at least"):
        soft_shares(TEXT, k, minimum)
