"""From the differences of a video's pictures to segments, their frames, and items (D1). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[float, float]

MIN_SEGMENT_S = 2.0
"""A shorter scene joins the next one (D1)."""
MAX_SEGMENT_S = 30.0
"""A longer stretch without a cut is divided (D1)."""
FRAME_EVERY_S = 2.0
"""A segment shows about one frame for so many seconds."""

_MIN_JUMP = 12.0
_JUMP_OVER_USUAL = 2.5
_NEIGHBOURS = 12
_KEY_FRAME_JUMP = 30.0


def find_cuts(
    times: Sequence[float], differences: Sequence[float], *, key_frames: bool = False
) -> list[float]:
    """Return the times at which the picture changes at once, ascending.

    A cut stands out from the movement around it: its difference is at least 12 grey levels and 2.5
    times the median of the 12 frames before and after. Between key frames there is nothing to
    compare with, and at least 30 grey levels make a cut.

    Args:
        times: When each frame begins, ascending seconds.
        differences: Mean absolute difference of each frame to the one before, in grey levels of 0
            to 255; 0 for the first.
        key_frames: Whether the frames are key frames only, seconds apart.
    """
    if key_frames:
        jumps = np.asarray(differences) >= _KEY_FRAME_JUMP
    else:
        jumps = _stand_out(np.asarray(differences, dtype=np.float64))
    return [time for time, jump in zip(times, jumps, strict=True) if jump]


def _stand_out(differences: NDArray[np.float64]) -> NDArray[np.bool_]:
    if not differences.size:
        return np.zeros(0, dtype=np.bool_)
    padded = np.pad(differences, _NEIGHBOURS, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1)
    candidates = np.flatnonzero(differences >= _MIN_JUMP)
    found = np.zeros(differences.shape, dtype=np.bool_)
    if candidates.size:
        around = np.delete(windows[candidates], _NEIGHBOURS, axis=1)  # (n_candidates, 24)
        usual = np.median(around, axis=1)
        found[candidates] = differences[candidates] >= _JUMP_OVER_USUAL * usual
    return found


def segment_bounds(cuts: Sequence[float], stop: float, segment_s: float) -> list[Bounds]:
    """Return the segments of a video from 0 to `stop`, contiguous, at least one.

    A segment is a scene, from one cut to the next. A scene shorter than 2 s joins the next one (the
    last joins the one before); a stretch longer than 30 s, or a video without any cut, is divided
    every `segment_s`, a remainder under 2 s staying with its neighbour.

    Args:
        cuts: Ascending times of cuts; those outside the video are ignored.
        stop: End of the video in seconds.
        segment_s: Length of segments where there is no scene.
    """
    borders = [0.0]
    for cut in cuts:
        if cut - borders[-1] >= MIN_SEGMENT_S and stop - cut >= MIN_SEGMENT_S:
            borders.append(cut)
    longest = MAX_SEGMENT_S if len(borders) > 1 else segment_s
    segments: list[Bounds] = []
    for begin, end in zip(borders, [*borders[1:], stop], strict=True):
        segments.extend(
            _divided(begin, end, segment_s) if end - begin > longest else [(begin, end)]
        )
    return segments


def _divided(begin: float, end: float, segment_s: float) -> list[Bounds]:
    n_parts = max(1, math.ceil((end - begin) / segment_s))
    if n_parts > 1 and end - begin - (n_parts - 1) * segment_s < min(MIN_SEGMENT_S, segment_s):
        n_parts -= 1
    borders = [begin + part * segment_s for part in range(n_parts)]
    return list(zip(borders, [*borders[1:], end], strict=True))


def sample_times(start: float, stop: float, max_frames: int) -> tuple[float, ...]:
    """Return the times of a segment's frames: the middles of equal parts of about 2 s.

    Args:
        start: Begin of the segment in seconds.
        stop: Its end.
        max_frames: Most frames.
    """
    length = stop - start
    n_frames = min(max_frames, max(1, round(length / FRAME_EVERY_S)))
    return tuple(round(start + (i + 0.5) * length / n_frames, 3) for i in range(n_frames))


def spread(segments: Sequence[Bounds], item_s: float) -> list[list[int]]:
    """Return the segments of each item of a long video: about equally long, at most `item_s`.

    Args:
        segments: Contiguous segments, in order.
        item_s: Longest item in seconds; a single longer segment makes an item of its own.
    """
    items: list[list[int]] = []
    first = 0
    while first < len(segments):
        begin, end = segments[first][0], segments[-1][1]
        target = (end - begin) / max(1, math.ceil((end - begin) / item_s))
        last = first + 1
        while last < len(segments) and _fits(segments[last], begin, target, item_s):
            last += 1
        items.append(list(range(first, last)))
        first = last
    return items


def _fits(segment: Bounds, begin: float, target: float, item_s: float) -> bool:
    """Whether a segment stays within the limit and lies mostly before the item's aim."""
    middle = (segment[0] + segment[1]) / 2
    return segment[1] - begin <= item_s and middle - begin <= target
