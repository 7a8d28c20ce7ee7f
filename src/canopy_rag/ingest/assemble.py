"""From the blocks that a parser yields to text items, and from rows to table items.

Items end at structural borders, never inside a sentence or a row, and know the headings above them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A place where a text item must end, such as a table between paragraphs.

    The text before and after it cannot be one contiguous stretch of the source.
    """


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

    def text_items(self, blocks: Iterable[Block | Border]) -> Iterator[Item]:
        """Yield the text items of a stream of blocks, in order."""
        target = self._options.target_chars
        group: list[tuple[Block, list[Interval]]] = []
        size, has_body = 0, False
        for piece in self._pieces(blocks):
            if piece is None or (has_body and self._ends_before(piece[0], size, target)):
                if has_body:
                    yield self._text_item(group)
                    group, size, has_body = [], 0, False
                if piece is None:
                    continue
            group.append(piece)
            size += len(piece[0].text)
            has_body = has_body or not piece[0].level
        if group:
            yield self._text_item(group)

    def table_items(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        caption: str = "",
        row_spans: Sequence[SourceSpan] = (),
        sheet: str | None = None,
        cells: str | None = None,
    ) -> Iterator[Item]:
        """Yield the items of one table, at most `max_rows` rows each, every one with the header.

        Args:
            header: Column names as written; empty without.
            rows: Data rows, cells as written.
            caption: What the table is about.
            row_spans: Where rows came from; intervals count the rows of the whole table.
            sheet: Name of the sheet.
            cells: Cell range of the whole table, such as `B3:F20`.
        """
        step = self._options.max_rows
        for first in range(0, max(len(rows), 1), step):
            part = tuple(tuple(row) for row in rows[first : first + step])
            spans = tuple(
                replace(span, start=span.start - first, stop=span.stop - first)
                for span in row_spans
                if first <= span.start < first + step
            )
            source = Source(
                uri=self._uri,
                ordinal=self._ordinal,
                spans=spans,
                sheet=sheet,
                range=cells,
                first_row=first,
            )
            payload = TablePayload(header=tuple(header), rows=part, caption=caption)
            yield Item(
                id=item_id(self._uri, self._ordinal),
                modality="table",
                title=self._title,
                payload=payload,
                nodes=table_tree(len(part), self._options.branching),
                source=source,
                section=self.section,
            )
            self._ordinal += 1

    def _pieces(
        self, blocks: Iterable[Block | Border]
    ) -> Iterator[tuple[Block, list[Interval]] | None]:
        """Yield blocks with their sentences, over-long paragraphs in parts; None at a border."""
        for block in blocks:
            if isinstance(block, Border):
                yield None
            elif block.level:
                yield block, []
            else:
                sentences = self._options.splitter.split(block.text)
                yield from _parts(block, sentences, self._options.target_chars)

    def _ends_before(self, block: Block, size: int, target: int) -> bool:
        """Whether the item so far, which has body text, ends before `block`."""
        if block.level:
            return size >= target // 3 or block.level <= 1
        return size + len(block.text) > target

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
        starts, spans, position = [], [], 0
        for block in blocks:
            starts.append(position)
            stop = position + len(block.text)
            if block.places or block.anchor:
                spans.append(
                    SourceSpan(
                        start=position, stop=stop, places=block.places, anchor=block.anchor
                    )
                )
            position = stop + len(SEPARATOR)
        return SEPARATOR.join(block.text for block in blocks), tuple(spans), starts


def _parts(
    block: Block, sentences: list[Interval], target: int
) -> Iterator[tuple[Block, list[Interval]]]:
    """Yield a paragraph, cut between sentences into parts of about `target` characters."""
    if len(block.text) <= 2 * target or len(sentences) < 2:
        if sentences:
            yield block, sentences
        return
    begin = 0
    while begin < len(sentences):
        end = begin + 1
        while end < len(sentences) and sentences[end][1] - sentences[begin][0] <= target:
            end += 1
        start, stop = sentences[begin][0], sentences[end - 1][1]
        char = None if block.char is None else (block.char[0] + start, block.char[0] + stop)
        part = replace(block, text=block.text[start:stop], char=char)
        yield part, [(left - start, right - start) for left, right in sentences[begin:end]]
        begin = end
