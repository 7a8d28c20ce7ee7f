"""What models write: citations in answers, objects in structured replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from canopy_rag.core.errors import OutputParseError

# The bracket is followed by a digit at once: `[ 3]` is what `neutral_numbers` leaves of a number
# that stood in a document. At most six digits, as longer ones are no fragments.
_CITATION = re.compile(
    r"[\[［【]\^?(?P<list>\d{1,6}(?:\s*(?:,|;|、|，|-|–|—|and)\s*\d{1,6})*)\s*[\]］】]"
)
# Quoted strings, an unfinished one too, stay as they are.
_PYTHON = re.compile(r'"(?:[^"\\]|\\.)*+"?|\b(?:True|False|None)\b', re.DOTALL)
_JSON_OF = {"True": "true", "False": "false", "None": "null"}
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
    for parsed in json_objects(text):
        return parsed
    raise OutputParseError(
        f"expected a JSON object, got {text[:80]!r}{'...' if len(text) > 80 else ''}", raw=text
    )


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a reply in order, not those inside others.

    Python's `True`, `False` and `None` are understood; an object that names a field twice is none.

    Args:
        text: As for `json_object`.

    >>> list(json_objects('{"a": 1} or {not JSON} or {"a": True}'))
    [{'a': 1}, {'a': True}]
    """
    position = text.find("{", max(0, text.rfind("</think>")))
    while position >= 0:
        stop = _end_of_block(text, position)
        block = _PYTHON.sub(lambda found: _JSON_OF.get(found[0], found[0]), text[position:stop])
        try:
            parsed: dict[str, Any] = _DECODER.raw_decode(block)[0]
        except (ValueError, RecursionError):
            pass  # not an object inside it, which would be taken for the whole
        else:
            yield parsed
        position = text.find("{", stop)


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object, as `object_pairs_hook`.

    Raises:
        ValueError: If one is named twice, as it is open which of them is meant.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is named twice")
    return fields


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=unique_fields)


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
