"""What a server is sent of pictures and frames."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.encoders.serving import asking

from canopy_rag.core.errors import EncodeError
from canopy_rag.core.types import ImagePayload, Segment, VideoPayload
from canopy_rag.encoders import http_inputs
from canopy_rag.testing.embedding_server import EmbeddingHost
from canopy_rag.testing.encoder_contract import image_item, text_item, video_item


def picture(color: str = "green", size: tuple[int, int] = (8, 6)) -> str:
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.new("RGB", size, color).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def sent_pictures(body: dict[str, Any]) -> list[Any]:
    image = pytest.importorskip("PIL.Image")
    uris = [
        part["image_url"]["url"]
        for part in body["messages"][1]["content"]
        if part["type"] == "image_url"
    ]
    assert all(uri.startswith("data:image/jpeg;base64,") for uri in uris)
    return [image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) for uri in uris]


def test_an_image_is_sent_as_a_picture_with_its_words(host: EmbeddingHost) -> None:
    item = image_item("A lake")
    encoder = asking(host, form="chat", place=lambda media: (picture(), None))
    encoder.encode_items([item])
    (body,) = [each.body for each in host.asked]
    (sent,) = sent_pictures(body)
    assert sent.size == (8, 6)
    assert body["messages"][1]["content"][-1] == {"type": "text", "text": "Holidays: A lake"}
    assert encoder.media == {"image", "video"}


def test_a_large_picture_is_sent_smaller(host: EmbeddingHost) -> None:
    encoder = asking(host, form="chat", place=lambda media: (picture(size=(3000, 2000)), None))
    encoder.encode_items([image_item("")])
    (sent,) = sent_pictures(host.asked[0].body)
    assert sent.width * sent.height <= http_inputs.IMAGE_PX


def test_images_are_read_through_their_text_in_the_other_form(host: EmbeddingHost) -> None:
    encoder = asking(host)
    encoder.encode_items([image_item("A lake")])
    assert host.asked[0].body["input"] == ["Holidays: A lake"]
    assert encoder.media == frozenset()


def test_a_videos_nodes_are_sent_as_the_frames_inside_them(
    host: EmbeddingHost, make_clip: Callable[..., Path]
) -> None:
    clip = make_clip("clip.mp4", [(40, 2.0), (200, 2.0)])
    silent = video_item(["first", "second"])
    segments = (
        Segment(start=0.0, stop=2.0, frames=(0.5,), subtitles="first"),
        Segment(start=2.0, stop=4.0, frames=(2.5, 3.5), subtitles="second"),
    )
    payload = VideoPayload(media="clip.mp4", duration_s=4.0, segments=segments, width=64, height=36)
    nodes = tuple(replace(node, start=node.start / 5, stop=node.stop / 5) for node in silent.nodes)
    item = replace(silent, payload=payload, nodes=nodes)
    encoder = asking(host, form="chat", max_in_flight=1, place=lambda media: (str(clip), None))
    encoder.encode_items([item])
    greys = [
        [
            round(float(np.asarray(frame.convert("L")).mean()), -1)
            for frame in sent_pictures(one.body)
        ]
        for one in host.asked
    ]
    assert [len(each) for each in greys] == [3, 1, 2]
    assert greys[0] == greys[1] + greys[2]
    assert greys[1][0] < greys[2][0]


def test_a_corrupt_image_among_good_items_is_named(host: EmbeddingHost) -> None:
    good, bad = text_item("a", ["Castle."]), image_item("A lake")
    encoder = asking(
        host, form="chat", place=lambda media: ("data:image/png;base64,bm90IGFuIGltYWdl", None)
    )
    with pytest.raises(EncodeError, match="its picture cannot be read") as caught:
        encoder.encode_items([good, bad])
    assert caught.value.item_id == bad.id


def test_a_missing_image_is_named(host: EmbeddingHost, tmp_path: Path) -> None:
    item = image_item("A lake")
    missing = replace(item, payload=ImagePayload(media=str(tmp_path / "no.png"), width=1, height=1))
    with pytest.raises(EncodeError, match="the file is gone") as caught:
        asking(host, form="chat").encode_items([missing])
    assert caught.value.item_id == item.id
    assert host.asked == []
