"""Which line breaks inside a paragraph are borders, and which are just white space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Interval = tuple[int, int]

_BREAK = re.compile(r"\r\n?|[\n\v\f\u2028\u2029]")
_MARKED = re.compile(r"\s*(?:[-*+•‣◦▪–—·]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]|\[\d{1,3}\])\s+\S")
_ALIGNED = re.compile(r"\S(?: {3,}|\t+)\S")
_FIRST_WORD = re.compile(r"\s*(?:[\u2e80-\U0003ffff]{1,2}|\S+)")
_CONTINUED = (",", "-", "،", "，", "、")


def entries(text: str) -> Iterator[Interval]:
    r"""Yield the stretches of a paragraph that no sentence crosses, covering all of it.

    A line break is white space, as in hard-wrapped prose, unless lines are clearly separate:

    - at least two lines begin with a list mark (`-`, `•`, `3.`, `b)`, `[4]`): entries begin there;
    - at least three lines, and most of them hold columns (tabs or three spaces) or end although
      the next line's first word would have fitted: each line is an entry, except that one that
      begins with a lower-case letter, or follows a comma or hyphen, continues the one before.

    Whether a word would have fitted is judged by the width that three quarters of the lines keep.

    >>> [text[slice(*entry)] for text in ["- a\n- b", "so it\nwraps"] for entry in entries(text)]
    ['- a\n', '- b', 'so it\nwraps']
    """
    starts = [0, *(line_break.end() for line_break in _BREAK.finditer(text))]
    if len(starts) == 1:
        yield 0, len(text)
        return
    lines = [text[start:stop].rstrip() for start, stop in pairwise([*starts, len(text)])]
    borders = _borders(lines)
    yield from pairwise([0, *(starts[number] for number in borders), len(text)])


def _borders(lines: list[str]) -> list[int]:
    """Return the numbers of the lines that begin an entry, without line 0."""
    marked = [number for number, line in enumerate(lines) if _MARKED.match(line)]
    if len(marked) >= 2:
        return [number for number in marked if number]
    filled = [number for number, line in enumerate(lines) if line]
    if len(filled) < 3:
        return []
    # Lines of a form or a log differ in length; wrapped ones end where the next word won't fit.
    widths = sorted(len(lines[number]) for number in filled[:-1])
    width = widths[3 * len(widths) // 4]
    loose = [
        right
        for left, right in pairwise(filled)
        if not _continues(lines[left], lines[right])
        and (_ALIGNED.search(lines[left]) or _fits(lines[left], lines[right], width))
    ]
    if 2 * len(loose) <= len(filled) - 1:
        return []
    return [right for left, right in pairwise(filled) if not _continues(lines[left], lines[right])]


def _continues(left: str, right: str) -> bool:
    return left.endswith(_CONTINUED) or right.lstrip()[0].islower()


def _fits(left: str, right: str, width: int) -> bool:
    word = _FIRST_WORD.match(right)
    return word is not None and len(left) + 1 + len(word.group().lstrip()) <= width
