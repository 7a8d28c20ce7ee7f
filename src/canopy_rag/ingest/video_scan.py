"""One pass over a video file: how its picture changes, its embedded subtitles, where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.media.frames import begin_of

FULL_SCAN_S = 1200.0
"""Every frame of a video up to this long is looked at. Of a longer one only the key frames are:
encoders set them at cuts, and decoding them alone is over ten times faster."""

LONGEST_S = 360_000.0
"""Timestamps beyond this are broken: no recording lasts 100 hours."""

_GRID = (64, 36)
_TOLERANCE_S = 1.0


@dataclass(slots=True, kw_only=True)
class Scan:
    """What one pass found."""

    key_frames: bool
    """Whether only key frames were looked at."""
    times: list[float] = field(default_factory=list)
    """When each frame begins, ascending seconds of the file."""
    differences: list[float] = field(default_factory=list)
    """Mean absolute grey difference of each frame to the one before; 0 for the first."""
    events: list[tuple[float, float, str]] = field(default_factory=list)
    """Embedded subtitles: begin and end in seconds, text in the markup of ASS."""
    stop: float = 0.0
    """End of the last packet of picture or sound."""
    size: tuple[int, int] = (0, 0)
    """Width and height of the first frame as it is to be shown."""
    n_misplaced: int = 0
    """Frames left out because their timestamp is missing or goes backwards."""
    n_broken: int = 0
    """Packets that could not be decoded."""


def scan(container: Any, stream: Any, subtitles: Any | None, name: str) -> Scan:
    """Read a video file from its beginning to where it ends or breaks off.

    Args:
        container: An input container at its beginning.
        stream: Its stream of pictures.
        subtitles: The stream of text subtitles to read; None for none.
        name: The file, for errors.

    Raises:
        IngestError: If no frame can be decoded, or the timestamps make no sense.
    """
    declared = (container.duration or 0) / 1_000_000
    long = declared > FULL_SCAN_S
    found = _pass(container, stream, subtitles, key_frames=long)
    if long and not found.times:
        # Streams refreshed bit by bit have no key frame after all.
        container.seek(0)
        found = _pass(container, stream, subtitles, key_frames=False)
    if not found.times:
        reason = "their timestamps are missing" if found.n_misplaced else "the file is broken"
        raise IngestError(name, f"no frame of the video can be used, {reason}; convert it again")
    rate = stream.average_rate or stream.guessed_rate or 25
    found.stop = max(found.stop, found.times[-1] + 1 / float(rate))
    if found.stop > LONGEST_S:
        raise IngestError(
            name, f"its timestamps reach {found.stop:.0f} s and cannot be right; convert it again"
        )
    return found


def _pass(container: Any, stream: Any, subtitles: Any | None, *, key_frames: bool) -> Scan:
    av = require("av", extra="video", feature="reading videos")
    stream.codec_context.skip_frame = "NONKEY" if key_frames else "DEFAULT"
    found = Scan(key_frames=key_frames)
    watch = _Watch(found, begin_of(container))
    streams = [stream, *container.streams.audio, *([subtitles] if subtitles else [])]
    for packet in _packets(container, streams):
        if packet.stream is subtitles:
            watch.subtitle(packet)
            continue
        watch.end_of(packet)
        if packet.stream is stream:
            try:
                for frame in packet.decode():
                    watch.frame(frame)
            except (av.FFmpegError, ValueError):
                found.n_broken += 1
    return found


def _packets(container: Any, streams: list[Any]) -> Iterator[Any]:
    """Yield packets up to the end, or to where a truncated file breaks off."""
    av = require("av", extra="video", feature="reading videos")
    packets = container.demux(streams)
    while True:
        try:
            yield next(packets)
        except (StopIteration, av.FFmpegError):
            return


class _Watch:
    """Fills a `Scan` as packets and frames come by."""

    def __init__(self, found: Scan, begin: float) -> None:
        reformatter = require("av.video.reformatter", extra="video", feature="reading videos")
        self._found = found
        self._begin = begin
        self._shrink = reformatter.VideoReformatter()
        self._before: NDArray[np.int16] | None = None

    def end_of(self, packet: Any) -> None:
        """Note where a packet of picture or sound ends."""
        if packet.pts is not None and packet.time_base is not None:
            stop = float((packet.pts + (packet.duration or 0)) * packet.time_base) - self._begin
            self._found.stop = max(self._found.stop, stop)

    def frame(self, frame: Any) -> None:
        """Compare a frame with the one before, unless its time makes no sense."""
        found = self._found
        time = None if frame.time is None else float(frame.time) - self._begin
        if time is None or (found.times and time <= found.times[-1]):
            found.n_misplaced += 1
            return
        small = self._shrink.reformat(frame, *_GRID, "gray", interpolation="AREA")
        grey = small.to_ndarray().astype(np.int16)  # (36, 64)
        if self._before is None:
            turned = frame.rotation % 180 != 0
            found.size = (frame.height, frame.width) if turned else (frame.width, frame.height)
            found.differences.append(0.0)
        else:
            found.differences.append(float(np.abs(grey - self._before).mean()))
        found.times.append(time)
        self._before = grey

    def subtitle(self, packet: Any) -> None:
        """Keep the texts of a packet of subtitles."""
        av = require("av", extra="video", feature="reading videos")
        if packet.pts is None or not packet.size:
            return
        try:
            shown = packet.stream.decode2(packet)
        except av.FFmpegError:
            self._found.n_broken += 1
            return
        start = float(packet.pts * packet.time_base) - self._begin
        for rect in shown.rects if shown else ():
            length = float((packet.duration or 0) * packet.time_base)
            length = length or shown.end_display_time / 1000
            # ASS events: eight fields, then the text, which may hold commas.
            text = rect.ass.decode("utf-8", "replace").split(",", 8)[-1]
            self._found.events.append((start, start + length, text))


def duration_of(found: Scan, declared: float) -> tuple[float, bool]:
    """Return a file's duration, and whether it ends earlier than its header says.

    Args:
        found: What the pass found.
        declared: Seconds by the header; 0 when it does not say.
    """
    if found.times[-1] < declared and abs(declared - found.stop) <= _TOLERANCE_S:
        return declared, False
    return found.stop, declared > found.stop
