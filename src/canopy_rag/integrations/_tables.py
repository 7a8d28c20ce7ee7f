"""Tables written as text inside a document, so that no row is cut and no header is lost.

Frameworks hand tables over as Markdown. Their rows become leaves of the document's tree, and the
header lines are context of every row: never evidence alone, shown whenever a row is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from canopy_rag.core.trees import leaves, text_tree
from canopy_rag.core.types import Item, Node

Interval = tuple[int, int]

_LINE = re.compile(r"[^\n]+")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t\r]*")
"""The line below a header: dashes between pipes."""
_MAX_RULE_CHARS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeTable:
    """A Markdown table in a text; all intervals are half-open and in characters of the text."""

    header: Interval
    """Header line and the rule below it."""
    rows: tuple[Interval, ...]
    """One interval a line, at least one."""

    @property
    def start(self) -> int:
        """Where the header begins."""
        return self.header[0]

    @property
    def stop(self) -> int:
        """Where the last row ends."""
        return self.rows[-1][1]


def pipe_tables(text: str) -> tuple[PipeTable, ...]:
    r"""Return the Markdown tables of a text, in order: header line, rule, then rows.

    >>> [table.rows for table in pipe_tables("| a |\n|---|\n| 1 |\n| 2 |\n\nEnd.")]
    [((12, 17), (18, 23))]
    """
    if "|" not in text:
        return ()
    lines = [found.span() for found in _LINE.finditer(text)]
    return tuple(_tables(text, lines))


def _tables(text: str, lines: Sequence[Interval]) -> Iterator[PipeTable]:
    position = 0
    while position + 2 < len(lines):
        first, rule = lines[position], lines[position + 1]
        last = position + 2
        if _is_header(text, first, rule):
            while last < len(lines) and _follows(text, lines[last - 1], lines[last]):
                last += 1
        if last > position + 2:
            rows = tuple(_trimmed(text, line) for line in lines[position + 2 : last])
            yield PipeTable(header=(first[0], rule[1]), rows=rows)
            position = last
        else:
            position += 1


def _is_header(text: str, line: Interval, rule: Interval) -> bool:
    dashes = text[slice(*rule)]
    return (
        "|" in text[slice(*line)]
        and rule[0] == line[1] + 1
        and "|" in dashes
        and len(dashes) <= _MAX_RULE_CHARS
        and _RULE.fullmatch(dashes) is not None
    )


def _follows(text: str, before: Interval, line: Interval) -> bool:
    return line[0] == before[1] + 1 and "|" in text[slice(*line)]


def _trimmed(text: str, line: Interval) -> Interval:
    written = text[slice(*line)]
    return line[0], line[0] + len(written.rstrip())


def with_rows(
    item: Item, text: str, tables: Sequence[PipeTable], branching: int
) -> tuple[Node, ...]:
    """Return the tree of a document with the rows of its tables as leaves.

    Args:
        item: The document as plain text.
        text: Its text.
        tables: The tables in it, in order.
        branching: Most children of a node.
    """
    sentences = [
        (int(item.nodes[leaf].start), int(item.nodes[leaf].stop)) for leaf in leaves(item.nodes)
    ]
    around = [piece for sentence in sentences for piece in _outside(text, sentence, tables)]
    blocks = [*_paragraphs(text, around, tables), *(table.rows for table in tables)]
    return text_tree(len(text), sorted(blocks, key=lambda block: block[0]), (), branching)


def _outside(text: str, sentence: Interval, tables: Sequence[PipeTable]) -> Iterator[Interval]:
    """Yield what of a sentence stands outside all tables, without white space around it."""
    start, stop = sentence
    for table in tables:
        if table.stop <= start or stop <= table.start:
            continue
        yield from _bare(text, start, table.start)
        start = max(start, table.stop)
    yield from _bare(text, start, stop)


def _bare(text: str, start: int, stop: int) -> Iterator[Interval]:
    piece = text[start:stop]
    if piece.strip():
        yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _paragraphs(
    text: str, sentences: Sequence[Interval], tables: Sequence[PipeTable]
) -> list[tuple[Interval, ...]]:
    """Group sentences; a blank line or a table between two ends a paragraph."""
    groups: list[list[Interval]] = []
    for sentence in sentences:
        before = groups[-1][-1][1] if groups else None
        if before is None or _parts(text, before, sentence[0], tables):
            groups.append([])
        groups[-1].append(sentence)
    return [tuple(group) for group in groups]


def _parts(text: str, stop: int, start: int, tables: Sequence[PipeTable]) -> bool:
    if any(stop <= table.start < start for table in tables):
        return True
    return text[stop:start].count("\n") > 1


def shown_intervals(
    kept: Sequence[Interval], tables: Sequence[PipeTable], *, bare: bool
) -> list[Interval]:
    """Return what is shown of a text: what was kept, and the headers of kept rows.

    Args:
        kept: Kept intervals, ascending, disjoint.
        tables: The tables of the text.
        bare: Leave the headers out, since nothing fits with them.
    """
    headers = [
        table.header
        for table in tables
        if not bare and any(start < table.stop and table.rows[0][0] < stop for start, stop in kept)
    ]
    merged: list[Interval] = []
    for start, stop in sorted([*kept, *headers]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
