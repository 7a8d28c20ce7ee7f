"""How many tokens a picture or a video is to a vision model, from its size alone.

The models' own preprocessing with the values of their published checkpoints. A server may be set
up otherwise (`max_pixels`); its own count, where it tells one, comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from canopy_rag.core.errors import DataError

MARKS = 2
"""Tokens around a picture: `<|vision_start|>`, `<|vision_end|>`, and InternVL's `<img>` alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """How the Qwen-VL family scales a picture: to multiples of `factor`, within two areas."""

    factor: int
    """Pixels per token, along each side."""
    min_px: int
    max_px: int


QWEN3_VL = Resizing(factor=32, min_px=65_536, max_px=16_777_216)
QWEN2_VL = Resizing(factor=28, min_px=3_136, max_px=12_845_056)
QWEN3_VL_VIDEO = Resizing(factor=32, min_px=4_096, max_px=25_165_824)
"""The areas are those of all frames together."""

TILE_PX = 448
TILE_TOKENS = 256
MAX_TILES = 12


def qwen_size(width: int, height: int, resizing: Resizing) -> tuple[int, int]:
    """Return `(width, height)` as the model sees a picture (`smart_resize`).

    Sides are rounded half to even. A picture narrower than 1:200 is refused by the model; here it
    is sized as if it were not.
    """
    return _resized(width, height, resizing, frames=1, frames_rounded=1)


def qwen_picture(width: int, height: int, resizing: Resizing = QWEN3_VL) -> int:
    """Return the tokens of one picture, a frame sent as a picture included.

    >>> qwen_picture(1000, 1000)
    963
    """
    wide, high = qwen_size(width, height, resizing)
    return (wide // resizing.factor) * (high // resizing.factor) + MARKS


def qwen3_vl_video(
    times: Sequence[float],
    width: int,
    height: int,
    count: Callable[[str], int],
    resizing: Resizing = QWEN3_VL_VIDEO,
) -> int:
    """Return the tokens of a video sent as such: pairs of frames, each after its time.

    Args:
        times: Seconds of each frame, ascending; an odd one out is paired with itself.
        width: Of the frames, in pixels.
        height: Of the frames, in pixels.
        count: The model's tokens of a text.
        resizing: How frames are scaled.
    """
    _check(width, height)
    enlarge = max(1.0, resizing.factor / width, resizing.factor / height)
    frames = max(2, len(times))
    wide, high = _resized(
        int(width * enlarge),
        int(height * enlarge),
        resizing,
        frames=frames,
        frames_rounded=round(frames / 2) * 2,
    )
    per_pair = (wide // resizing.factor) * (high // resizing.factor) + MARKS
    return sum(count(text) + per_pair for text in qwen3_vl_times(times))


def qwen3_vl_times(times: Sequence[float]) -> tuple[str, ...]:
    """Return what Qwen3-VL writes before each pair of frames: the mean of their times.

    >>> qwen3_vl_times([0.0, 0.5, 1.0])
    ('<0.2 seconds>', '<1.0 seconds>')
    """
    padded = [*times, *times[-1:]] if len(times) % 2 else list(times)
    return tuple(
        f"<{(first + second) / 2:.1f} seconds>"
        for first, second in zip(padded[::2], padded[1::2], strict=True)
    )


def internvl_tiles(width: int, height: int) -> int:
    """Return into how many tiles InternVL cuts a picture, the overview included.

    The grid of at most 12 tiles is the one closest in proportions; of grids equally close, the
    largest one that the picture fills by more than half.
    """
    _check(width, height)
    nearest, tiles = math.inf, 1
    for columns, rows in _grids():
        distance = abs(width / height - columns / rows)
        fills = width * height > TILE_PX * TILE_PX * columns * rows / 2
        if distance < nearest or (distance == nearest and fills):
            nearest, tiles = distance, columns * rows
    return tiles if tiles == 1 else tiles + 1


def internvl_picture(width: int, height: int) -> int:
    """Return the tokens of one picture.

    >>> internvl_picture(448, 448), internvl_picture(896, 448)
    (258, 770)
    """
    return internvl_tiles(width, height) * TILE_TOKENS + MARKS


PICTURE_TOKENS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "qwen3-vl": qwen_picture,
        "qwen2-vl": lambda width, height: qwen_picture(width, height, QWEN2_VL),
        "internvl": internvl_picture,
    }
)
"""Width and height of a picture as it is sent -> its tokens, by family of models."""

_NAMES = (
    (r"qwen-?3-?vl", "qwen3-vl"),
    (r"qwen-?2(\.5)?-?vl", "qwen2-vl"),
    (r"intern-?vl", "internvl"),
)


def shrunk(width: int, height: int, max_px: int) -> tuple[int, int]:
    """Return the size of a picture once it is scaled down for sending; never enlarged.

    >>> shrunk(1920, 1080, 1_000_000)
    (1333, 750)
    """
    _check(width, height)
    shrink = math.sqrt(max_px / (width * height))
    if shrink >= 1:
        return width, height
    return max(1, int(width * shrink)), max(1, int(height * shrink))


def family_of(model: str) -> str | None:
    """Return the family of a model's name, a key of `PICTURE_TOKENS`, or None if it is unknown.

    >>> family_of("Qwen/Qwen3-VL-8B-Instruct"), family_of("OpenGVLab/InternVL3_5-8B")
    ('qwen3-vl', 'internvl')
    """
    plain = model.lower().replace("_", "-")
    return next((family for name, family in _NAMES if re.search(name, plain)), None)


def _resized(
    width: int, height: int, resizing: Resizing, *, frames: int, frames_rounded: int
) -> tuple[int, int]:
    _check(width, height)
    factor = resizing.factor
    high, wide = round(height / factor) * factor, round(width / factor) * factor
    if frames_rounded * high * wide > resizing.max_px:
        shrink = math.sqrt(frames * height * width / resizing.max_px)
        high = max(factor, math.floor(height / shrink / factor) * factor)
        wide = max(factor, math.floor(width / shrink / factor) * factor)
    elif frames_rounded * high * wide < resizing.min_px:
        grow = math.sqrt(resizing.min_px / (frames * height * width))
        high = math.ceil(height * grow / factor) * factor
        wide = math.ceil(width * grow / factor) * factor
    return wide, high


@cache
def _grids() -> tuple[tuple[int, int], ...]:
    """Return all grids of at most 12 tiles, `(columns, rows)`, those of fewer tiles first."""
    sides = range(1, MAX_TILES + 1)
    grids = [(x, y) for x in sides for y in sides if x * y <= MAX_TILES]
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def _check(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise DataError(f"a picture of {width} x {height} pixels has no size")
