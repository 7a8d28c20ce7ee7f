"""Sentences of a paragraph in many scripts, as character intervals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.text.lines import entries

Interval = tuple[int, int]

_CLOSING = "\"'”’»›)\\]}」』）】〉》〕］｝"
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff66-\uff9f"
# Marks that end a sentence in every context, with the quotes that close after them: full stops of
# Chinese and Japanese, Arabic and Urdu, Devanagari, Armenian, Ethiopic, Burmese, Khmer, Tibetan,
# Mongolian; and the Western marks where CJK text stands before them, which needs no space after.
# A quotation goes on where Japanese cites it (と) or a comma follows.
_FIRM_END = re.compile(
    rf"(?:[。｡！？؟۔।॥։።፧။។៕༎᠃]|．(?!\d)|(?<=[{_CJK}])[!?])+[!?！？…]*[{_CLOSING}]*"
    rf"(?!(?<=[{_CLOSING}])(?:と|って|、|，|,))(?![{_CLOSING}])"
)
_WESTERN_END = re.compile(rf"[.!?…][{_CLOSING}]*(?:\s+\S|[A-Z])")
# German writes dates as `3. Mai`, which syntok takes for two sentences.
_ORDINAL = re.compile(r"\b\d{1,2}\.$")
_MONTH = re.compile(
    r"(?:Jänner|Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)"
)

_UNSPACED = re.compile("[\u0e00-\u0eff]")
"""Thai and Lao: spaces stand between phrases and nothing marks the end of a sentence."""
_PHRASE_BREAK = re.compile(r"(?<!\d)\s++(?![\dๆຯ])")
_PHRASE_CHARS = 80

_SOFT_BREAKS = (re.compile(r".*[;:；：]\s", re.S), re.compile(r".*(?:[,،]\s|[，、；：])", re.S))
_SPACE = re.compile(r".*\s", re.S)
_STRAY_CHARS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSplitter:
    """Splits paragraphs by syntok's rules, and by the marks and spaces of other scripts.

    It implements `SentenceSplitter`. Sentences end

    - at a line break, only where lines are separate entries (see `text.lines.entries`);
    - at a mark that always ends a sentence in its script (`。 ؟ ।` and others);
    - at `. ! ?` by syntok, which knows abbreviations, initials and dates;
    - in Thai and Lao at spaces, so that phrases make pieces of about 80 characters;
    - before `max_chars`, at a semicolon, comma or space, else inside the word.

    A few marks without any letter or digit stay with the sentence before them. Time grows linearly
    with the text.

    >>> text = "Dr. Smith left at 3 p.m. today. 他走了。再见！"
    >>> [text[start:stop] for start, stop in DefaultSplitter().split(text)]
    ['Dr. Smith left at 3 p.m. today.', '他走了。', '再见！']
    """

    max_chars: int = 1000
    """Longest sentence in characters; about the window of a 256-token encoder."""

    def __post_init__(self) -> None:
        if self.max_chars < 1:
            raise ConfigError(f"the splitter's max_chars must be above 0, got {self.max_chars}")

    def split(self, text: str) -> list[Interval]:
        """Return the sentences of one paragraph; see `SentenceSplitter.split`."""
        found: list[Interval] = []
        for entry in entries(text):
            first = len(found)
            for chunk in _cut(entry, (mark.end() for mark in _FIRM_END.finditer(text, *entry))):
                for sentence in _western(text, chunk):
                    for phrase in _phrases(text, sentence):
                        for piece in _bounded(text, phrase, self.max_chars):
                            self._append(found, text, piece, joins=len(found) > first)
        return found

    def _append(self, found: list[Interval], text: str, piece: Interval, *, joins: bool) -> None:
        """Add a piece without the white space around it; stray marks join the sentence before."""
        content = text[slice(*piece)]
        start = piece[0] + len(content) - len(content.lstrip())
        stop = start + len(content.strip())
        if start == stop:
            return
        stray = stop - start <= _STRAY_CHARS and not any(map(str.isalnum, text[start:stop]))
        if stray and joins and stop - found[-1][0] <= self.max_chars:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))


def _cut(interval: Interval, positions: Iterator[int]) -> Iterator[Interval]:
    """Yield the parts of an interval between ascending positions inside it."""
    start, stop = interval
    for position in positions:
        if start < position < stop:
            yield start, position
            start = position
    yield start, stop


def _western(text: str, chunk: Interval) -> Iterator[Interval]:
    """Yield the sentences that syntok finds by `. ! ?`."""
    if not _WESTERN_END.search(text, *chunk):
        yield chunk
        return
    tokenizer = require("syntok.tokenizer", extra="index", feature="sentence splitting")
    segmenter = require("syntok.segmenter", extra="index", feature="sentence splitting")
    start, stop = chunk
    tokens = tokenizer.Tokenizer(replace_not_contraction=False).tokenize(text[start:stop])
    firsts = (start + sentence[0].offset for sentence in segmenter.segment(tokens))
    yield from _cut(chunk, (first for first in firsts if _ends_at(text, first)))


def _ends_at(text: str, position: int) -> bool:
    """Whether a sentence may end before `position`, where syntok begins another."""
    before = text[max(position - 40, 0) : position].rstrip()
    if before.endswith((";", "(")):
        return False
    return not (_ORDINAL.search(before) and _MONTH.match(text, position))


def _phrases(text: str, sentence: Interval) -> Iterator[Interval]:
    """Yield runs of phrases of about `_PHRASE_CHARS` where a script marks no sentences."""
    start, stop = sentence
    length = stop - start
    if length <= _PHRASE_CHARS or 2 * _count(_UNSPACED, text[start:stop]) < length:
        yield sentence
        return
    begin = start
    for space in _PHRASE_BREAK.finditer(text, start, stop):
        if space.start() - begin >= _PHRASE_CHARS:
            yield begin, space.start()
            begin = space.end()
    yield begin, stop


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def _bounded(text: str, sentence: Interval, limit: int) -> Iterator[Interval]:
    """Yield an over-long sentence in pieces of at most `limit` characters."""
    start, stop = sentence
    while stop - start > limit:
        position = _break_before(text, start, start + limit)
        yield start, position
        start = position
    yield start, stop


def _break_before(text: str, start: int, stop: int) -> int:
    """Return the best place for a cut in `(start, stop]`."""
    half = (start + stop) // 2
    for pattern, begin in ((_SOFT_BREAKS[0], half), (_SOFT_BREAKS[1], half), (_SPACE, start)):
        match = pattern.match(text, begin, stop)
        if match and text[start : match.end()].strip():
            return match.end()
    for position in range(stop, max(stop - 16, start + 1), -1):
        # A letter and its combining marks stay together.
        if position == len(text) or not unicodedata.category(text[position]).startswith("M"):
            return position
    return stop
