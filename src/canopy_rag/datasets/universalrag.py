"""UniversalRAG's rewritten LVBench questions: the same questions, naming the video they are about.

LVBench's own questions speak of "the video" and cannot be asked of a collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from canopy_rag.datasets._read import Record, found_files, json_records
from canopy_rag.datasets.base import ExpectedFile

FILES = (
    ExpectedFile(
        path="dataset/query/lvbench.json",
        what="829 questions rewritten by UniversalRAG, as in its repository",
    ),
    ExpectedFile(path="lvbench.json", what="the same, beside LVBench's own files"),
)
"""Where the rewritten questions may be in a folder."""

_OPTION = re.compile(r"\n\s*\(([A-Z])\)\s*")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A question that names its video."""

    record: Record
    id: str
    text: str
    options: tuple[str, ...]
    answer: str
    """A letter."""
    video: str
    """YouTube id."""
    start: float
    stop: float
    """Seconds."""


def rewritten_files(folder: Path) -> list[Path]:
    """Return the files of rewritten questions in a folder."""
    return found_files(folder, *(each.path for each in FILES))


def rewritten_questions(path: Path) -> Iterator[Rewritten]:
    """Yield the questions of a file.

    Raises:
        DataError: Naming file, record and field of what is wrong.
    """
    for record in json_records(path):
        text, options = split_options(record.want("question", str))
        videos = record.texts("gt_videos")
        if len(videos) != 1:
            raise record.error(f"the field 'gt_videos' must name one video, got {videos!r}")
        match record.want("time_reference", list):
            case [int() | float() as start, int() | float() as stop]:
                pass
            case other:
                raise record.error(
                    f"the field 'time_reference' must be [start, stop] in seconds, got {other!r}"
                )
        yield Rewritten(
            record,
            record.want("index", str),
            text,
            options,
            record.want("answer", str),
            PurePosixPath(videos[0]).stem,
            float(start),
            float(stop),
        )


def split_options(question: str) -> tuple[str, tuple[str, ...]]:
    r"""Return a question without the options under it, and the options without their letters.

    >>> split_options("Who?\n(A) Ann\n(B) Bob (B) Jr.")
    ('Who?', ('Ann', 'Bob (B) Jr.'))
    """
    parts = _OPTION.split(question)
    letters = parts[1::2]
    if letters != [chr(ord("A") + index) for index in range(len(letters))]:
        return question, ()
    return parts[0].strip(), tuple(option.strip() for option in parts[2::2])
