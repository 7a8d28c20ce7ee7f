"""LongVideoBench: multiple-choice questions about moments of videos with subtitles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.segments import Cue
from canopy_rag.core.types import Item
from canopy_rag.datasets._keeping import NO_ANSWER, Keeping
from canopy_rag.datasets._read import (
    Record,
    found_files,
    json_records,
    nothing_found,
)
from canopy_rag.datasets._videos import Video, probe, spans_in, video_items
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded

NO_RATE = "its video file is not there, and only that tells the frame rate of its positions"
NO_VIDEO = "its video file cannot be read or tells no frame rate"
NO_MOMENT = "its frame positions lie after the end of the video"
NO_DURATION = "the duration of its video is not above 0"

_FILES = (
    ExpectedFile(path="lvb_val.json", what="1,337 questions on 753 videos", required=True),
    ExpectedFile(path="videos/*", what="the videos, which tell the frame rate that gold needs"),
    ExpectedFile(path="subtitles/*.json", what="the subtitles of a video each, in two forms"),
)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:[.,]\d+)?)")


@dataclass(slots=True)
class _Videos:
    """The videos of a folder, each read once."""

    folder: Path
    known: dict[str, Video] = field(default_factory=dict)
    items: dict[str, tuple[Item, ...]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Video id -> reason why none of its moments can be located."""
    n_without_subtitles: int = 0
    details: list[str] = field(default_factory=list)

    def read(self, record: Record) -> str:
        """Read the video of a question, if that was not done before; return its id."""
        key = record.want("video_id", str)
        if key in self.items or key in self.why:
            return key
        video = self._video(record, key)
        if video is not None:
            self.known[key] = video
            self.items[key] = video_items("longvideobench", video, self._cues(record, video))
        return key

    def _video(self, record: Record, key: str) -> Video | None:
        path = self.folder / "videos" / Path(record.want("video_path", str)).name
        if path.is_file():
            try:
                video = probe(path, key)
            except IngestError as error:
                self.why[key] = NO_VIDEO
                self.details.append(str(error))
                return None
            if not video.fps:
                self.why[key] = NO_VIDEO
            return video
        duration = record.want("duration", float)
        if duration <= 0:
            self.why[key] = NO_DURATION
            return None
        self.why[key] = NO_RATE
        return Video(key=key, path=path, duration_s=duration)

    def _cues(self, record: Record, video: Video) -> list[Cue]:
        name = Path(record.optional("subtitle_path", str, "")).name
        path = self.folder / "subtitles" / name
        if not name or not path.is_file():
            self.n_without_subtitles += 1
            return []
        offset = record.optional("starting_timestamp_for_subtitles", float, 0.0)
        return read_subtitles(path, offset, video.duration_s)


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read LongVideoBench's validation file.

    Gold are the moments of a question's frame positions, each a frame long. Positions count
    frames, and only the video file tells its frame rate: without it a question is omitted, while
    its video, cut by the duration in the file, still is an item.

    Args:
        folder: Holds `lvb_val.json`, `videos` and `subtitles`.
        splitter: Not needed.

    Raises:
        DataError: If no official file is there, or naming file and place of what is wrong.
        MissingDependencyError: If videos are there and the `video` extra is not installed.
    """
    del splitter
    files = found_files(folder, _FILES[0].path)
    if not files:
        raise nothing_found("longvideobench", folder, [each.path for each in _FILES])
    videos = _Videos(folder)
    keeping = Keeping()
    for path in files:
        for record in json_records(path):
            question_id = record.want("id", str)
            if keeping.is_new(question_id, path):
                _read_question(record, question_id, videos, keeping)
    return keeping.loaded("longvideobench", lambda: _items(videos.items), _notes(videos))


def read_subtitles(path: Path, offset: float, duration: float) -> list[Cue]:
    """Return the cues of a subtitle file in either form, by time.

    Args:
        path: A JSON array of `{"timestamp": [start, stop], "text"}`, where a stop that is no number
            means the end of the video, or of `{"start": "HH:MM:SS.mmm", "end", "line"}`.
        offset: Seconds to subtract, since some videos are cut from longer ones; cues that end
            before it are left out.
        duration: Of the video, in seconds.

    Raises:
        DataError: Naming file, record and field of what is wrong.
    """
    cues = []
    for record in json_records(path):
        if "timestamp" in record.fields:
            start, stop, text = _stamped(record, offset + duration)
        else:
            start, stop = _clock(record, "start"), _clock(record, "end")
            text = record.want("line", str)
        words = " ".join(text.split())
        if words and stop > offset:
            begin = max(start - offset, 0.0)
            cues.append(Cue(start=begin, stop=max(stop - offset, begin), text=words))
    return sorted(cues, key=lambda cue: (cue.start, cue.stop))


def _stamped(record: Record, end: float) -> tuple[float, float, str]:
    match record.want("timestamp", list):
        case [int() | float() as start, stop]:
            known = isinstance(stop, int | float)
            return float(start), float(stop) if known else end, record.want("text", str)
    raise record.error("the field 'timestamp' must be [start, stop] in seconds")


def _clock(record: Record, name: str) -> float:
    """Return a time such as `00:01:02.500` in seconds."""
    text = record.want(name, str)
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise record.error(f"the field {name!r} must be a time such as 00:01:02.500, got {text!r}")
    hours, minutes, rest = match.groups()
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes) + float(rest.replace(",", "."))


def _read_question(record: Record, question_id: str, videos: _Videos, keeping: Keeping) -> None:
    options = record.texts("candidates")
    key = videos.read(record)
    if record.fields.get("correct_choice") is None:
        keeping.omit(question_id, NO_ANSWER)
        return
    choice = record.want("correct_choice", int)
    if not 0 <= choice < len(options):
        raise record.error(f"'correct_choice' is {choice}, but there are {len(options)} candidates")
    positions = record.want("position", list)
    if key in videos.why:
        keeping.omit(question_id, videos.why[key])
        return
    gold = _gold(record, positions, videos.known[key], videos.items[key])
    if not gold:
        keeping.omit(question_id, NO_MOMENT)
        return
    keeping.keep(
        Question(
            id=question_id,
            text=record.want("question", str),
            answers=(chr(ord("A") + choice),),
            kind=record.want("question_category", str),
            gold=tuple(gold),
            contexts=(key,),
            options=tuple(options),
        )
    )


def _gold(
    record: Record, positions: Sequence[Any], video: Video, items: Sequence[Item]
) -> list[GoldSpan]:
    """Return the moments of frame positions; those after the end point nowhere and are left out."""
    fps = video.fps or math.nan
    spans: dict[GoldSpan, None] = {}
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise record.error(f"'position' must hold frame numbers, got {position!r}")
        for span in spans_in(items, position / fps, (position + 1) / fps):
            spans[span] = None
    return sorted(spans, key=lambda span: span.start)


def _items(items: Mapping[str, tuple[Item, ...]]) -> Iterator[Item]:
    for each in items.values():
        yield from each


def _notes(videos: _Videos) -> list[str]:
    notes = list(videos.details)
    if videos.n_without_subtitles:
        notes.insert(
            0, f"{videos.n_without_subtitles:,} of {len(videos.items):,} videos have no subtitles"
        )
    return notes


BENCHMARK = Benchmark(
    name="longvideobench",
    title="LongVideoBench",
    group="out_of_domain",
    metric="accuracy",
    licence="CC BY-NC-SA 4.0, non-commercial",
    homepage="https://longvideobench.github.io",
    files=_FILES,
    load=load,
    kinds=(
        "E2O",
        "E3E",
        "O2E",
        "O3O",
        "S2A",
        "S2E",
        "S2O",
        "SAA",
        "SOS",
        "SSS",
        "T2A",
        "T2E",
        "T2O",
        "T3E",
        "T3O",
        "TAA",
        "TOS",
    ),
)
