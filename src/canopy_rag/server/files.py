"""Files of the index, by item alone: originals of pictures and videos, pages of PDFs.

A caller names an item, never a path. The path comes from the index, and must lie inside the folder
that was indexed, links followed.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from canopy_rag import media
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import ImagePayload, Item, VideoPayload
from canopy_rag.ingest.pdf_page import LOCK, load
from canopy_rag.pipeline.factory import media_place
from canopy_rag.server.errors import ApiError

MAX_PICTURE_PX = 4_000_000
"""Pixels of a picture that is drawn anew."""
MAX_PAGE_PX = 12_000_000
MIN_WIDTH, MAX_WIDTH = 100, 2400
TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".mov": "video/quicktime",
    ".avi": "video/x-msvideo",
}
"""What is sent as it is; all else is drawn anew or not sent."""


class Original(NamedTuple):
    """A file to send as it is, or bytes that were made of it."""

    path: Path | None
    body: bytes
    media_type: str


class PageSize(NamedTuple):
    """A page of a PDF in points, as displayed."""

    page: int
    """1-based."""
    width: float
    height: float


def original(item: Item, folder: Path) -> Original:
    """Return the picture or video of an item.

    Args:
        item: The item.
        folder: The index's folder.

    Raises:
        ApiError: If it has none, or its file is gone or outside the indexed folders.
    """
    payload = item.payload
    if not isinstance(payload, ImagePayload | VideoPayload):
        raise ApiError(404, f"item {item.id!r} is a {item.modality}; it has no picture or video")
    if payload.media.startswith("data:"):
        return _inline(payload.media, item.id)
    path, name, root = _located(payload.media, folder, item.id)
    known = TYPES.get(path.suffix.lower())
    if known is not None:
        return Original(path, b"", known)
    if not isinstance(payload, ImagePayload):
        raise ApiError(404, f"the video of item {item.id!r} is of a kind that is not sent")
    try:
        drawn = media.image_data_uri(name, root, max_px=MAX_PICTURE_PX)
    except IngestError as error:
        raise ApiError(404, f"the picture of item {item.id!r} cannot be drawn") from error
    return _inline(drawn, item.id)


def source_pdf(item: Item, folder: Path) -> Path | None:
    """Return the PDF that an item comes from; None if it comes from another kind of file.

    Raises:
        ApiError: If the file is gone or outside the indexed folders.
    """
    if not item.source.uri.lower().endswith(".pdf"):
        return None
    return _located(item.source.uri, folder, item.id)[0]


def page_sizes(path: Path, pages: list[int]) -> list[PageSize]:
    """Return the sizes of pages, without those that the file does not have.

    Raises:
        ApiError: If the file is no PDF that can be opened.
    """
    with _document(path) as document:
        return [
            PageSize(page, *map(float, document.get_page_size(page - 1)))
            for page in pages
            if 1 <= page <= len(document)
        ]


def page_picture(path: Path, page: int, width: int) -> bytes:
    """Return a page of a PDF as a PNG.

    Args:
        path: The file.
        page: 1-based.
        width: Pixels; fewer for a page that is very high.

    Raises:
        ApiError: If there is no such page, or it cannot be drawn.
    """
    with _document(path) as document:
        if not 1 <= page <= len(document):
            raise ApiError(404, f"there is no page {page}; the file has {len(document)}")
        loaded = document[page - 1]
        try:
            across, down = loaded.get_size()
            if across <= 0 or down <= 0:
                raise ApiError(404, f"page {page} has no size")
            scale = min(width / across, (MAX_PAGE_PX / (across * down)) ** 0.5)
            bitmap = loaded.render(scale=scale)
            try:
                picture = bitmap.to_pil().copy()
            finally:
                bitmap.close()
        finally:
            loaded.close()
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _located(name: str, folder: Path, item_id: str) -> tuple[Path, str, Path]:
    """Return the file that an item names, and what found it: a name and its root."""
    found, root = media_place(folder)(name)
    if root is None:
        raise ApiError(404, f"the file of item {item_id!r} lies in no folder of this index")
    try:
        return media.locate(found, root).path, found, root
    except IngestError as error:
        raise ApiError(404, f"the file of item {item_id!r} is gone; index it again") from error


def _inline(uri: str, item_id: str) -> Original:
    """Return the picture inside a `data:` URI."""
    head, _, data = uri.partition(",")
    kind = head.removeprefix("data:").removesuffix(";base64")
    if kind not in ("image/png", "image/jpeg", "image/webp") or not head.endswith(";base64"):
        raise ApiError(404, f"the picture of item {item_id!r} is of a kind that is not sent")
    try:
        return Original(None, base64.b64decode(data, validate=True), kind)
    except binascii.Error as error:
        raise ApiError(404, f"the picture of item {item_id!r} is damaged") from error


@contextmanager
def _document(path: Path) -> Iterator[Any]:
    """Open a PDF, alone: pdfium may not be entered by two threads at once."""
    pdfium = load()
    with LOCK:
        try:
            document = pdfium.PdfDocument(path)
        except (pdfium.PdfiumError, OSError) as error:
            raise ApiError(404, "the PDF cannot be opened any more; index it again") from error
        try:
            yield document
        except pdfium.PdfiumError as error:
            raise ApiError(404, "this page of the PDF is broken") from error
        finally:
            document.close()
