"""From the cuts of a video to its segments, their frames and subtitles, and its items (D1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Bounds = tuple[float, float]

MIN_SEGMENT_S = 2.0
"""A shorter scene joins the next one (D1)."""
MAX_SEGMENT_S = 30.0
"""A longer stretch without a cut is divided (D1)."""
FRAME_EVERY_S = 2.0
"""A segment shows about one frame for so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """What is said or shown from `start` to `stop`."""

    start: float
    stop: float
    """Seconds of the video; not before `start`."""
    text: str
    """One line, without markup, not empty."""


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


def by_segment(cues: Sequence[Cue], segments: Sequence[Bounds]) -> tuple[list[str], list[Cue]]:
    """Return the subtitles of each segment, one cue a line, and the cues that fall in none.

    A cue over several segments goes to the one that it overlaps most, the earlier of equals: each
    cue is shown once and whole, however segments are joined. A cue without length goes where it
    begins. In a segment cues stand by time.

    Args:
        cues: By time.
        segments: Ascending and contiguous.
    """
    lines: list[list[str]] = [[] for _ in segments]
    outside: list[Cue] = []
    first = 0
    for cue in cues:
        while first < len(segments) and segments[first][1] <= cue.start:
            first += 1
        best, longest = -1, -1.0
        for index in range(first, len(segments)):
            start, stop = segments[index]
            if start > cue.stop:
                break
            overlap = min(stop, cue.stop) - max(start, cue.start)
            if overlap > longest:
                best, longest = index, overlap
        if best < 0:
            outside.append(cue)
        else:
            lines[best].append(cue.text)
    return ["\n".join(part) for part in lines], outside
