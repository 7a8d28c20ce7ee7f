"""Items with pictures and frames, for encoders that read pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from canopy_rag.core.trees import image_tree, video_tree
from canopy_rag.core.types import ImagePayload, Item, Segment, VideoPayload
from canopy_rag.testing.encoder_contract import (
    SENTENCES,
    headed_item,
    make_item,
    table_item,
    text_item,
)

MakeClip = Callable[..., Path]
TIMES = ((0.5, 1.5, 2.5), (3.5, 4.5))
SCENES = [(20, 1.0), (90, 1.0), (160, 1.0), (230, 1.0), (60, 1.0), (120, 1.0)]


def picture(path: Path, size: tuple[int, int], seed: int = 0) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def image_of(name: str, caption: str = "A lake") -> Item:
    payload = ImagePayload(media=name, width=1, height=1, caption=caption)
    return make_item(name, "image", payload, image_tree(), "Holidays")


def video_of(name: str, times: Sequence[tuple[float, ...]] = TIMES) -> Item:
    segments = tuple(
        Segment(start=3.0 * i, stop=3.0 * i + 3, frames=frames, subtitles=f"Part {i}")
        for i, frames in enumerate(times)
    )
    payload = VideoPayload(media=name, duration_s=6.0, segments=segments, width=64, height=36)
    return make_item(name, "video", payload, video_tree(segments), "Lecture")


def mixed(tmp_path: Path, make_clip: MakeClip) -> list[Item]:
    """Return items of all modalities, of very different lengths, the pictures in the middle."""
    make_clip("clip.mp4", SCENES)
    picture(tmp_path / "wide.png", (200, 70))
    picture(tmp_path / "tiny.png", (20, 9), seed=1)
    return [
        text_item("short", SENTENCES[:1]),
        image_of("wide.png"),
        headed_item(),
        video_of("clip.mp4"),
        image_of("tiny.png", caption=""),
        table_item("rows", [("Ada", "1815"), ("Alan", "1912")], ("name", "born")),
        text_item("long", [f"{sentence} {n}." for n in range(5) for sentence in SENTENCES]),
    ]
