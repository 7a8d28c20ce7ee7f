"""Video files: opened safely, with one clock, and the frames on screen at given times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import VideoPayload
from canopy_rag.media.files import locate
from canopy_rag.media.images import data_uri

if TYPE_CHECKING:
    from PIL import Image

READER_FRAME_PX = 250_000
"""Pixels of a frame sent to a reader: a segment shows up to 8 of them."""

# Containers of ordinary video files. Left out are play lists, which name other files and addresses.
CONTAINERS = "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,avi,mpegts,mpeg,ogg,flv,asf"
_AHEAD_S = 5.0
"""Within this distance decoding on is cheaper than another seek."""


def frame_data_uris(
    payload: VideoPayload,
    times: Sequence[float],
    root: Path | None,
    *,
    max_px: int = READER_FRAME_PX,
) -> list[str]:
    """Return the frames of a video at `times` as JPEG `data:` URIs, in the order of `times`.

    Raises:
        IngestError: As `load_frames`.
    """
    frames = load_frames(payload.media, times, root)
    return [data_uri(frame, max_px=max_px) for frame in frames]


def load_frames(media: str, times: Sequence[float], root: Path | None) -> list[Image.Image]:
    """Return the frames on screen at `times`, upright as RGB, in the order of `times`.

    On screen is the last frame that begins at or before a time; the first frame before the video
    begins, and the last one after its end.

    Args:
        media: A video payload's `media`.
        times: Seconds of the file, in any order.
        root: The folder that `media` is relative to; None for an absolute path.

    Raises:
        IngestError: Naming the file, if it is missing, outside `root`, or shows no frame.
        MissingDependencyError: If the `video` extra is not installed.
    """
    path = locate(media, root).path
    pictures: dict[float, Image.Image] = {}
    with open_video(path, media) as container:
        reader = _FrameReader(container, video_stream(container, media))
        for time in sorted(set(times)):
            frame = reader.at(time)
            if frame is None:
                raise IngestError(media, f"no frame could be decoded for {time:.3f} s")
            picture: Image.Image = frame.to_image()
            rotated = picture.rotate(frame.rotation, expand=True) if frame.rotation else picture
            pictures[time] = rotated
    return [pictures[time] for time in times]


def open_video(path: Path, name: str) -> Any:
    """Open a video file as a PyAV input container; close it, for instance with `with`.

    Only local files of the usual containers are opened, so that a play list in disguise reaches no
    other file or address.

    Raises:
        IngestError: If it is missing, empty, not a video, or breaks off before its index.
        MissingDependencyError: If the `video` extra is not installed.
    """
    av = require("av", extra="video", feature="reading videos")
    try:
        return av.open(
            str(path.absolute()),
            options={"protocol_whitelist": "file", "format_whitelist": CONTAINERS},
            metadata_errors="replace",
        )
    except FileNotFoundError as error:
        raise IngestError(name, "the file is gone") from error
    except av.FFmpegError as error:
        reason = error.strerror or str(error)
        raise IngestError(name, f"not a video, or broken at its beginning: {reason}") from error


def video_stream(container: Any, name: str) -> Any:
    """Return the stream with the moving picture, set to decode in one thread.

    Raises:
        IngestError: If there is none, as in a sound file, or no decoder for it.
    """
    av = require("av", extra="video", feature="reading videos")
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            if stream.codec_context is None:
                raise IngestError(name, "no decoder for its picture is built in; convert it")
            stream.thread_type = "NONE"
            stream.codec_context.thread_count = 1
            return stream
    raise IngestError(name, "has no picture, only sound or other streams")


def begin_of(container: Any) -> float:
    """Return the timestamp, in seconds, at which players show 0:00."""
    return max(0.0, (container.start_time or 0) / 1_000_000)


def decoded(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the frames that can be decoded from here on, in order; broken packets are left out."""
    av = require("av", extra="video", feature="reading videos")
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.FFmpegError):
            return
        try:
            frames = packet.decode()
        except av.FFmpegError:
            continue
        yield from frames


class _FrameReader:
    """Walks through a video towards ascending times, seeking over long stretches."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._container = container
        self._stream = stream
        self._begin = begin_of(container)
        self._frames: Iterator[Any] = decoded(container, stream)
        self._shown: Any = None
        self._next: Any = None
        self._position = 0.0

    def at(self, time: float) -> Any:
        """Return the frame on screen at `time`, or None if none can be decoded."""
        if time > self._position + _AHEAD_S:
            self._seek(time)
        self._advance(time)
        if self._shown is None and self._next is not None and time > 0:
            # A damaged index can lead past the target; from the beginning it is reached for sure.
            self._seek(0.0)
            self._advance(time)
        return self._shown or self._next

    def _seek(self, time: float) -> None:
        av = require("av", extra="video", feature="reading videos")
        target = (max(time, 0.0) + self._begin) / float(self._stream.time_base)
        try:
            self._container.seek(int(target), stream=self._stream, backward=True)
        except av.FFmpegError:
            # A container without an index: since times ascend, decoding on reaches this one too.
            return
        self._frames = decoded(self._container, self._stream)
        self._shown = self._next = None
        self._position = time

    def _advance(self, time: float) -> None:
        while True:
            begins = self._time(self._next)
            if begins is not None and begins > time:
                return
            if self._next is not None:
                self._shown = self._next
            self._next = next((f for f in self._frames if f.time is not None), None)
            if self._next is None:
                return
            self._position = self._time(self._next) or 0.0

    def _time(self, frame: Any) -> float | None:
        return None if frame is None else float(frame.time) - self._begin
