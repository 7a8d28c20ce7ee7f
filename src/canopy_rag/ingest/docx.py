"""Word documents: headings by style, paragraphs, lists, notes and tables; by python-docx.

A Word file has no pages until it is laid out, so items carry no places.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import MAX_HEADING_CHARS, Assembler, Block, Table
from canopy_rag.ingest.decode import read_bytes
from canopy_rag.ingest.docx_xml import (
    Styles,
    inner_blocks,
    notes_of,
    paragraph_text,
    table_cells,
)
from canopy_rag.ingest.grid import MAX_CELL_CHARS, Cell, GridRow, joined_header, spread
from canopy_rag.ingest.header import SAMPLE_ROWS, has_header
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.packed import check_unpacked
from canopy_rag.ingest.sidecar import readable_name

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NO_TITLES = frozenset({"", "word document", "untitled", "document", "document1"})


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a Word document: text, and its tables as tables.

    Text is as it stands after accepting tracked changes, with text boxes and notes after the
    paragraph that they belong to; headers, footers and comments are left out. A table of one row or
    column is layout, so text. The title is the document's property, else the first heading of level
    1 (or of style Title), else the file's name.

    Raises:
        IngestError: If the file is damaged, encrypted or no Word document.
        MissingDependencyError: If python-docx is not installed.
    """
    opened = _opened(path, uri)
    reader, body, title = _Reader(opened.styles, opened.notes), opened.body, opened.title
    if title.lower() in _NO_TITLES:
        title = reader.first_heading(body) or readable_name(Path(uri))
    yield from Assembler(uri, title, options).items(reader.stream(body))


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts of a document that are read."""

    body: Any
    styles: Styles
    notes: dict[tuple[str, str], list[str]]
    title: str


def _opened(path: Path, uri: str) -> _Opened:
    """Return the document's parts, after a look at what it would unpack to."""
    library = require("docx", extra="index", feature="reading Word documents")
    packages = require("docx.opc.exceptions", extra="index", feature="reading Word documents")
    if read_bytes(path, uri).startswith(_OLE):
        raise IngestError(uri, "is encrypted, or an old .doc: save it as .docx without a password")
    try:
        check_unpacked(path, uri)
        document = library.Document(str(path))
        return _Opened(
            body=document.element.body,
            styles=Styles(document.styles.element),
            notes=notes_of(document.part),
            title=str(document.core_properties.title or "").strip(),
        )
    except IngestError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        packages.OpcError,
        KeyError,
        ValueError,
        AttributeError,  # of parts that stand in the place of others
        SyntaxError,  # lxml's errors derive from it
        EOFError,
        NotImplementedError,  # encrypted entries
        RuntimeError,
    ) as error:
        detail = str(error)[:200] or type(error).__name__
        raise IngestError(uri, f"is damaged or no Word document: {detail}") from error


class _Reader:
    """Turns a document's body into blocks and tables.

    Args:
        styles: Heading levels by style.
        notes: The paragraphs of foot- and endnotes by kind and number.
    """

    def __init__(self, styles: Styles, notes: dict[tuple[str, str], list[str]]) -> None:
        self._styles = styles
        self._notes = notes

    def first_heading(self, body: Any) -> str:
        """Return the first heading of level 1, or nothing."""
        for kind, element in inner_blocks(body):
            if kind == "p" and self._styles.level(element) == 1:
                words = " ".join(paragraph_text(element).text.split())
                if 0 < len(words) <= MAX_HEADING_CHARS:
                    return words
        return ""

    def stream(self, body: Any) -> Iterator[Block | Table]:
        """Yield what the body holds, in order; a caption right above a table goes with it."""
        caption: Block | None = None
        pending = [inner_blocks(body)]
        while pending:
            kind, element = next(pending[-1], ("end", None))
            if kind == "end":
                pending.pop()
                continue
            if kind == "tbl":
                table = _table(element, caption.text if caption else "")
                if table is not None:
                    caption = None
                    yield table
                    continue
            if caption is not None:
                yield caption
                caption = None
            if kind == "tbl":
                pending.append(_inside(element))
                continue
            blocks = list(self._paragraph(element))
            if len(blocks) == 1 and self._styles.is_caption(element):
                caption = blocks[0]
            else:
                yield from blocks
        if caption is not None:
            yield caption

    def _paragraph(self, element: Any) -> Iterator[Block]:
        found = paragraph_text(element)
        if found.text:
            yield Block(text=found.text, level=self._styles.level(element))
        for text in found.boxes:
            yield Block(text=text)
        for note in found.notes:
            for text in self._notes.get(note, ()):
                yield Block(text=text)


def _table(element: Any, caption: str) -> Table | None:
    """Return a data table, or None for one that only arranges a page."""
    rows, n_head = table_cells(element)
    grid = [row for row, cells in zip(spread(rows), rows, strict=True) if cells and any(row.cells)]
    if len(grid) < 2 or len(grid[0].cells) < 2:
        return None
    n_head = min(n_head, len(grid) - 1)
    if not n_head:
        if _is_article(rows):
            return None
        n_head = int(has_header([row.cells for row in grid[: SAMPLE_ROWS + 1]]))
    head: list[GridRow] = grid[:n_head]
    while head and head[0].is_full_width:
        caption = caption or head[0].cells[0]
        del head[0]
    return Table(
        header=joined_header(head), rows=[row.cells for row in grid[n_head:]], caption=caption
    )


def _is_article(rows: Sequence[Sequence[Cell]]) -> bool:
    return any(len(cell.text) > MAX_CELL_CHARS for cells in rows for cell in cells)


def _inside(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paragraphs and tables of a table's cells."""
    for _, row in inner_blocks(table, ("tr",)):
        for _, cell in inner_blocks(row, ("tc",)):
            yield from inner_blocks(cell)
