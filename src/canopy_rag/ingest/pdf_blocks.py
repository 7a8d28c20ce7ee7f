"""Columns of lines to headings and paragraphs, each sentence with the boxes that it stands in."""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.types import Place, SourceSpan
from canopy_rag.ingest.assemble import Block
from canopy_rag.ingest.pdf_layout import Line, joint
from canopy_rag.ingest.pdf_page import Run
from canopy_rag.ingest.pdf_rules import Box, Edge, union

_BULLET = re.compile(r"[-•■▪▫◦●○‣⁃∙·–—*☐☒✓]\s")
_NUMBERED = re.compile(r"\(?([0-9]{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]\s")
_CLOSED = re.compile(r"[.!?:;。！？؟।…]['\"”’»)\]]*$")
_NOTE_MARK = re.compile(r"[\d*†‡§¹²³]")
MAX_HEADING_CHARS = 200
MAX_PIECES = 400
"""A paragraph of more runs, some pages, is none: it ends with its column."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Font sizes of a document, from a sample of its pages."""

    body: float
    """The size that most characters have."""
    headings: tuple[float, ...] = ()
    """Larger sizes of short lines, largest first."""

    def level(self, lines: Sequence[Line]) -> int:
        """Return the heading level of lines that belong together; 0 for a paragraph."""
        text = " ".join(line.text for line in lines)
        if len(lines) > 4 or len(text) > MAX_HEADING_CHARS or not any(map(str.isalpha, text)):
            return 0
        size = max(line.size for line in lines)
        larger = sum(other > size + 0.5 for other in self.headings)
        if size >= 1.15 * self.body:
            return min(larger + 1, 6)
        if all(line.bold for line in lines) and size >= 0.85 * self.body and text[-1] not in ".,;":
            return min(len(self.headings) + 1, 6)
        return 0


def sizes_of(columns: Iterable[Sequence[Line]]) -> Sizes:
    """Return the font sizes of a sample of columns."""
    chars: Counter[float] = Counter()
    shown: Counter[float] = Counter()
    for column in columns:
        for line in column:
            if line.table is None:
                chars[line.size] += len(line.text)
                shown[line.size] += len(line.text) <= MAX_HEADING_CHARS
    if not chars:
        return Sizes(body=10.0)
    body = chars.most_common(1)[0][0]
    headings: list[float] = []
    for size in sorted((size for size in shown if size >= 1.15 * body), reverse=True):
        if not headings or headings[-1] - size > 0.5:
            headings.append(size)
    return Sizes(body=body, headings=tuple(headings[:5]))


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a paragraph with its page."""

    page: int
    run: Run


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together, perhaps over a column or page border."""

    pieces: list[Piece]
    level: int
    size: float
    indented: bool
    """Whether its first line stands further in than the column."""
    is_row: bool
    table: int | None = None
    is_note: bool = False
    """Whether it is a footnote."""
    opens_column: bool = False

    @property
    def end(self) -> str:
        """The text of the last run."""
        return self.pieces[-1].run.text

    @property
    def is_open(self) -> bool:
        """Whether it may go on in the next column."""
        ends = self.level or self.is_row or self.table is not None or _CLOSED.search(self.end)
        return not ends and len(self.pieces) < MAX_PIECES

    def continues(self, other: Paragraph) -> bool:
        """Whether `other`, open, goes on in this one: at the top of a column or right below."""
        first, last = self.pieces[0], other.pieces[-1]
        text = first.run.text
        down = first.run.box[1] - last.run.box[3]
        if first.page == last.page and first.run.box[1] > last.run.box[1] and down > self.size / 2:
            return False
        return (
            self.opens_column
            and not (self.level or self.is_row or self.indented or self.table is not None)
            and self.is_note == other.is_note
            and abs(self.size - other.size) <= 0.6
            and not _BULLET.match(text)
        )

    def block(self, splitter: SentenceSplitter) -> Block:
        """Return the paragraph with a span for each sentence: one box for each run it covers."""
        text = ""
        starts: list[int] = []
        for piece in self.pieces:
            text += joint(text, piece.run.text)
            starts.append(len(text))
            text += piece.run.text
        sentences = [(0, len(text))] if self.level else splitter.split(text)
        spans = tuple(
            SourceSpan(start=start, stop=stop, places=self._places(starts, start, stop))
            for start, stop in sentences
        )
        return Block(text=text, level=self.level, sentences=tuple(sentences), spans=spans)

    def _places(self, starts: Sequence[int], start: int, stop: int) -> tuple[Place, ...]:
        places = []
        first = bisect_right(starts, start) - 1
        for piece, begin in zip(self.pieces[first:], starts[first:], strict=True):
            if begin >= stop:
                break
            low, high = max(start - begin, 0), max(stop - begin, 0)
            boxes = [
                box
                for box, char in zip(
                    piece.run.boxes[low:high], piece.run.text[low:high], strict=True
                )
                if not char.isspace()
            ]
            if boxes:
                places.append(Place(page=piece.page, box=rounded(union(boxes))))
        return tuple(places)


def rounded(box: Box) -> Box:
    """Return a box in hundredths of a point."""
    left, top, right, bottom = (round(side, 2) for side in box)
    return left, top, right, bottom


def paragraphs_of(
    columns: Sequence[Sequence[Line]], page: int, sizes: Sizes, edges: Sequence[Edge]
) -> list[Paragraph]:
    """Return the paragraphs of a page's columns in order, footnotes last."""
    body: list[Paragraph] = []
    notes: list[Paragraph] = []
    for column in columns:
        cut = _notes_from(column, sizes, edges)
        text = _split(column[:cut], page, sizes)
        if text:
            text[0].opens_column = True
        body += text
        for paragraph in _split(column[cut:], page, sizes):
            paragraph.is_note = True
            notes.append(paragraph)
    return body + notes


def _notes_from(column: Sequence[Line], sizes: Sizes, edges: Sequence[Edge]) -> int:
    """Return the position of a column's first footnote line; its length without footnotes."""
    cut = len(column)
    while cut and column[cut - 1].table is None and column[cut - 1].size <= 0.92 * sizes.body:
        cut -= 1
    if not 0 < cut < len(column) or column[cut - 1].table is not None:
        return len(column)
    above, first = column[cut - 1].box, column[cut].box
    ruled = any(
        edge.horizontal
        and above[3] - 2 <= edge.top <= first[1] + 2
        and edge.left < first[2]
        and edge.right > first[0]
        for edge in edges
    )
    return cut if ruled or _NOTE_MARK.match(column[cut].text) else len(column)


def _split(column: Sequence[Line], page: int, sizes: Sizes) -> list[Paragraph]:
    """Return the paragraphs of one column."""
    if not column:
        return []
    left = min(line.box[0] for line in column)
    right = max(line.box[2] for line in column)
    leading = _leading(column)
    groups: list[list[Line]] = [[column[0]]]
    for position in range(1, len(column)):
        before, line = column[position - 1], column[position]
        after = column[position + 1] if position + 1 < len(column) else None
        if (
            _differ(before, line, sizes)
            or _distance(before, line) > 1.35 * leading
            or _starts(before, line, after, (left, right))
        ):
            groups.append([])
        groups[-1].append(line)
    return [_paragraph(group, page, sizes, left) for group in groups]


def _paragraph(lines: Sequence[Line], page: int, sizes: Sizes, left: float) -> Paragraph:
    first = lines[0]
    return Paragraph(
        pieces=[Piece(page, run) for line in lines for run in line.runs],
        level=0 if first.table is not None or first.is_row else sizes.level(lines),
        size=first.size,
        indented=first.box[0] - left > 0.7 * first.size,
        is_row=first.is_row,
        table=first.table,
    )


def _leading(column: Sequence[Line]) -> float:
    """Return the usual distance of baselines in a column."""
    pairs = list(pairwise(column))
    near = [
        _distance(before, line)
        for before, line in pairs
        if 0 < _distance(before, line) <= 2 * max(before.size, line.size)
    ]
    size = statistics.median(line.size for line in column)
    # A column of few lines may hold nothing but gaps between paragraphs.
    return min(statistics.median(near), 1.6 * size) if near else 1.2 * size


def _distance(before: Line, after: Line) -> float:
    return (after.box[1] + after.box[3] - before.box[1] - before.box[3]) / 2


def _differ(before: Line, line: Line, sizes: Sizes) -> bool:
    """Whether two lines cannot belong to one paragraph by their looks."""
    if before.table is not None or line.table is not None or before.is_row or line.is_row:
        return True
    # Small capitals in a line make it up to a fifth smaller.
    if abs(before.size - line.size) > 0.2 * max(before.size, line.size):
        return True
    return before.bold != line.bold and (sizes.level([before]) or sizes.level([line])) > 0


def _starts(before: Line, line: Line, after: Line | None, sides: tuple[float, float]) -> bool:
    """Whether a line begins a paragraph by its mark, its indent, or the line above ending early."""
    left, right = sides
    size = line.size
    closed = _CLOSED.search(before.text) is not None
    if _BULLET.match(line.text):
        return True
    if closed and _NUMBERED.match(line.text):
        return True
    if line.box[0] - before.box[0] > 0.7 * size:
        if _BULLET.match(before.text) or _NUMBERED.match(before.text):
            return False
        # Hanging lines stay indented; the first line of a paragraph is followed by one at the left.
        return closed or after is None or line.box[0] - after.box[0] > 0.5 * size
    if closed and line.box[0] - left > 0.7 * size and abs(line.box[0] - before.box[0]) < 1:
        return before.box[2] < right - 0.1 * (right - left)
    return closed and before.box[2] < right - 0.3 * (right - left)
