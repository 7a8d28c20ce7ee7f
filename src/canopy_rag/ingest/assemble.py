"""From the blocks that a parser yields to text items, and from rows to table items.

Items end at structural borders, never inside a sentence or a row, and know the headings above them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from canopy_rag.core.trees import table_tree, text_tree
from canopy_rag.core.types import (
    Heading,
    Item,
    Place,
    Source,
    SourceSpan,
    TablePayload,
    TextPayload,
    item_id,
)
from canopy_rag.ingest.options import IngestOptions

Interval = tuple[int, int]
SEPARATOR = "\n\n"
MAX_HEADING_CHARS = 300
"""A longer heading is a paragraph that somebody formatted as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading or a paragraph (or list entry, code block, quote) as the parser found it."""

    text: str
    """Verbatim, without surrounding white space, not empty."""
    level: int = 0
    """1 to 6 for a heading; 0 for a paragraph."""
    title: str = ""
    """A heading's words without markup; empty: those of `text`."""
    char: Interval | None = None
    """Place in the decoded file, for plain text and Markdown; `text` is exactly that slice."""
    places: tuple[Place, ...] = ()
    anchor: str | None = None
    sentences: tuple[Interval, ...] | None = None
    """The leaves, where the parser knows them, as in a code block; None: by the splitter."""
    spans: tuple[SourceSpan, ...] = ()
    """Places of parts of `text`, ascending and disjoint, where they are closer than `places`; none
    reaches over the border of two sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table between blocks: it ends the text item before it. See `Assembler.table_items`."""

    header: Sequence[str]
    rows: Iterable[Sequence[str]]
    caption: str = ""
    row_spans: Sequence[SourceSpan] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A place where a text item must end, such as a picture's data between paragraphs.

    The text before and after it cannot be one contiguous stretch of the source.
    """


@dataclass(slots=True)
class _Group:
    """The blocks of the item that is being filled."""

    pieces: list[tuple[Block, list[Interval]]] = field(default_factory=list)
    size: int = 0
    n_body: int = 0
    """Number of leading pieces up to the last one that is no heading."""

    def append(self, block: Block, sentences: list[Interval]) -> None:
        self.pieces.append((block, sentences))
        self.size += len(block.text)
        if not block.level:
            self.n_body = len(self.pieces)


class Assembler:
    """Makes the items of one source: numbers them and keeps the headings in force.

    Args:
        uri: The source's name in every item.
        title: Title of the source, shown with each of its items.
        options: Sizes, splitter, branching.
        full_text: The decoded file, when blocks tell their characters in it: items are then exact
            slices of it.
    """

    def __init__(
        self, uri: str, title: str, options: IngestOptions, full_text: str | None = None
    ) -> None:
        self._uri = uri
        self._title = title
        self._options = options
        self._full_text = full_text
        self._ordinal = 0
        self._path: list[tuple[int, str]] = []

    @property
    def section(self) -> tuple[str, ...]:
        """The headings in force, outermost first, without one that repeats the title."""
        return tuple(title for _, title in self._path if title != self._title)

    def items(self, stream: Iterable[Block | Table | Border]) -> Iterator[Item]:
        """Yield the items of a source, in order.

        Text items grow to `target_chars` and end before a heading (of level 1, or once they are a
        third full), before the paragraph that would overfill them, and at tables and borders. A
        paragraph of more than twice the target is cut between sentences. Headings go with what
        follows them: those right before a table or border are in its `section`, not in a text.

        Args:
            stream: What the parser found, in order.
        """
        group = _Group()
        for part in stream:
            if isinstance(part, Table | Border):
                yield from self._before_border(group)
                group = _Group()
                if isinstance(part, Table):
                    yield from self.table_items(
                        part.header, part.rows, caption=part.caption, row_spans=part.row_spans
                    )
                continue
            for block, sentences in self._pieces(part):
                if self._ends_before(group, block):
                    body = group.pieces[: group.n_body] or group.pieces
                    yield self._text_item(body)
                    group = _regrouped(group.pieces[len(body) :])
                group.append(block, sentences)
        if group.pieces:
            yield self._text_item(group.pieces)

    def text_items(self, blocks: Iterable[Block | Border]) -> Iterator[Item]:
        """Yield the text items of a stream of blocks, in order; see `items`."""
        return self.items(blocks)

    def table_items(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        caption: str = "",
        row_spans: Sequence[SourceSpan] = (),
        sheet: str | None = None,
        cells: str | None = None,
    ) -> Iterator[Item]:
        """Yield the items of one table, at most `max_rows` rows each, every one with the header.

        Args:
            header: Column names as written; empty without.
            rows: Data rows, cells as written; read once, as the items are taken.
            caption: What the table is about.
            row_spans: Where rows came from, ascending and disjoint; intervals count the rows of
                the whole table.
            sheet: Name of the sheet.
            cells: Cell range of the whole table, such as `B3:F20`.
        """
        remaining, spans, first = iter(rows), deque(row_spans), 0
        while True:
            part = tuple(tuple(row) for row in islice(remaining, self._options.max_rows))
            if first and not part:
                return
            source = Source(
                uri=self._uri,
                ordinal=self._ordinal,
                spans=_spans_within(spans, first, first + len(part)),
                sheet=sheet,
                range=cells,
                first_row=first,
            )
            yield Item(
                id=item_id(self._uri, self._ordinal),
                modality="table",
                title=self._title,
                payload=TablePayload(header=tuple(header), rows=part, caption=caption),
                nodes=table_tree(len(part), self._options.branching),
                source=source,
                section=self.section,
            )
            self._ordinal += 1
            first += len(part)
            if not part:
                return

    def _pieces(self, block: Block) -> Iterator[tuple[Block, list[Interval]]]:
        """Yield a block with its sentences; an over-long paragraph in parts."""
        if block.level and len(block.text) <= MAX_HEADING_CHARS:
            yield block, []
            return
        sentences = block.sentences
        if sentences is None:
            sentences = tuple(self._options.splitter.split(block.text))
        yield from _parts(replace(block, level=0), sentences, self._options.target_chars)

    def _ends_before(self, group: _Group, block: Block) -> bool:
        """Whether the item that is being filled ends before `block`."""
        target = self._options.target_chars
        full = group.size + len(block.text) > target
        if not group.n_body:
            # Headings wait for their text, but a document of nothing else is cut, too.
            return full and block.level > 0 and group.size > 0
        if block.level:
            return group.size >= target // 3 or block.level <= 1
        return full

    def _before_border(self, group: _Group) -> Iterator[Item]:
        """Yield the item before a border; headings right before it are in force from there on."""
        trailing = [block for block, _ in group.pieces[group.n_body :]]
        levels = [block.level for block in trailing]
        if levels != sorted(set(levels)):
            # One of them has nothing below it and would be in nobody's section.
            yield self._text_item(group.pieces)
            return
        if group.n_body:
            yield self._text_item(group.pieces[: group.n_body])
        for block in trailing:
            self._enter(block.level, block.title or block.text)

    def _text_item(self, group: list[tuple[Block, list[Interval]]]) -> Item:
        section = self._section_at(group)
        text, spans, starts = self._joined([block for block, _ in group])
        headings: list[Heading] = []
        paragraphs: list[list[Interval]] = []
        for start, (block, sentences) in zip(starts, group, strict=True):
            if block.level:
                title = block.title or block.text
                stop = start + len(block.text)
                headings.append(Heading(start=start, stop=stop, level=block.level, text=title))
                self._enter(block.level, title)
            else:
                paragraphs.append([(start + begin, start + end) for begin, end in sentences])
        item = Item(
            id=item_id(self._uri, self._ordinal),
            modality="text",
            title=self._title,
            payload=TextPayload(text=text, headings=tuple(headings)),
            nodes=text_tree(len(text), paragraphs, headings, self._options.branching),
            source=Source(uri=self._uri, ordinal=self._ordinal, spans=spans),
            section=section,
        )
        self._ordinal += 1
        return item

    def _section_at(self, group: list[tuple[Block, list[Interval]]]) -> tuple[str, ...]:
        """Return the headings in force where a group begins.

        A heading that opens the group stands in its own text and ends those of its level.
        """
        first = group[0][0]
        if first.level:
            return tuple(
                title for level, title in self._path if level < first.level and title != self._title
            )
        return self.section

    def _enter(self, level: int, title: str) -> None:
        self._path = [(above, name) for above, name in self._path if above < level]
        self._path.append((level, title))

    def _joined(self, blocks: list[Block]) -> tuple[str, tuple[SourceSpan, ...], list[int]]:
        """Return an item's text, where it came from, and where each block starts in it."""
        first, last = blocks[0].char, blocks[-1].char
        if self._full_text is not None and first is not None and last is not None:
            text = self._full_text[first[0] : last[1]]
            starts = [block.char[0] - first[0] for block in blocks if block.char is not None]
            return text, (SourceSpan(start=0, stop=len(text), char=(first[0], last[1])),), starts
        spans: list[SourceSpan] = []
        starts, position = [], 0
        for block in blocks:
            starts.append(position)
            stop = position + len(block.text)
            if block.spans:
                spans.extend(_moved(block.spans, position))
            elif block.places or block.anchor:
                spans.append(
                    SourceSpan(start=position, stop=stop, places=block.places, anchor=block.anchor)
                )
            position = stop + len(SEPARATOR)
        return SEPARATOR.join(block.text for block in blocks), tuple(spans), starts


def _regrouped(pieces: list[tuple[Block, list[Interval]]]) -> _Group:
    group = _Group()
    for block, sentences in pieces:
        group.append(block, sentences)
    return group


def _moved(spans: Sequence[SourceSpan], by: int) -> tuple[SourceSpan, ...]:
    return tuple(replace(span, start=span.start + by, stop=span.stop + by) for span in spans)


def _spans_within(spans: deque[SourceSpan], first: int, stop: int) -> tuple[SourceSpan, ...]:
    """Return the spans of rows `[first, stop)`, counted from `first`; forget those before."""
    while spans and spans[0].stop <= first:
        spans.popleft()
    found: list[SourceSpan] = []
    for span in spans:
        if span.start >= stop:
            break
        inside = replace(span, start=max(span.start - first, 0), stop=min(span.stop, stop) - first)
        found.append(inside)
    return tuple(found)


def _parts(
    block: Block, sentences: Sequence[Interval], target: int
) -> Iterator[tuple[Block, list[Interval]]]:
    """Yield a paragraph, cut between sentences into parts of about `target` characters."""
    if len(block.text) <= 2 * target or len(sentences) < 2:
        if sentences:
            yield block, list(sentences)
        return
    begin, last = 0, sentences[-1][1]
    while begin < len(sentences):
        start, end = sentences[begin][0], begin + 1
        # A short rest is not worth an item of its own.
        while end < len(sentences) and (
            sentences[end][1] - start <= target or last - sentences[end][0] < target // 4
        ):
            end += 1
        stop = sentences[end - 1][1]
        char = None if block.char is None else (block.char[0] + start, block.char[0] + stop)
        inner = _moved([span for span in block.spans if start <= span.start < stop], -start)
        text = block.text[start:stop]
        part = replace(block, text=text, char=char, sentences=None, spans=inner)
        yield part, [(left - start, right - start) for left, right in sentences[begin:end]]
        begin = end
