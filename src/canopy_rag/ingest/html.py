"""HTML: the main text in document order, tables as tables, anchors to jump to; by selectolax.

Nothing is executed or fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import MAX_HEADING_CHARS, Assembler, Block, Table
from canopy_rag.ingest.decode import decode, read_bytes
from canopy_rag.ingest.html_table import read_table
from canopy_rag.ingest.html_tree import (
    BLOCK_TAGS,
    HEADING_LEVELS,
    MAX_DEPTH,
    TEXT,
    Walker,
    clean,
    depth_of,
    main_part,
    replacement,
    visible_text,
)
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.plain import code_parts
from canopy_rag.ingest.sidecar import readable_name

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_CHARSET = re.compile(
    rb"<meta[^>]{1,200}charset\s*=\s*[\"']?\s*([\w-]+)|<\?xml[^>]{1,100}encoding=[\"']([\w-]+)",
    re.I,
)
_HEAD_BYTES = 4096


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a page: its main text, and its data tables as tables.

    The main text is that of the page's main landmark (`main`, a single `article`, `#content`), else
    of the body without its header, footer and asides; navigation, forms, scripts and what is hidden
    never count, nor do Wikipedia's note marks (`[1]`). White space is collapsed as a browser does;
    the text of pictures is their `alt`. The title is the only `h1`, else `title`, else the file's
    name.

    Raises:
        IngestError: If the file is empty or binary, or the page holds no text.
        MissingDependencyError: If selectolax is not installed.
    """
    library = require("selectolax.lexbor", extra="index", feature="reading HTML")
    data = read_bytes(path, uri)
    declared = _CHARSET.search(data, 0, _HEAD_BYTES)
    charset = (declared.group(1) or declared.group(2)).decode() if declared else None
    page = decode(data, uri, options, charset)
    if depth_of(page) > MAX_DEPTH:
        raise IngestError(uri, f"is nested more than {MAX_DEPTH:,} levels deep; save it anew")
    tree = library.LexborHTMLParser(page)
    root = main_part(tree)
    assembler = Assembler(uri, _title(tree, root) or readable_name(Path(uri)), options)
    is_empty = True
    for item in assembler.items(_Reader().stream(root) if root is not None else ()):
        is_empty = False
        yield item
    if is_empty:
        raise IngestError(
            uri,
            "holds no text outside of navigation and forms; if scripts build the page, save it "
            "from a browser",
        )


def _title(tree: LexborHTMLParser, root: LexborNode | None) -> str:
    head = tree.css_first("head > title")
    candidates = [" ".join(head.text().split())] if head is not None else []
    for part in (root, tree.body):
        headings = part.css("h1") if part is not None else []
        if headings:
            text = " ".join(visible_text(headings[0]).split())
            candidates.insert(0 if len(headings) == 1 else len(candidates), text)
            break
    return next((title for title in candidates if 0 < len(title) <= MAX_HEADING_CHARS), "")


class _Reader:
    """Turns the main part of a page into blocks and tables.

    It owns the text of the block that is being read and the nearest id before it.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._anchor: str | None = None
        self._block_anchor: str | None = None
        self._level = 0
        self._n_pre = 0

    def stream(self, root: LexborNode) -> Iterator[Block | Table]:
        """Yield what the page holds, in document order."""
        self._anchor = root.attributes.get("id") or None
        walker = Walker(root)
        for node, begins in walker:
            tag = node.tag or ""
            if tag == TEXT:
                if begins:
                    self._add(node.text_content or "")
                continue
            if begins:
                self._anchor = node.attributes.get("id") or self._anchor
            if begins and tag == "table" and not self._level:
                table = read_table(node, self._anchor)
                if table is not None:
                    yield from self._blocks()
                    yield table
                    walker.skip()
                    self._anchor = _last_id(node) or self._anchor
            elif tag in BLOCK_TAGS:
                yield from self._border(tag, begins=begins)
            elif begins:
                self._inline(node, tag, walker)
        yield from self._blocks()

    def _border(self, tag: str, *, begins: bool) -> Iterator[Block]:
        """Yield the block that ends where an element begins or ends."""
        level = HEADING_LEVELS.get(tag, 0)
        if self._level and not level:
            # A heading stays one block whatever it is made of.
            self._add(" ")
            return
        yield from self._blocks()
        if level:
            self._level = level if begins else 0
        if tag == "pre":
            self._n_pre += 1 if begins else -1

    def _inline(self, node: LexborNode, tag: str, walker: Walker) -> None:
        text = replacement(node)
        if text is not None:
            self._add(f" {text} ")
            walker.skip()
        elif tag == "br":
            self._parts.append(" " if self._level else "\n")
        elif "-" in tag:
            # A component of the page; its text is a word of its own.
            self._parts.append(" ")

    def _add(self, text: str) -> None:
        if not self._n_pre:
            text = re.sub(r"\s+", " ", text)
        if self._block_anchor is None and text.strip():
            self._block_anchor = self._anchor
        self._parts.append(text)

    def _blocks(self) -> Iterator[Block]:
        """Yield what was read since the last border; empty lines part paragraphs."""
        text, anchor, level = "".join(self._parts), self._block_anchor, self._level
        self._parts, self._block_anchor = [], None
        if not text.strip():
            return
        if self._n_pre and not level:
            code = text.strip()
            yield Block(text=code, anchor=anchor, sentences=code_parts(code))
            return
        for paragraph in re.split(r"\n[ \n]*\n", text):
            if paragraph.strip():
                yield Block(text=clean(paragraph), anchor=anchor, level=level)


def _last_id(node: LexborNode) -> str | None:
    ids = node.css("[id]")
    return ids[-1].attributes.get("id") if ids else None
