"""With f0 the same items are found, and their nodes are compared by another encoder."""

import dataclasses

import pytest

from canopy_rag.baselines.frozen import FrozenNodes, finds_alike
from canopy_rag.encoders import encoder
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.testing.hashing import HashingEncoder
from tests.unit.baselines.conftest import ITEMS, store_of

QUERY = "the year judo was invented"


class Turned(HashingEncoder):
    """An encoder of another network: what it says of texts is the contrary."""

    def encode_queries(self, queries):
        own = super().encode_queries(queries)
        return dataclasses.replace(own, retrieval=-own.retrieval, node=-own.node)


@pytest.fixture
def own():
    return HashingEncoder(dim=256)


@pytest.fixture
def frozen(own):
    turned = Turned(dim=256)

    class Source:
        def vectors(self, item_ids):
            found = [item for item in ITEMS if item.id in item_ids]
            pairs = zip(found, turned.encode_items(found), strict=True)
            return {item.id: (item, each.nodes) for item, each in pairs}

    return FrozenNodes(encoder=own, store=store_of(own, ITEMS), frozen=turned, source=Source())


@pytest.mark.parametrize(
    ("search", "arguments"),
    [("retrieve", (2,)), ("retrieve_each", (1, ("text", "table"))), ("retrieve_shares", (3, 1))],
)
def test_items_are_those_of_the_retrieval_encoder_and_nodes_are_compared_by_f0(
    frozen, own, search, arguments
):
    plain = Retriever(encoder=own, store=frozen.store)
    expected = getattr(plain, search)(QUERY, *arguments)
    found = getattr(frozen, search)(QUERY, *arguments)
    assert [each.hit for each in found.found] == [each.hit for each in expected.found]
    assert (found.node_query.vector == -expected.node_query.vector).all()
    (first, *_) = found.found
    assert first.nodes is not expected.found[0].nodes


def test_nothing_found_is_nothing_to_compare(frozen):
    assert frozen.retrieve(QUERY, 2, ["video"]).found == []


@pytest.mark.parametrize(("name", "alike"), [("minilm", False), ("minilm:paper", True)])
def test_the_adapter_of_the_package_finds_items_and_the_papers_arrangement_leaves_them(name, alike):
    assert finds_alike(encoder(name), encoder("minilm:base")) is alike
