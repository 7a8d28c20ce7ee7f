"""PDF to items: paragraphs in reading order and ruled tables, each sentence and row with its place.

pdfium reads the characters, one page at a time. A paragraph is its lines joined by a space, or by
nothing after a hyphen and in scripts without spaces (`pdf_layout.joint`); no character is changed.
A sentence's places are one box for each run of text that it covers; `read_place` reads them again.
Left out are running headers and footers (`pdf_running`). Pages that show a picture and no text are
read by OCR where that is installed, and have a page as their place, without a box.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, Place
from canopy_rag.ingest.assemble import Assembler
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.pdf_flow import Flow
from canopy_rag.ingest.pdf_layout import joint
from canopy_rag.ingest.pdf_page import LOCK, load, read_chars
from canopy_rag.ingest.pdf_rules import Box
from canopy_rag.ingest.sidecar import readable_name

_PASSWORD_ERROR = 4
_END_MARK_BYTES = 2048
_NO_TITLE = re.compile(r"untitled|microsoft (word|excel|powerpoint)\b.*|.*\.[a-z]{2,4}", re.I)


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a PDF, page by page.

    A page that is damaged, or shows a picture that nobody can read, is named in a note; the others
    are read.

    Args:
        path: The file.
        uri: Its name in items and errors.
        options: Sizes, splitter, OCR, where notes go.

    Raises:
        IngestError: If the file is empty, no PDF, damaged, protected by a password, or without any
            text.
        MissingDependencyError: If `pypdfium2` or `pdfplumber` is missing; or `rapidocr`, when
            `options.ocr` is `on` and a page needs it.
    """
    with _opened(path, uri) as document:
        assembler = Assembler(uri, _title(document, uri), options)
        flow = Flow(document, uri, options)
        yield from assembler.items(flow.stream())
        flow.finish()
    if _is_cut(path):
        note(options, uri, "ends before its end mark: it may have been cut, with pages missing")


def read_place(path: Path, places: Sequence[Place]) -> str:
    """Return the parser's text of places in a PDF: characters whose middle is in the box.

    The texts of several places are joined as lines of a paragraph are. White space is one space.

    Args:
        path: The file.
        places: Pages and boxes, in order; without a box, a whole page.

    Raises:
        IngestError: If the file cannot be opened.
        IndexError: If there is no such page.
    """
    text = ""
    with _opened(path, path.name) as document:
        read = lru_cache(maxsize=4)(lambda index: read_chars(document, index))
        for place in places:
            found = _text_in(read(place.page - 1), place.box)
            text += joint(text, found) + found
    return text


def _text_in(chars: Sequence[tuple[str, Box]], box: Box | None) -> str:
    """Return the text in a box; a space counts if its neighbours are in."""
    text, pending = "", False
    for char, (left, top, right, bottom) in chars:
        if char.isspace():
            pending = True
            continue
        x, y = (left + right) / 2, (top + bottom) / 2
        inside = box is None or (
            box[0] - 0.01 <= x <= box[2] + 0.01 and box[1] - 0.01 <= y <= box[3] + 0.01
        )
        if inside:
            text += (" " if pending and text else "") + char
        pending = False if inside else bool(text)
    return text


@contextmanager
def _opened(path: Path, uri: str) -> Iterator[Any]:
    pdfium = load()
    try:
        if path.stat().st_size == 0:
            raise IngestError(uri, "is empty: 0 bytes")
        with LOCK:
            document = pdfium.PdfDocument(path)
            len(document)
    except OSError as error:
        raise IngestError(uri, f"cannot be read: {error.strerror or error}") from error
    except pdfium.PdfiumError as error:
        raise IngestError(uri, _reason(error, path)) from error
    try:
        yield document
    finally:
        with LOCK:
            document.close()


def _reason(error: Exception, path: Path) -> str:
    if getattr(error, "err_code", None) == _PASSWORD_ERROR:
        return "is protected by a password: save a copy without one"
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(1024):
            return "is no PDF: its content does not begin like one"
    if _is_cut(path):
        return "is cut off before its end: get the whole file again"
    return f"is damaged and cannot be opened ({error}): save it anew from the program it came from"


def _is_cut(path: Path) -> bool:
    """Whether the end mark is missing from the last bytes of the file."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _END_MARK_BYTES))
        return b"%%EOF" not in file.read()


def _title(document: Any, uri: str) -> str:
    """Return the title in the metadata if it is one in words, else the file's name."""
    with LOCK:
        title = " ".join(document.get_metadata_value("Title").split())
    usable = 3 <= len(title) <= 200 and any(char.isalpha() for char in title)
    return title if usable and not _NO_TITLE.fullmatch(title) else readable_name(Path(uri))
