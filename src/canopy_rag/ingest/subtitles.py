"""Subtitles: from sidecar files and embedded streams to cues."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.segments import Cue
from canopy_rag.ingest.decode import read_text
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.media.quiet import quiet

SUFFIXES = (".srt", ".vtt", ".ass", ".ssa")
TEXT_CODECS = frozenset({"ass", "ssa", "subrip", "srt", "text", "webvtt", "mov_text"})
"""FFmpeg's names of subtitle streams that hold text; the others hold pictures of it."""

_CUE_TIME = re.compile(r"<[\d:.]+>")
_LANGUAGE = re.compile(r"(\.[A-Za-z]{2,3}(-[A-Za-z0-9]+)?(\.(sdh|cc))?)?", re.IGNORECASE)
_TOUCH_S = 0.1
_Lines = tuple[float, float, tuple[str, ...]]


def find_sidecars(path: Path) -> list[Path]:
    """Return the subtitle files beside a video, best first.

    `film.srt` belongs to `film.mp4`, and so does `film.en.srt`. Those without a language come
    first, then English, then the others by name; among equals .srt, .vtt, .ass, .ssa.
    """
    found = []
    for candidate in path.parent.iterdir():
        suffix = candidate.suffix.lower()
        if suffix not in SUFFIXES:
            continue
        language = candidate.stem[len(path.stem) :]
        if not candidate.stem.startswith(path.stem) or not _LANGUAGE.fullmatch(language):
            continue
        english = language.lower().startswith(".en")
        order = (bool(language), not english, language, SUFFIXES.index(suffix))
        if candidate.is_file():
            found.append((order, candidate))
    return [candidate for _, candidate in sorted(found)]


def load(path: Path, options: IngestOptions) -> list[Cue]:
    """Return the cues of a subtitle file by time, without markup, comments and drawings.

    Args:
        path: A .srt, .vtt, .ass or .ssa file; its content decides on the format, else its suffix.
        options: Where notes go.

    Raises:
        IngestError: If it cannot be read or holds no cue.
        MissingDependencyError: If the `video` extra is not installed.
    """
    pysubs2 = require("pysubs2", extra="video", feature="reading subtitles")
    text = read_text(path, path.name, options).replace("\r\n", "\n").replace("\r", "\n")
    try:
        with quiet():
            parsed = _parsed(pysubs2, text, path.suffix.lower()[1:])
    except (ValueError, LookupError, pysubs2.Pysubs2Error) as error:
        raise IngestError(path.name, f"cannot be read as subtitles: {error}") from error
    cues = _cues(parsed, unescape=parsed.format == "vtt")
    if not cues:
        raise IngestError(path.name, "holds no subtitle")
    return cues


def _parsed(pysubs2: Any, text: str, named: str) -> Any:
    try:
        return pysubs2.SSAFile.from_string(text)
    except pysubs2.FormatAutodetectionError:
        return pysubs2.SSAFile.from_string(text, format_=named)


def from_events(events: Iterable[tuple[float, float, str]]) -> list[Cue]:
    """Return the cues of an embedded stream by time.

    Args:
        events: Begin and end in seconds, and the text in the markup of ASS.
    """
    pysubs2 = require("pysubs2", extra="video", feature="reading subtitles")
    return _cues(
        pysubs2.SSAEvent(start=round(start * 1000), end=round(stop * 1000), text=text)
        for start, stop, text in events
    )


def _cues(events: Iterable[Any], *, unescape: bool = False) -> list[Cue]:
    cues: list[_Lines] = []
    for event in events:
        if event.is_comment or event.is_drawing:
            continue
        text = event.plaintext
        if unescape:
            text = html.unescape(_CUE_TIME.sub("", text))
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        start = max(0, event.start) / 1000
        cues.append((start, max(start, event.end / 1000), tuple(lines)))
    # Fancy .ass files repeat a cue at the same time for its shadow.
    cues = sorted(dict.fromkeys(cues), key=lambda cue: cue[:2])
    if _rolls(cues):
        cues = _unrolled(cues)
    return [
        Cue(start=start, stop=stop, text=" ".join(lines)) for start, stop, lines in cues if lines
    ]


def _repeated(before: _Lines, cue: _Lines) -> int:
    """Return how many first lines of a cue stood at the end of the one before it."""
    if cue[0] - before[1] > _TOUCH_S:
        return 0
    longest = min(len(before[2]), len(cue[2]))
    return next((n for n in range(longest, 0, -1) if before[2][-n:] == cue[2][:n]), 0)


def _rolls(cues: list[_Lines]) -> bool:
    """Whether the file scrolls, each cue beginning with the line above it, as automatic ones do."""
    pairs = list(itertools.pairwise(cues))
    return len(pairs) > 2 and 2 * sum(_repeated(*pair) > 0 for pair in pairs) > len(pairs)


def _unrolled(cues: list[_Lines]) -> list[_Lines]:
    """Return the cues of a scrolling file, each line once: where it first appears."""
    return cues[:1] + [
        (cue[0], cue[1], cue[2][_repeated(before, cue) :])
        for before, cue in itertools.pairwise(cues)
    ]
