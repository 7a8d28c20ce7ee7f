"""Tokens of pictures and videos, against the models' own preprocessing written out literally."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from canopy_rag.core.errors import DataError
from canopy_rag.core.media_tokens import (
    PICTURE_TOKENS,
    QWEN2_VL,
    QWEN3_VL,
    QWEN3_VL_VIDEO,
    Resizing,
    family_of,
    internvl_picture,
    internvl_tiles,
    qwen3_vl_times,
    qwen3_vl_video,
    qwen_picture,
    qwen_size,
    shrunk,
)
from canopy_rag.media.images import scaled

sides = st.integers(1, 6000)


def smart_resize(height: int, width: int, resizing: Resizing) -> tuple[int, int]:
    """As the image processor of the Qwen-VL models has it."""
    factor, min_pixels, max_pixels = resizing.factor, resizing.min_px, resizing.max_px
    h_bar = round(height / factor) * factor
    w_bar = round(width / factor) * factor
    if h_bar * w_bar > max_pixels:
        beta = math.sqrt((height * width) / max_pixels)
        h_bar = max(factor, math.floor(height / beta / factor) * factor)
        w_bar = max(factor, math.floor(width / beta / factor) * factor)
    elif h_bar * w_bar < min_pixels:
        beta = math.sqrt(min_pixels / (height * width))
        h_bar = math.ceil(height * beta / factor) * factor
        w_bar = math.ceil(width * beta / factor) * factor
    return h_bar, w_bar


def smart_resize_video(num_frames: int, height: int, width: int) -> tuple[int, int]:
    """As the video processor of Qwen3-VL has it, with the checkpoint's limits."""
    factor, min_pixels, max_pixels = 32, 4096, 25165824
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height = int(height * scale)
        width = int(width * scale)
    h_bar = round(height / factor) * factor
    w_bar = round(width / factor) * factor
    t_bar = round(num_frames / 2) * 2
    if t_bar * h_bar * w_bar > max_pixels:
        beta = math.sqrt((num_frames * height * width) / max_pixels)
        h_bar = max(factor, math.floor(height / beta / factor) * factor)
        w_bar = max(factor, math.floor(width / beta / factor) * factor)
    elif t_bar * h_bar * w_bar < min_pixels:
        beta = math.sqrt(min_pixels / (num_frames * height * width))
        h_bar = math.ceil(height * beta / factor) * factor
        w_bar = math.ceil(width * beta / factor) * factor
    return h_bar, w_bar


def dynamic_preprocess(width: int, height: int) -> int:
    """As InternVL's model card has it; only the number of tiles."""
    aspect_ratio = width / height
    target_ratios = {
        (i, j)
        for n in range(1, 13)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if 1 <= i * j <= 12
    }
    best_ratio_diff = float("inf")
    best_ratio = (1, 1)
    for ratio in sorted(target_ratios, key=lambda x: x[0] * x[1]):
        ratio_diff = abs(aspect_ratio - ratio[0] / ratio[1])
        if ratio_diff < best_ratio_diff:
            best_ratio_diff = ratio_diff
            best_ratio = ratio
        elif ratio_diff == best_ratio_diff and (
            width * height > 0.5 * 448 * 448 * ratio[0] * ratio[1]
        ):
            best_ratio = ratio
    blocks = best_ratio[0] * best_ratio[1]
    return blocks + 1 if blocks != 1 else blocks


@given(width=sides, height=sides, resizing=st.sampled_from([QWEN3_VL, QWEN2_VL]))
@example(width=48, height=80, resizing=QWEN3_VL)
@example(width=1, height=1, resizing=QWEN3_VL)
@example(width=6000, height=6000, resizing=QWEN2_VL)
def test_qwen_sizes_are_those_of_the_processor(width: int, height: int, resizing: Resizing) -> None:
    high, wide = smart_resize(height, width, resizing)
    assert qwen_size(width, height, resizing) == (wide, high)
    tokens = qwen_picture(width, height, resizing)
    assert tokens == high * wide // resizing.factor**2 + 2


@given(width=sides, height=sides)
@example(width=896, height=896)
@example(width=1344, height=448)
def test_internvl_tiles_are_those_of_its_preprocessing(width: int, height: int) -> None:
    assert internvl_tiles(width, height) == dynamic_preprocess(width, height)


@given(n_frames=st.integers(2, 200), width=st.integers(1, 2000), height=st.integers(1, 2000))
@example(n_frames=5, width=640, height=360)
@example(n_frames=200, width=1920, height=1080)
def test_qwen3_videos_cost_what_their_processor_makes_of_them(
    n_frames: int, width: int, height: int
) -> None:
    high, wide = smart_resize_video(n_frames, height, width)
    times = [each / 2 for each in range(n_frames)]
    n_pairs = math.ceil(n_frames / 2)
    tokens = qwen3_vl_video(times, width, height, count=lambda _: 6)
    assert tokens == n_pairs * (high * wide // 1024 + 2 + 6)


@given(width=st.integers(1, 3000), height=st.integers(1, 3000), max_px=st.integers(1, 90_000))
@settings(deadline=None, max_examples=40)
def test_a_picture_is_sent_in_the_size_that_it_is_counted_with(
    width: int, height: int, max_px: int
) -> None:
    small = scaled(Image.new("1", (width, height)), max_px)
    assert shrunk(width, height, max_px) == small.size


def test_known_sizes() -> None:
    assert qwen_picture(1024, 1024) == 32 * 32 + 2
    assert qwen_picture(64, 64) == 8 * 8 + 2, "small pictures are enlarged to 256 x 256"
    assert qwen_picture(1920, 1080) == 60 * 34 + 2
    assert qwen_picture(280, 280, QWEN2_VL) == 10 * 10 + 2
    assert [internvl_picture(*size) for size in [(448, 448), (900, 450), (1344, 896)]] == [
        256 + 2,
        (2 + 1) * 256 + 2,
        (6 + 1) * 256 + 2,
    ]


def test_a_video_without_frames_costs_nothing_and_one_frame_makes_a_pair() -> None:
    assert qwen3_vl_video([], 640, 360, count=len) == 0
    one = qwen3_vl_video([3.0], 640, 352, count=lambda _: 0)
    assert one == 20 * 11 + 2
    assert QWEN3_VL_VIDEO.max_px == 24_576 * 32 * 32


def test_times_are_the_means_of_pairs() -> None:
    assert qwen3_vl_times([0.0, 1.0, 2.0, 4.0, 9.0]) == (
        "<0.5 seconds>",
        "<3.0 seconds>",
        "<9.0 seconds>",
    )


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("qwen3vl:8b", "qwen3-vl"),
        ("Qwen2.5-VL-7B-Instruct-AWQ", "qwen2-vl"),
        ("qwen2-vl", "qwen2-vl"),
        ("OpenGVLab/InternVL3_5-8B", "internvl"),
        ("intern-vl", "internvl"),
        ("Qwen3-8B", None),
        ("gpt-5", None),
    ],
)
def test_the_family_is_read_from_the_name(model: str, family: str | None) -> None:
    assert family_of(model) == family
    assert family is None or family in PICTURE_TOKENS


@pytest.mark.parametrize("family", sorted(PICTURE_TOKENS))
def test_a_picture_without_size_is_refused(family: str) -> None:
    with pytest.raises(DataError, match="0 x 5 pixels"):
        PICTURE_TOKENS[family](0, 5)
