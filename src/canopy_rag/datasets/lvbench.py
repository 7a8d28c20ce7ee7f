"""LVBench: multiple-choice questions about hour-long videos, with time references."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from canopy_rag.core.errors import IngestError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._read import Record, found_files, json_lines, nothing_found
from canopy_rag.datasets._videos import SEGMENT_S, Video, probe, spans_in, video_items
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.universalrag import (
    FILES,
    rewritten_files,
    rewritten_questions,
    split_options,
)

NO_TIME = "its time reference has no begin or no end"
AFTER_END = "its time reference lies after the end of the video"
NO_OPTION = "its answer is not one of its options (A), (B), ..."
NO_VIDEO = "its video file cannot be read"
NOT_REWRITTEN = "it speaks of `the video` and has no rewritten form"
UNLABELLED = "unlabelled"
"""Kind of a rewritten question that LVBench's own file does not have."""

_OFFICIAL = ("video_info.meta.jsonl", "data/video_info.meta.jsonl")
_FILES = (
    ExpectedFile(path=_OFFICIAL[0], what="103 videos, 1,549 questions with time references"),
    ExpectedFile(path=_OFFICIAL[1], what="the same"),
    *FILES,
    ExpectedFile(path="videos/*", what="the videos, named by YouTube id; to be downloaded by you"),
)
_TIME = re.compile(r"(?:(\d+):)?(\d+):(\d\d)")
_SUFFIXES = (".mp4", ".mkv", ".webm")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question of either file, before its video is known."""

    record: Record
    id: str
    text: str
    options: tuple[str, ...]
    answer: str
    video: str
    time: tuple[float, float] | None
    """Begin and end in seconds; None without one of them."""
    kind: str


@dataclass(slots=True)
class _Videos:
    """The videos of a folder: files where they are, else what the metadata tells."""

    folder: Path
    stated: dict[str, float] = field(default_factory=dict)
    """Key -> seconds, from `video_info`."""
    latest: dict[str, float] = field(default_factory=dict)
    """Key -> end of its last time reference."""
    items: dict[str, tuple[Item, ...]] = field(default_factory=dict)
    n_missing: int = 0
    n_guessed: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Make the items of all videos."""
        for key, latest in self.latest.items():
            names = (self.folder / "videos" / f"{key}{suffix}" for suffix in _SUFFIXES)
            path = next((each for each in names if each.is_file()), None)
            if path is not None:
                try:
                    self.items[key] = video_items("lvbench", probe(path, key))
                except IngestError as error:
                    self.unreadable[key] = str(error)
                continue
            self.n_missing += 1
            self.n_guessed += key not in self.stated
            video = Video(
                key=key,
                path=self.folder / "videos" / f"{key}{_SUFFIXES[0]}",
                duration_s=self.stated.get(key, latest) or SEGMENT_S,
            )
            self.items[key] = video_items("lvbench", video)


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read LVBench's own file, UniversalRAG's rewritten questions, or both.

    With both, each question is taken in its rewritten form, with LVBench's kind, and those without
    one are omitted. With LVBench's file alone all are kept, and a note says that they do not name
    their video. A question of several kinds is listed under its first.

    A video is cut into fixed segments. If its file is not there its duration comes from
    `video_info`, else it is taken to end with the last time reference, as notes say.

    Args:
        folder: Holds the files, and the videos in `videos`.
        splitter: Not needed.

    Raises:
        DataError: If no official file is there, or naming file and place of what is wrong.
        MissingDependencyError: If videos are there and the `video` extra is not installed.
    """
    del splitter
    official, rewritten = found_files(folder, *_OFFICIAL), rewritten_files(folder)
    if not official and not rewritten:
        raise nothing_found("lvbench", folder, [each.path for each in _FILES])
    videos = _Videos(folder)
    keeping = Keeping()
    own = [asked for path in official for asked in _official(path, videos, keeping)]
    asked = _merged(own, rewritten, keeping) if rewritten else own
    for each in (*own, *asked):
        stop = each.time[1] if each.time else 0.0
        videos.latest[each.video] = max(videos.latest.get(each.video, 0.0), stop)
    videos.read()
    for each in asked:
        _keep(each, videos.items.get(each.video, ()), keeping)
    notes = _notes(videos)
    if not rewritten:
        notes.append(
            "the questions speak of `the video`; to ask them of a collection add UniversalRAG's "
            "lvbench.json, where they name it"
        )
    return keeping.loaded("lvbench", lambda: _items(videos.items), notes)


def seconds(text: str) -> float | None:
    """Return a time such as `1:02:03` or `62:03` in seconds; None for anything else.

    >>> seconds("1:02:03"), seconds("62:03"), seconds("None")
    (3723.0, 3723.0, None)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(3600 * hours + 60 * minutes + rest)


def _official(path: Path, videos: _Videos, keeping: Keeping) -> Iterator[_Asked]:
    for record in json_lines(path):
        key = record.want("key", str)
        info = record.part("video_info") if record.fields.get("video_info") else None
        minutes = info.optional("duration_minutes", float, 0.0) if info else 0.0
        if minutes > 0:
            videos.stated[key] = 60 * minutes
        for part in record.parts("qa"):
            question_id = part.want("uid", str)
            if keeping.is_new(question_id, path):
                text, options = split_options(part.want("question", str))
                kinds = part.texts("question_type")
                yield _Asked(
                    part,
                    question_id,
                    text,
                    options,
                    part.want("answer", str),
                    key,
                    _reference(part),
                    kinds[0] if kinds else UNLABELLED,
                )


def _reference(part: Record) -> tuple[float, float] | None:
    """Return a time reference in seconds; None if one of its ends is missing."""
    begin, _, end = part.want("time_reference", str).partition("-")
    start, stop = seconds(begin), seconds(end)
    return None if start is None or stop is None else _whole_seconds(start, stop)


def _whole_seconds(begin: float, end: float) -> tuple[float, float]:
    """Return an interval of at least the second in which it begins; one has its ends swapped."""
    start, stop = sorted((begin, end))
    return start, max(stop, start + 1)


def _items(items: Mapping[str, tuple[Item, ...]]) -> Iterator[Item]:
    for each in items.values():
        yield from each


def _merged(own: Sequence[_Asked], files: Sequence[Path], keeping: Keeping) -> list[_Asked]:
    """Return the rewritten questions, those that are LVBench's with its ids and kinds first."""
    waiting: dict[tuple[str, tuple[str, ...]], list[tuple[Path, _Asked]]] = {}
    for path in files:
        for each in rewritten_questions(path):
            asked = _Asked(
                record=each.record,
                id=each.id,
                text=each.text,
                options=each.options,
                answer=each.answer,
                video=each.video,
                time=_whole_seconds(each.start, each.stop),
                kind=UNLABELLED,
            )
            waiting.setdefault((asked.video, asked.options), []).append((path, asked))
    merged: list[_Asked] = []
    for question in own:
        candidates = waiting.get((question.video, question.options), [])
        # Options such as (yes, no) come again in a video, the time does not.
        same = next((each for each in candidates if each[1].time == question.time), None)
        if same is None:
            keeping.omit(question.id, NOT_REWRITTEN)
        else:
            candidates.remove(same)
            merged.append(replace(question, text=same[1].text))
    rest = [each for group in waiting.values() for each in group]
    return merged + [asked for path, asked in rest if keeping.is_new(asked.id, path)]


def _keep(asked: _Asked, items: Sequence[Item], keeping: Keeping) -> None:
    letters = [chr(ord("A") + index) for index in range(len(asked.options))]
    if asked.answer not in letters:
        keeping.omit(asked.id, NO_OPTION)
    elif asked.time is None:
        keeping.omit(asked.id, NO_TIME)
    elif not items:
        keeping.omit(asked.id, NO_VIDEO)
    elif gold := spans_in(items, *asked.time):
        keeping.keep(
            Question(
                id=asked.id,
                text=asked.text,
                answers=(asked.answer,),
                kind=asked.kind,
                gold=tuple(gold),
                contexts=(asked.video,),
                options=asked.options,
            )
        )
    else:
        keeping.omit(asked.id, AFTER_END)


def _notes(videos: _Videos) -> list[str]:
    notes = []
    if videos.n_missing:
        notes.append(f"{videos.n_missing:,} of {len(videos.latest):,} videos have no file")
    if videos.n_guessed:
        notes.append(
            f"of {videos.n_guessed:,} videos the duration is unknown; they are taken to end with "
            "the last time reference"
        )
    notes += [f"{reason}" for reason in videos.unreadable.values()]
    return notes


BENCHMARK = Benchmark(
    name="lvbench",
    title="LVBench",
    group="in_domain",
    metric="accuracy",
    licence="CC BY-NC-SA 4.0, academic use only",
    homepage="https://lvbench.github.io",
    files=_FILES,
    load=load,
    kinds=(
        "key information retrieval",
        "event understanding",
        "summarization",
        "entity recognition",
        "reasoning",
        "temporal grounding",
        UNLABELLED,
    ),
)
