"""The pages of a PDF as one stream of paragraphs and tables, and what of it could not be read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Place, SourceSpan
from canopy_rag.ingest import ocr
from canopy_rag.ingest.assemble import Block, Table
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.pdf_blocks import Paragraph, Sizes, paragraphs_of, rounded, sizes_of
from canopy_rag.ingest.pdf_layout import joint, reading_order
from canopy_rag.ingest.pdf_page import LOCK, Page, Run, load, read_page
from canopy_rag.ingest.pdf_rules import Box, Edge
from canopy_rag.ingest.pdf_running import without_running
from canopy_rag.ingest.pdf_tables import PageTable, find_tables, same_columns

SURVEYED_PAGES = 16
"""Pages from which the font sizes of body and headings are told."""
OCR_DPI = 150
_OCR_MAX_PX = 2000
_TABLE_NAME = re.compile(r"(table|tab\.|schedule|exhibit|tabelle|tableau|tabla)\s", re.I)


class Flow:
    """Makes the stream of one open document.

    Holds back a paragraph that its column leaves open until the next column or page has begun.
    """

    def __init__(self, document: Any, uri: str, options: IngestOptions) -> None:
        self._document = document
        self._uri = uri
        self._options = options
        self._read = lru_cache(maxsize=SURVEYED_PAGES)(self._page)
        self._broken: set[int] = set()
        self._pictures: list[int] = []
        self._pending: Paragraph | None = None
        self._held: list[Block | Table] = []
        self._last_table: tuple[int, PageTable] | None = None
        self._found = False

    def stream(self) -> Iterator[Block | Table]:
        """Yield what the document holds, in reading order."""
        for part in self._stream():
            self._found = True
            yield part

    def _stream(self) -> Iterator[Block | Table]:
        sizes = self._survey()
        pages = (self._read(index) for index in range(len(self._document)))
        for page in without_running((page for page in pages if page), sizes.body):
            if page.runs:
                yield from self._parts(page, sizes)
            elif page.has_picture:
                yield from self._flush()
                yield from self._pictured(page)
        yield from self._flush()

    def finish(self) -> None:
        """Say what could not be read.

        Raises:
            IngestError: If nothing could.
        """
        if self._broken:
            note(self._options, self._uri, f"damaged and left out: {_pages(self._broken)}")
        if self._found:
            if self._pictures:
                note(
                    self._options,
                    self._uri,
                    f"pictures without text that can be read: {_pages(self._pictures)}{_advice()}",
                )
            return
        if self._pictures:
            raise IngestError(
                self._uri, f"holds pictures of pages and no text, as scans do{_advice()}"
            )
        if self._broken:
            raise IngestError(
                self._uri, "is damaged: no page can be read", place=_pages(self._broken)
            )
        raise IngestError(self._uri, "holds no text on any page")

    def _page(self, index: int) -> Page | None:
        try:
            return read_page(self._document, index)
        except load().PdfiumError:
            self._broken.add(index + 1)
            return None

    def _survey(self) -> Sizes:
        """Return the font sizes of pages spread over the document."""
        n_pages = len(self._document)
        step = max(1, n_pages // SURVEYED_PAGES)
        pages = map(self._read, range(0, n_pages, step))
        return sizes_of(
            column for page in pages if page for column in reading_order(page.runs, page.edges)
        )

    def _parts(self, page: Page, sizes: Sizes) -> Iterator[Block | Table]:
        tables, runs = _tables_of(page, sizes)
        edges = [
            edge for edge in page.edges if not any(_inside(edge, table.box) for table in tables)
        ]
        columns = reading_order(runs, edges)
        for paragraph in paragraphs_of(columns, page.number, sizes, edges):
            if paragraph.table is not None:
                yield from self._aside(self._table(tables[paragraph.table], page.number))
            elif paragraph.is_note:
                yield from self._aside(paragraph.block(self._options.splitter))
            elif self._pending and self._pending.is_open and paragraph.continues(self._pending):
                self._pending.pieces += paragraph.pieces
            else:
                yield from self._flush()
                self._pending = paragraph

    def _aside(self, part: Block | Table) -> Iterator[Block | Table]:
        """Yield a table or footnote, or keep it until the paragraph around it has ended."""
        if self._pending and self._pending.is_open:
            self._held.append(part)
            return
        yield from self._flush()
        yield part

    def _flush(self) -> Iterator[Block | Table]:
        if self._pending:
            yield self._pending.block(self._options.splitter)
        yield from self._held
        self._pending, self._held = None, []

    def _table(self, table: PageTable, page: int) -> Table:
        """Return a table; one that goes on from the page before has that one's header."""
        header, rows, boxes = table.header, table.rows, table.row_boxes
        before = self._last_table[1] if self._last_table else None
        if (
            before is not None
            and self._last_table is not None
            and self._last_table[0] == page - 1
            and before.header not in {(), header}
            and not table.captions
            and same_columns(before.columns, table.columns)
        ):
            if header:
                rows, boxes = [header, *rows], [table.header_box, *boxes]
            header = before.header
        self._last_table = (page, PageTable(table.columns, table.box, header, rows, boxes))
        return Table(
            header=header,
            rows=rows,
            caption=" ".join(table.captions),
            row_spans=[
                SourceSpan(start=at, stop=at + 1, places=(Place(page=page, box=rounded(box)),))
                for at, box in enumerate(boxes)
            ],
        )

    def _pictured(self, page: Page) -> Iterator[Block]:
        """Yield the text that OCR reads on a page, one paragraph."""
        text = ""
        if self._options.ocr == "on" or (self._options.ocr == "auto" and ocr.available()):
            scale = min(OCR_DPI / 72, _OCR_MAX_PX / max(page.width, page.height, 1))
            with LOCK:
                image = self._document[page.number - 1].render(scale=scale).to_pil()
            for line in ocr.read_text(image.convert("RGB")).split("\n"):
                text += joint(text, line) + line
        if text.strip():
            yield Block(text=text.strip(), places=(Place(page=page.number),))
        else:
            self._pictures.append(page.number)


def _pages(numbers: Collection[int]) -> str:
    shown = sorted(numbers)
    text = ", ".join(map(str, shown[:20])) + (" and more" if len(shown) > 20 else "")
    return f"page{'s' if len(shown) > 1 else ''} {text}"


def _advice() -> str:
    if ocr.available():
        return "; OCR found none in them or is off (ingest.ocr)"
    return "; to read them, run: pip install 'canopy-rag[ocr]'"


def _inside(edge: Edge, box: Box) -> bool:
    x, y = (edge.left + edge.right) / 2, (edge.top + edge.bottom) / 2
    return box[0] - 3 <= x <= box[2] + 3 and box[1] - 3 <= y <= box[3] + 3


def _tables_of(page: Page, sizes: Sizes) -> tuple[list[PageTable], list[Run]]:
    """Return a page's tables and its other runs, with one run that stands for each table."""
    found = find_tables(page.edges, [run for run in page.runs if run.upright])
    taken = {id(run) for _, runs in found for run in runs}
    rest = [run for run in page.runs if id(run) not in taken]
    stand_ins: list[Run] = []
    for position, (table, _) in enumerate(found):
        caption = None if table.captions else _caption_of(table, rest)
        if caption is not None:
            table.captions.append(caption.text)
            rest = [run for run in rest if run is not caption]
        stand_ins.append(
            Run("\ufffc", (table.box,), table.box, sizes.body, bold=False, table=position)
        )
    return [table for table, _ in found], rest + stand_ins


def _caption_of(table: PageTable, runs: Sequence[Run]) -> Run | None:
    """Return the run just above a table, alone on its line, that is centred on it or names it."""
    left, top, right, _ = table.box
    above = [
        run
        for run in runs
        if run.upright
        and 0 <= top - run.box[3] + 2 <= 2.2 * run.size
        and run.box[0] < right
        and run.box[2] > left
    ]
    if len(above) != 1 or len(above[0].text) > 200:
        return None
    run = above[0]
    is_centred = abs(run.box[0] + run.box[2] - left - right) <= 0.1 * (right - left)
    is_narrow = run.box[2] - run.box[0] < 0.8 * (right - left)
    return run if (is_centred and is_narrow) or _TABLE_NAME.match(run.text) else None
