"""A small store of texts, tables and pictures under the hashing encoder."""

import pytest

from canopy_rag.core.protocols import Entry
from canopy_rag.core.trees import image_tree, table_tree, text_tree
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    Source,
    TablePayload,
    TextPayload,
    item_id,
)
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.testing.memory_store import MemoryStore


def text_item(uri, *sentences, title=""):
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += f"{sentence} "
    text = text[:-1]
    return Item(
        id=item_id(uri, 0),
        modality="text",
        title=title,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=uri),
    )


def table_item(uri, header, rows, title=""):
    return Item(
        id=item_id(uri, 0),
        modality="table",
        title=title,
        payload=TablePayload(header=header, rows=rows),
        nodes=table_tree(len(rows)),
        source=Source(uri=uri),
    )


def image_item(uri, caption):
    return Item(
        id=item_id(uri, 0),
        modality="image",
        title=caption,
        payload=ImagePayload(media=uri, width=2, height=2, caption=caption),
        nodes=image_tree(),
        source=Source(uri=uri),
    )


ITEMS = (
    text_item(
        "judo.txt",
        "Judo was created in 1882 by Kano.",
        "It is practised in many countries.",
        "The uniform is white.",
        title="Judo",
    ),
    text_item("tea.txt", "Tea is a drink.", "Green tea is steamed in Japan.", title="Tea"),
    table_item(
        "medals.csv",
        ("name", "sport"),
        (("Douillet", "judo"), ("Phelps", "swimming"), ("Bolt", "running")),
        title="Medals",
    ),
    image_item("cat.png", "a cat asleep"),
)


@pytest.fixture
def encoder():
    return HashingEncoder(dim=256)


@pytest.fixture
def store(encoder):
    store = MemoryStore(encoder.fingerprint)
    vectors = encoder.encode_items(ITEMS)
    store.replace(
        [item.source.uri for item in ITEMS],
        [
            Entry(item=item, vectors=each, source_sha256="0")
            for item, each in zip(ITEMS, vectors, strict=True)
        ],
    )
    return store
