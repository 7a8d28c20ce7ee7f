"""Plain text: paragraphs between blank lines; items are exact slices of the decoded file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import Assembler, Block
from canopy_rag.ingest.decode import read_text
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.sidecar import readable_name

Interval = tuple[int, int]

_LINE_END = re.compile(r"\r\n?|\n")
_CODE_CHARS = 400
_MAX_PIECE = 1000
_LONG_LINE = 400
"""A paragraph with a longer line isn't hard-wrapped: each of its lines is a paragraph."""


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a plain text file.

    Raises:
        IngestError: If the file is empty, binary or in no known encoding.
    """
    text = read_text(path, uri, options)
    if not text.strip():
        raise IngestError(uri, "is empty: it holds only white space")
    assembler = Assembler(uri, readable_name(Path(uri)), options, full_text=text)
    yield from assembler.items(
        Block(text=text[start:stop], char=(start, stop)) for start, stop in paragraphs(text)
    )


def paragraphs(text: str) -> Iterator[Interval]:
    r"""Yield the paragraphs of a text as character intervals without white space around them.

    Blank lines part paragraphs; so does every line end around a line of more than 400 characters.

    >>> [text[slice(*one)] for text in ["a\nb\n \nc\n"] for one in paragraphs(text)]
    ['a\nb', 'c']
    """
    lines: list[Interval] = []
    for start, stop in _lines(text):
        if stop > start:
            lines.append((start, stop))
        else:
            yield from _merged(lines)
            lines = []
    yield from _merged(lines)


def code_parts(code: str) -> tuple[Interval, ...]:
    """Return the leaves of a code block: runs of lines of about 400 characters.

    They end at blank lines where there are any; a line is never cut unless it is longer than 1,000.
    """
    parts: list[Interval] = []
    joins = False
    for start, stop in _lines(code):
        if stop == start:
            joins = joins and parts[-1][1] - parts[-1][0] < _CODE_CHARS // 2
        elif joins and stop - parts[-1][0] <= _CODE_CHARS:
            parts[-1] = (parts[-1][0], stop)
        else:
            parts += _pieces_of_line(code, start, stop)
            joins = True
    return tuple(parts)


def _pieces_of_line(code: str, start: int, stop: int) -> Iterator[Interval]:
    """Yield a line in pieces of at most 1,000 characters, without white space around them."""
    for begin in range(start, stop, _MAX_PIECE):
        piece = _trimmed(code, begin, min(begin + _MAX_PIECE, stop))
        if piece[0] < piece[1]:
            yield piece


def _lines(text: str) -> Iterator[Interval]:
    """Yield the lines without the white space around them; blank ones are empty intervals."""
    start = 0
    for end in _LINE_END.finditer(text):
        yield _trimmed(text, start, end.start())
        start = end.end()
    yield _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, stop: int) -> Interval:
    line = text[start:stop]
    start += len(line) - len(line.lstrip())
    return start, max(start, stop - len(line) + len(line.rstrip()))


def _merged(lines: list[Interval]) -> Iterator[Interval]:
    if any(stop - start > _LONG_LINE for start, stop in lines):
        yield from lines
    elif lines:
        yield lines[0][0], lines[-1][1]
