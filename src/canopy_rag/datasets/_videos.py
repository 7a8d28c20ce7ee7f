"""Videos of benchmarks as items with fixed segments, so that gold is found without the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.core.questions import GoldSpan
from canopy_rag.core.segments import Cue, by_segment, sample_times, segment_bounds, spread
from canopy_rag.core.trees import video_tree
from canopy_rag.core.types import Item, Segment, Source, VideoPayload, item_id

SEGMENT_S = 10.0
"""Length of a segment (D1: where no scene is found)."""
ITEM_S = 600.0
"""Longest item (D1)."""
MAX_FRAMES = 8
"""Most frames of a segment (D1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """What is known of a video file."""

    key: str
    """Name without suffix, unique in the benchmark."""
    path: Path
    """The file, whether it is there or not."""
    duration_s: float
    width: int = 0
    """Pixels; 0 when unknown."""
    height: int = 0
    fps: float | None = None
    """Frames per second; None when unknown."""


def probe(path: Path, key: str) -> Video:
    """Return what a video file says of itself, without decoding it.

    Raises:
        IngestError: If it is missing or no video, or does not tell how long it is.
        MissingDependencyError: If the `video` extra is not installed.
    """
    # Loads Pillow, which only folders with videos need.
    from canopy_rag.core.errors import IngestError
    from canopy_rag.media.frames import open_video, video_stream

    with open_video(path, path.name) as container:
        stream = video_stream(container, path.name)
        duration = (container.duration or 0) / 1_000_000
        if not duration and stream.duration:
            duration = float(stream.duration * stream.time_base)
        if duration <= 0:
            raise IngestError(path.name, "does not tell how long it is; remux it")
        return Video(
            key=key,
            path=path,
            duration_s=duration,
            width=stream.width,
            height=stream.height,
            fps=float(stream.average_rate) if stream.average_rate else None,
        )


def video_items(corpus: str, video: Video, cues: Sequence[Cue] = ()) -> tuple[Item, ...]:
    """Return a video as items of at most ten minutes, in order of time.

    Segments are ten seconds long whether the file is there or not: scenes would need every frame
    decoded, and gold would depend on the decoder.

    Args:
        corpus: The benchmark's name.
        video: The video; it must have a duration.
        cues: Its subtitles, by time; those after its end are left out.
    """
    bounds = [
        (round(start, 3), round(stop, 3))
        for start, stop in segment_bounds([], video.duration_s, SEGMENT_S)
    ]
    texts, _ = by_segment(cues, bounds)
    segments = [
        Segment(
            start=start,
            stop=stop,
            frames=sample_times(start, stop, MAX_FRAMES),
            subtitles=text,
        )
        for (start, stop), text in zip(bounds, texts, strict=True)
    ]
    uri = f"{corpus}/{video.key}"
    return tuple(
        _item(corpus, uri, ordinal, video, [segments[index] for index in part])
        for ordinal, part in enumerate(spread(bounds, ITEM_S))
    )


def spans_in(items: Sequence[Item], start: float, stop: float) -> list[GoldSpan]:
    """Return the spans of a stretch of time in the items of a video that it touches.

    Args:
        items: Of one video.
        start: Begin in seconds of the file.
        stop: End; what lies after the video's end is cut off.
    """
    return [
        GoldSpan(
            item_id=item.id,
            start=max(start, item.nodes[0].start),
            stop=min(stop, item.nodes[0].stop),
        )
        for item in items
        if item.nodes[0].start < stop and start < item.nodes[0].stop
    ]


def _item(corpus: str, uri: str, ordinal: int, video: Video, segments: Sequence[Segment]) -> Item:
    return Item(
        id=item_id(uri, ordinal),
        modality="video",
        title=video.key,
        payload=VideoPayload(
            media=str(video.path.absolute()),
            duration_s=video.duration_s,
            segments=tuple(segments),
            width=video.width,
            height=video.height,
        ),
        nodes=video_tree(segments),
        source=Source(uri=uri, ordinal=ordinal),
        corpus=corpus,
    )
