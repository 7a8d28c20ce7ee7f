"""A small pool of texts, tables and pictures, and methods over it with a model that is scripted."""

import json

import pytest

from canopy_rag.baselines.base import Parts
from canopy_rag.baselines.registry import build
from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.evidence import Meter
from canopy_rag.core.protocols import Entry
from canopy_rag.core.questions import Question
from canopy_rag.pipeline.critic import LLMCritic
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.text import DefaultSplitter
from tests.unit.pipeline.conftest import image_item, table_item, text_item

ITEMS = (
    table_item(
        "champions.csv",
        ("name", "sport"),
        (("Douillet", "judo"), ("Bolt", "running"), ("Phelps", "swimming")),
        title="Champions",
    ),
    text_item(
        "judo.txt",
        "Judo was invented in the year 1882.",
        "The uniform of judo is white.",
        "Many people practise it.",
        title="Judo",
    ),
    text_item("tea.txt", "Tea is a drink.", "Green tea is steamed in Japan.", title="Tea"),
    image_item("cat.png", "a cat asleep"),
)
SPORT = Question(
    id="1", text="Which sport has the champion Douillet?", answers=("judo",), kind="", gold=()
)
YEAR = "the year judo was invented"
ENOUGH = json.dumps({"sufficient": True, "follow_up": ""})
NOT_AGGREGATE = json.dumps({"aggregate": False})


def missing(follow_up):
    return json.dumps({"sufficient": False, "follow_up": follow_up})


def store_of(encoder, items):
    store = MemoryStore(encoder.fingerprint)
    vectors = encoder.encode_items(items)
    store.replace(
        [item.source.uri for item in items],
        [
            Entry(item=item, vectors=each, source_sha256="0")
            for item, each in zip(items, vectors, strict=True)
        ],
    )
    return store


def parts_of(llm, *, items=ITEMS, k=2, rounds=3, budget=None, frozen=True, max_tokens=512, **loop):
    encoder = HashingEncoder(dim=256)
    retriever = Retriever(encoder=encoder, store=store_of(encoder, items))
    return Parts(
        loop=Loop(
            retriever=retriever,
            reader=LLMReader(llm=llm, style="short", max_tokens=max_tokens),
            critic=LLMCritic(llm=llm),
            classifier=llm,
            retrieval=RetrievalConfig(k=k, rounds=rounds, **loop),
            selection=SelectConfig(min_tokens=0, select="paper", cap="tail", budget=budget),
            meter=Meter(count=encoder.count_tokens),
        ),
        llm=llm,
        frozen=retriever if frozen else None,
        splitter=DefaultSplitter(),
    )


@pytest.fixture
def making():
    def make(name, llm, **settings):
        return build(name, parts_of(llm, **settings))

    return make


def item_id_of(uri, items=ITEMS):
    return next(item.id for item in items if item.source.uri == uri)


def texts(answer):
    return [fragment.text for fragment in answer.evidence.fragments]
