"""Video files: scenes as segments, each with the times of its frames and its subtitles (D1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.segments import Cue, by_segment, sample_times, segment_bounds, spread
from canopy_rag.core.trees import video_tree
from canopy_rag.core.types import Item, Segment, Source, VideoPayload, item_id
from canopy_rag.ingest import subtitles as subs
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.scenes import find_cuts
from canopy_rag.ingest.sidecar import caption_files, readable_name, sidecar_caption
from canopy_rag.ingest.video_scan import Scan, duration_of, scan
from canopy_rag.media.frames import open_video, video_stream

_SHORTEST_S = 0.001
"""Times are kept to the millisecond; broken rates make shorter videos."""
_CAPTION_TAGS = ("title", "description", "comment")


def sidecars(path: Path) -> list[Path]:
    """Return the other files that the items of `path` depend on."""
    return caption_files(path) + subs.find_sidecars(path)


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a video file: one for each stretch of at most `options.video_item_s`.

    A segment is a scene of 2 to 30 s, else `options.segment_s` long. Subtitles come from the best
    sidecar file, else from an embedded stream of text; a cue belongs to the segment that it
    overlaps most. What could not be used (a broken sidecar, the missing end of a truncated file,
    frames whose timestamps go backwards) is noted and the rest is indexed.

    Args:
        path: The file.
        uri: What its items call it; their `media` too.
        options: Sizes, and where notes go.

    Raises:
        IngestError: If it is missing, empty, not a video, or no frame can be decoded.
        MissingDependencyError: If the `video` extra is not installed.
    """
    with open_video(path, uri) as container:
        stream = video_stream(container, uri)
        cues = _sidecar_cues(path, uri, options)
        embedded = None if cues else _text_stream(container, uri, options)
        found = scan(container, stream, embedded, uri)
        duration, ends_early = duration_of(found, (container.duration or 0) / 1_000_000)
        duration = max(duration, _SHORTEST_S)
        caption = sidecar_caption(path, uri, options) or _inside_caption(container)
    _note_damage(found, duration, ends_early, uri, options)
    segments = _segments(found, duration, cues or subs.from_events(found.events), uri, options)
    parts = spread([(segment.start, segment.stop) for segment in segments], options.video_item_s)
    for ordinal, part in enumerate(parts):
        shown = tuple(segments[index] for index in part)
        payload = VideoPayload(
            media=uri,
            duration_s=duration,
            segments=shown,
            width=found.size[0],
            height=found.size[1],
            caption=caption,
        )
        yield Item(
            id=item_id(uri, ordinal),
            modality="video",
            title=readable_name(path),
            payload=payload,
            nodes=video_tree(shown, options.branching),
            source=Source(uri=uri, ordinal=ordinal),
        )


def _segments(
    found: Scan, duration: float, cues: Sequence[Cue], uri: str, options: IngestOptions
) -> list[Segment]:
    cuts = find_cuts(found.times, found.differences, key_frames=found.key_frames)
    longest = min(options.segment_s, options.video_item_s)
    bounds = [
        (round(start, 3), round(stop, 3)) for start, stop in segment_bounds(cuts, duration, longest)
    ]
    texts, outside = by_segment(cues, bounds)
    if outside:
        note(options, uri, f"{len(outside)} of {len(cues)} subtitles lie after its end")
    return [
        Segment(
            start=start,
            stop=stop,
            frames=sample_times(start, stop, options.max_frames),
            subtitles=text,
        )
        for (start, stop), text in zip(bounds, texts, strict=True)
    ]


def _sidecar_cues(path: Path, uri: str, options: IngestOptions) -> list[Cue]:
    """Return the cues of the best readable sidecar; empty when there is none."""
    files = subs.find_sidecars(path)
    for position, file in enumerate(files):
        try:
            cues = subs.load(file, options)
        except IngestError as error:
            note(options, uri, f"its subtitles {error}")
            continue
        if others := [other.name for other in files[position + 1 :]]:
            note(options, uri, f"subtitles come from {file.name} alone, not {', '.join(others)}")
        return cues
    return []


def _text_stream(container: Any, uri: str, options: IngestOptions) -> Any | None:
    """Return the embedded stream of text subtitles to read: the default one, else the first."""
    streams = list(container.streams.subtitles)
    texts = [
        stream
        for stream in streams
        if stream.codec_context is not None and stream.codec_context.name in subs.TEXT_CODECS
    ]
    if len(texts) < len(streams):
        note(options, uri, "holds subtitles as pictures, which are not read; add a .srt file")
    if not texts:
        return None
    if len(texts) > 1:
        note(options, uri, f"only one of its {len(texts)} subtitle streams is read")
    return next((stream for stream in texts if int(stream.disposition) & 1), texts[0])


def _inside_caption(container: Any) -> str:
    """Return what the file itself says that it shows, or nothing."""
    tags = {key.lower(): value for key, value in container.metadata.items()}
    return next((" ".join(tags[key].split()) for key in _CAPTION_TAGS if tags.get(key)), "")


def _note_damage(
    found: Scan, duration: float, ends_early: bool, uri: str, options: IngestOptions
) -> None:
    if ends_early:
        note(options, uri, f"breaks off; only its first {duration:.1f} s are indexed")
    if found.n_misplaced:
        note(options, uri, f"frames left out for timestamps that go back: {found.n_misplaced}")
    if found.n_broken:
        note(options, uri, f"damaged packets left out: {found.n_broken}")
