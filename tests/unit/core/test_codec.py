"""The JSON codec gives back what it was given and names what does not fit."""

import pytest
from hypothesis import given
from tests.property.strategies import table_items, text_items

from canopy_rag.core import codec
from canopy_rag.core.errors import DataError
from canopy_rag.core.trees import image_tree, video_tree
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    Place,
    Segment,
    Source,
    SourceSpan,
    VideoPayload,
)


def item(modality, payload, nodes):
    spans = (SourceSpan(start=0, stop=1, places=(Place(page=2, box=(0, 1, 2, 3.5)),), char=(4, 9)),)
    source = Source(uri="ü/שלום.png", spans=spans)
    return Item(
        id="x", modality=modality, title="日本", payload=payload, nodes=nodes, source=source
    )


@given(text_items())
def test_text_items_survive(original):
    assert codec.loads(Item, codec.dumps(original)) == original


@given(table_items())
def test_table_items_survive(original):
    assert codec.loads(Item, codec.dumps(original)) == original


def test_image_and_video_items_survive_with_places_and_other_scripts():
    image = item("image", ImagePayload(media="a.png", width=3, height=2, ocr="x"), image_tree())
    segments = (Segment(start=0, stop=2.5, frames=(0.5, 1.0), subtitles="a\nb"),)
    video = item(
        "video",
        VideoPayload(media="a.webm", duration_s=2.5, segments=segments, width=4, height=2),
        video_tree(segments),
    )
    for original in (image, video):
        assert codec.loads(Item, codec.dumps(original)) == original


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "is not a Source"),
        ('{"uri": "a", "colour": 1}', "colour"),
        ("{}", "uri"),
    ],
)
def test_what_does_not_fit_is_named(text, message):
    with pytest.raises(DataError, match=message):
        codec.loads(Source, text)


def test_an_unknown_payload_type_is_named():
    with pytest.raises(DataError, match="TextPayload"):
        codec.decode(
            Item,
            {"id": "x", "modality": "text", "title": "", "payload": {"type": "Sound"}, "nodes": []},
        )
