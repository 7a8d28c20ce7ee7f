"""Markdown: blocks by markdown-it; items are slices of the decoded file, tables are tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, SourceSpan
from canopy_rag.ingest.assemble import MAX_HEADING_CHARS, Assembler, Block, Border, Table
from canopy_rag.ingest.decode import read_text
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.plain import code_parts, paragraphs
from canopy_rag.ingest.sidecar import readable_name

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Interval = tuple[int, int]

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(?=#|[\w-]+[ \t]*[:=])(.*?)\r?\n(?:\1|\.\.\.)[ \t]*(?:\r?\n|$)", re.S
)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=]([^\n]*\S)", re.M)
_MAX_FRONT_MATTER = 10_000
_COMMENT = re.compile(r"<!--.*-->", re.S)
_DATA_URI = re.compile(r"data:[\w/+.;=-]*;base64,[A-Za-z0-9+/=]{200,}")
_MAX_GAP = 200
"""More characters than this between blocks (pictures' data, say) are no part of an item."""


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a Markdown file: text, and its pipe tables as tables.

    The title is that of the front matter, else the first heading of level 1, else the file's name.
    Markup stays in the text, which is verbatim; a heading's words and paths are without it.
    Embedded picture data (`data:` URIs) is left out.

    Raises:
        IngestError: If the file is empty, binary or in no known encoding.
        MissingDependencyError: If markdown-it is not installed.
    """
    text = read_text(path, uri, options)
    if not text.strip():
        raise IngestError(uri, "is empty: it holds only white space")
    front = _FRONT_MATTER.match(text[:_MAX_FRONT_MATTER])
    document = _Document(text, front.end() if front else 0)
    title = (_front_title(front.group(2)) if front else "") or document.first_heading()
    assembler = Assembler(uri, title or readable_name(Path(uri)), options, full_text=text)
    yield from assembler.items(document.stream())


def _front_title(front_matter: str) -> str:
    match = _FRONT_TITLE.search(front_matter)
    return match.group(1).strip("\"' \t") if match else ""


@dataclass(slots=True)
class _Document:
    """The block tokens of a file and where its lines are."""

    text: str
    begin: int
    """Where the body begins, after the front matter."""
    parser: MarkdownIt = field(init=False)
    tokens: list[Token] = field(init=False)
    references: dict[str, Any] = field(init=False, default_factory=dict)
    """Link definitions of the file, which markup in a heading may use."""
    line_starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        library = require("markdown_it", extra="index", feature="reading Markdown")
        # Deeper lists and quotes than markdown-it's 20 levels would be left out.
        self.parser = library.MarkdownIt("commonmark", {"maxNesting": 200}).enable("table")
        body = self.text[self.begin :]
        # Inline markup is looked at in headings only; the rest stays as written.
        self.parser.core.ruler.disable(["inline", "text_join"])
        self.tokens = self.parser.parse(body, self.references)
        ends = (self.begin + end.end() for end in _LINE_END.finditer(body))
        self.line_starts = [self.begin, *ends, len(self.text)]

    def first_heading(self) -> str:
        """Return the words of the first heading of level 1, or nothing."""
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.type == "heading_open" and token.tag == "h1":
                words = self._words(following.content)
                return words if len(words) <= MAX_HEADING_CHARS else ""
        return ""

    def stream(self) -> Iterator[Block | Table | Border]:
        """Yield what the file holds, in order, with borders where text is left out between."""
        position = self.begin
        for part, (start, stop) in self._parts():
            if _n_visible(self.text, position, start) > _MAX_GAP:
                yield Border()
            yield part
            position = stop

    def _parts(self) -> Iterator[tuple[Block | Table, Interval]]:
        tokens = iter(self.tokens)
        for token in tokens:
            if token.map is None:
                continue
            if token.type == "table_open":
                yield self._table(tokens), self._slice(token)
            elif token.type == "heading_open":
                yield from self._heading(token, next(tokens))
            elif token.type in ("fence", "code_block"):
                yield from self._code(*self._slice(token))
            elif token.type == "paragraph_open" or (
                token.type == "html_block" and not _COMMENT.fullmatch(token.content.strip())
            ):
                yield from self._paragraphs(*self._slice(token))

    def _slice(self, token: Token) -> Interval:
        """Return the characters of a token's lines, without the white space around them."""
        first, stop = token.map or [0, 0]
        start = self.line_starts[first]
        lines = self.text[start : self.line_starts[min(stop, len(self.line_starts) - 1)]]
        begin = start + len(lines) - len(lines.lstrip())
        return begin, max(begin, start + len(lines.rstrip()))

    def _heading(self, token: Token, inline: Token) -> Iterator[tuple[Block, Interval]]:
        start, stop = self._slice(token)
        words = self._words(inline.content)
        if words:
            level = int(token.tag[1:])
            block = Block(text=self.text[start:stop], level=level, title=words, char=(start, stop))
            yield block, (start, stop)

    def _words(self, content: str) -> str:
        """Return the words of a heading without markup; those of its pictures are their alt."""
        if len(content) > MAX_HEADING_CHARS:
            return content
        inline: list[Token] = []
        self.parser.inline.parse(content, self.parser, self.references, inline)
        return " ".join("".join(_texts(inline)).split())

    def _paragraphs(self, start: int, stop: int) -> Iterator[tuple[Block, Interval]]:
        """Yield a paragraph; in parts around embedded data, a raw HTML block at its blank lines."""
        position = start
        for data in (*_DATA_URI.finditer(self.text, start, stop), None):
            end = data.start() if data else stop
            for left, right in paragraphs(self.text[position:end]):
                interval = (position + left, position + right)
                yield Block(text=self.text[slice(*interval)], char=interval), interval
            position = data.end() if data else stop

    def _code(self, start: int, stop: int) -> Iterator[tuple[Block, Interval]]:
        """Yield a code block, its leaves the parts between blank lines."""
        code = self.text[start:stop]
        if code:
            leaves = code_parts(code)
            yield Block(text=code, char=(start, stop), sentences=leaves), (start, stop)

    def _table(self, tokens: Iterator[Token]) -> Table:
        """Read a table's tokens up to its end."""
        rows: list[list[str]] = []
        spans: list[SourceSpan] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
                number = len(rows) - 2  # the first row is the header
                span = SourceSpan(start=number, stop=number + 1, char=self._slice(token))
                spans.append(span)
            elif token.type == "inline":
                rows[-1].append(token.content)
        return Table(header=rows[0], rows=rows[1:], row_spans=spans[1:])


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type in ("text", "text_special", "code_inline", "image"):
            yield token.content


def _n_visible(text: str, start: int, stop: int) -> int:
    return len(text[start:stop].strip()) if stop > start else 0
