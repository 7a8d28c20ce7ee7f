"""What models write: citations in answers, objects in structured replies."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from canopy_rag.core.errors import OutputParseError

# The bracket is followed by a digit at once: `[ 3]` is what `neutral_numbers` leaves of a number
# that stood in a document. At most six digits, as longer ones are no fragments.
_CITATION = re.compile(
    r"[\[［【]\^?(?P<list>\d{1,6}(?:\s*(?:,|;|、|，|-|–|—|and)\s*\d{1,6})*)\s*[\]］】]"
)
_RANGE = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A fragment that an answer cites."""

    n: int
    """Number of the fragment, from 1."""
    start: int
    stop: int
    """Half-open character interval of the bracket that names it first."""


def citations(text: str, n_fragments: int) -> list[Citation]:
    """Return the fragments that an answer cites, each once, in the order of their first mention.

    Understood are `[1]`, `[1, 2]`, `[1][2]`, `[1-3]`, their mixtures, and the same in `【】`.
    Numbers of no fragment are left out; `unknown_citations` returns them.

    Args:
        text: The answer.
        n_fragments: How many fragments were shown.

    >>> [each.n for each in citations("Kano [2, 3] in 1882 [2][9].", 3)]
    [2, 3]
    """
    found: dict[int, Citation] = {}
    for match in _CITATION.finditer(text):
        for first, last in _ranges(match["list"]):
            for n in range(max(first, 1), min(last, n_fragments) + 1):
                found.setdefault(n, Citation(n=n, start=match.start(), stop=match.end()))
    return list(found.values())


def unknown_citations(text: str, n_fragments: int) -> list[int]:
    """Return the numbers that an answer cites and no fragment has, in order, each once.

    Of a range only its ends are looked at.

    >>> unknown_citations("Kano [2, 3] in 1882 [0][8-9].", 3)
    [0, 8, 9]
    """
    ends = (
        end
        for match in _CITATION.finditer(text)
        for interval in _ranges(match["list"])
        for end in interval
    )
    return list(dict.fromkeys(end for end in ends if not 1 <= end <= n_fragments))


def _ranges(listed: str) -> list[tuple[int, int]]:
    """Return the closed intervals of a list of numbers, the smaller end first."""
    intervals = []
    for match in _RANGE.finditer(listed):
        first, last = int(match[1]), int(match[2] or match[1])
        intervals.append((min(first, last), max(first, last)))
    return intervals


def json_object(text: str) -> dict[str, Any]:
    """Return the first JSON object in a reply, whatever stands around it.

    Args:
        text: A reply, perhaps with reasoning before the object, a code fence or words around it.

    Raises:
        OutputParseError: If there is none, or it breaks off.

    >>> json_object('Sure: ```json {"sufficient": true} ```')
    {'sufficient': True}
    """
    decoder = json.JSONDecoder(strict=False)
    position = text.find("{", max(0, text.rfind("</think>")))
    while position >= 0:
        try:
            parsed: dict[str, Any] = decoder.raw_decode(text, position)[0]
        except (ValueError, RecursionError):
            # Not an object inside it, which would be taken for the whole.
            position = text.find("{", _end_of_block(text, position))
        else:
            return parsed
    raise OutputParseError(
        f"expected a JSON object, got {text[:80]!r}{'...' if len(text) > 80 else ''}", raw=text
    )


def _end_of_block(text: str, start: int) -> int:
    """Return where the braces opened at `start` are closed again, else the end of the text."""
    depth, quoted, escaped = 0, False, False
    for position in range(start, len(text)):
        char = text[position]
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return position + 1
    return len(text)
