"""Where answers stand in a text: gold spans, exact to the character."""

from __future__ import annotations

import re
from collections.abc import Iterable

Interval = tuple[int, int]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_IN_NUMBER = re.compile(r"\d[.,:]\d")
# One character may be written as another of these.
_ALIKE = ("-‐‑‒–—−", "'’‘ʼ`´", '"“”„«»')
# Scripts that put no space between words: a word border cannot be seen there.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9f"
)


def answer_spans(text: str, answer: str) -> list[Interval]:
    """Return where an answer stands in a text, as half-open character intervals, in order.

    It is found in any letter case, with any white space between its words and around its marks, and
    with any of the usual dashes and quotes. It must be whole words: `4` is not found in `1945`,
    `4.5`, `1,400` or `4th`, and `cat` not in `cats`; where a script puts no space between words
    (Chinese, Japanese, Thai, ...) any place counts. An answer without a letter or digit is not
    looked for. The intervals are disjoint.

    Args:
        text: The text, verbatim.
        answer: What is looked for.

    >>> answer_spans("In 1945 he had 4 sons.", "4")
    [(15, 16)]
    >>> answer_spans("The Rock-n'  Roll  era", "the rock - n’ roll")
    [(0, 17)]
    """
    pattern = _pattern(answer)
    return [match.span() for match in pattern.finditer(text)] if pattern else []


def spans_of_any(text: str, answers: Iterable[str]) -> list[Interval]:
    """Return where any of several answers stands, as disjoint intervals, in order.

    Overlapping finds become one interval.

    >>> spans_of_any("the Roman Empire", ["Roman", "roman empire", "Greece"])
    [(4, 16)]
    """
    merged: list[Interval] = []
    for start, stop in sorted(span for answer in answers for span in answer_spans(text, answer)):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _pattern(answer: str) -> re.Pattern[str] | None:
    tokens = list(_TOKEN.finditer(answer))
    if not any(any(map(str.isalnum, token[0])) for token in tokens):
        return None
    parts = [_border(tokens[0][0], before=True)]
    for position, token in enumerate(tokens):
        if position:
            parts.append(_gap(answer, tokens[position - 1], token))
        parts.append(_written(token[0]))
    parts.append(_border(tokens[-1][0], before=False))
    return re.compile("".join(parts), re.IGNORECASE)


def _gap(answer: str, left: re.Match[str], right: re.Match[str]) -> str:
    """Return what may stand between two tokens: nothing inside a number such as `4.5`."""
    if left.end() < right.start():
        in_words = answer[left.end() - 1].isalnum() and answer[right.start()].isalnum()
        return r"\s+" if in_words else r"\s*"
    # The three characters around the place, such as `4.5`, on either side of the mark.
    around = (
        answer[left.end() - 1 : right.start() + 2],
        answer[left.end() - 2 : right.start() + 1],
    )
    return "" if any(map(_IN_NUMBER.fullmatch, around)) else r"\s*"


def _written(token: str) -> str:
    for alike in _ALIKE:
        if token in alike:
            return f"[{re.escape(alike)}]"
    return re.escape(token)


def _border(token: str, *, before: bool) -> str:
    edge = token[0] if before else token[-1]
    if not (edge.isalnum() or edge == "_") or re.match(f"[{_UNSPACED}]", edge):
        return ""
    if edge.isdecimal():
        return r"(?<!\w)(?<!\d[.,])" if before else r"(?!\w)(?![.,]\d)"
    return r"(?<!\w)" if before else r"(?!\w)"
