"""One page of a PDF as pdfium reads it: characters with boxes, and nothing guessed.

All boxes are left, top, right, bottom in points from the top left corner of the page as displayed,
rotation and crop box applied. pdfium may not be entered by two threads at once: `LOCK` guards it.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from canopy_rag._optional import require
from canopy_rag.ingest.pdf_rules import Box, Edge, Placer, drawn, union

Char = tuple[str, Box]
LOCK = threading.RLock()

BOLD_WEIGHT = 600
COLUMN_GAP = 0.9
"""Gap, in font sizes, at which the parser's line is two runs: more than a justified space."""
_LINE_END_HYPHEN = "\x02"


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one line that the parser gives in one piece and one direction."""

    text: str
    boxes: tuple[Box, ...]
    """One per character; those of spaces say nothing."""
    box: Box
    size: float
    """Font size in points."""
    bold: bool
    """First, middle and last character are."""
    upright: bool = True
    table: int | None = None
    """Position of the table that the run stands for in the page's layout; None for text."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one page holds."""

    number: int
    """1-based."""
    width: float
    height: float
    runs: tuple[Run, ...]
    """In the parser's order."""
    edges: tuple[Edge, ...]
    has_picture: bool


def load() -> Any:
    """Import pypdfium2.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    return require("pypdfium2", extra="index", feature="reading PDF")


def read_page(document: Any, index: int) -> Page:
    """Read page `index` (0-based) of an open pdfium document and let go of it.

    Raises:
        pypdfium2.PdfiumError: If the page is broken.
    """
    raw = require("pypdfium2.raw", extra="index", feature="reading PDF")
    with LOCK:
        page = document[index]
        try:
            textpage = page.get_textpage()
            try:
                place = _placer(page)
                chars = _chars(raw, textpage, place)
                runs = tuple(_runs(raw, textpage, chars))
            finally:
                textpage.close()
            edges, has_picture = drawn(raw, page, place)
            width, height = page.get_size()
        finally:
            page.close()
    return Page(index + 1, width, height, runs, edges, has_picture)


def read_chars(document: Any, index: int) -> list[Char]:
    """Return the characters of page `index` (0-based) in the parser's order, line ends included."""
    raw = require("pypdfium2.raw", extra="index", feature="reading PDF")
    with LOCK:
        page = document[index]
        try:
            textpage = page.get_textpage()
            try:
                return [(char, box) for _, char, box in _chars(raw, textpage, _placer(page))]
            finally:
                textpage.close()
        finally:
            page.close()


def _placer(page: Any) -> Placer:
    """Return the map from the page's own coordinates to those of the displayed page."""
    left, bottom, right, top = page.get_bbox()
    turns: dict[int, Placer] = {
        0: lambda x, y: (x - left, top - y),
        90: lambda x, y: (y - bottom, x - left),
        180: lambda x, y: (right - x, y - bottom),
        270: lambda x, y: (top - y, right - x),
    }
    return turns[page.get_rotation()]


def _chars(raw: Any, textpage: Any, place: Placer) -> list[tuple[int, str, Box]]:
    """Return position, character and box of each character of a text page."""
    rect = raw.FS_RECTF()
    reference = ctypes.byref(rect)
    handle, box_of, unicode_of = textpage.raw, raw.FPDFText_GetLooseCharBox, raw.FPDFText_GetUnicode
    chars: list[tuple[int, str, Box]] = []
    high = 0
    for index in range(textpage.count_chars()):
        code = unicode_of(handle, index)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        if code in {0, 0xFFFE, 0xFFFF}:
            continue
        box_of(handle, index, reference)
        x0, y0 = place(rect.left, rect.bottom)
        x1, y1 = place(rect.right, rect.top)
        box = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        chars.append((index, _character(code), box))
    return chars


def _character(code: int) -> str:
    char = chr(code)
    if char == _LINE_END_HYPHEN:
        return "-"
    if char in "\r\n":
        return "\n"
    return char if char.isprintable() or not char.isascii() else " "


def _runs(raw: Any, textpage: Any, chars: Sequence[tuple[int, str, Box]]) -> Iterator[Run]:
    """Yield the runs of a page: cut at the parser's line ends and at gaps as wide as a column's."""
    current: list[tuple[int, str, Box]] = []
    last: Box | None = None
    for entry in chars:
        _, char, box = entry
        if char == "\n" or (last is not None and not char.isspace() and _apart(last, box)):
            if last is not None:
                yield _run(raw, textpage, current)
            current, last = [], None
        if char.isspace() and (last is None or char == "\n"):
            continue
        current.append(entry)
        if not char.isspace():
            last = box
    if last is not None:
        yield _run(raw, textpage, current)


def _apart(before: Box, after: Box) -> bool:
    """Whether two neighbours in the parser's order belong to different runs."""
    height = max(before[3] - before[1], after[3] - after[1], 1.0)
    width = max(before[2] - before[0], after[2] - after[0], 1.0)
    across = max(after[0] - before[2], before[0] - after[2])
    down = max(after[1] - before[3], before[1] - after[3])
    shared = min(before[3], after[3]) - max(before[1], after[1])
    if shared >= 0.4 * min(before[3] - before[1], after[3] - after[1]):
        return across > COLUMN_GAP * height
    # Turned text goes up or down without line ends in the parser's text.
    return across > -0.4 * min(before[2] - before[0], after[2] - after[0]) or down > width


def _run(raw: Any, textpage: Any, entries: Sequence[tuple[int, str, Box]]) -> Run:
    entries = list(entries)
    while entries[-1][1].isspace():
        entries.pop()
    visible = [entry for entry in entries if not entry[1].isspace()]
    first, last = visible[0], visible[-1]
    box = union(entry[2] for entry in visible)
    thirds = [first[0], visible[len(visible) // 2][0], last[0]]
    size = sorted(_size(raw, textpage, index) for index in thirds)[1]
    down = abs(first[2][1] + first[2][3] - last[2][1] - last[2][3])
    across = abs(first[2][0] + first[2][2] - last[2][0] - last[2][2])
    return Run(
        text="".join(" " if char.isspace() else char for _, char, _ in entries),
        boxes=tuple(box for _, _, box in entries),
        box=box,
        size=round(size, 1) if size > 0 else round(box[3] - box[1], 1),
        bold=all(_bold(raw, textpage, index) for index in thirds),
        upright=len(visible) < 2 or across >= down,
    )


def _size(raw: Any, textpage: Any, index: int) -> float:
    # The font size alone says little: many producers set 1 and scale by the text matrix.
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(textpage.raw, index, ctypes.byref(matrix))
    return float(raw.FPDFText_GetFontSize(textpage.raw, index) * math.hypot(matrix.c, matrix.d))


def _bold(raw: Any, textpage: Any, index: int) -> bool:
    if raw.FPDFText_GetFontWeight(textpage.raw, index) >= BOLD_WEIGHT:
        return True
    name = ctypes.create_string_buffer(128)
    flags = ctypes.c_int()
    raw.FPDFText_GetFontInfo(textpage.raw, index, name, 128, ctypes.byref(flags))
    return any(word in name.value.lower() for word in (b"bold", b"black", b"heavy"))
