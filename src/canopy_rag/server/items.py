"""An item as JSON: its content in pages, its leaves, its source, what else there is of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from canopy_rag.api import Index
from canopy_rag.core.errors import StoreError
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import (
    UNIT_OF,
    ImagePayload,
    Item,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.server.errors import ApiError
from canopy_rag.server.files import page_sizes, source_pdf

TEXT_PAGE = 200_000
"""Characters of a text that are sent at once."""
TABLE_PAGE = 500
"""Rows of a table that are sent at once."""


def found_item(index: Index, wanted: str) -> Item:
    """Return the item of an id.

    Raises:
        ApiError: If there is none.
    """
    try:
        return index.item(wanted)
    except StoreError as error:
        raise ApiError(404, f"there is no item {wanted[:100]!r}") from error


def item_dict(index: Index, wanted: str, start: int, stop: int | None) -> dict[str, Any]:
    """Return an item in the form that `docs/http-api.md` gives.

    Args:
        index: Where it is.
        wanted: Its id.
        start: First character or row to send.
        stop: Where to stop, after a page at most; None: after a page.

    Raises:
        ApiError: If there is no such item.
    """
    item = found_item(index, wanted)
    root, source = item.nodes[0], item.source
    payload = item.payload
    return {
        "id": item.id,
        "corpus": item.corpus,
        "modality": item.modality,
        "title": item.title,
        "section": list(item.section),
        "unit": UNIT_OF[item.modality],
        "start": root.start,
        "stop": root.stop,
        "leaves": [
            [node.start, node.stop] for node in (item.nodes[each] for each in leaves(item.nodes))
        ],
        "source": {
            "uri": source.uri,
            "ordinal": source.ordinal,
            "sheet": source.sheet,
            "range": source.range,
            "first_row": source.first_row,
        },
        "previous": _neighbour(index, item, -1),
        "next": _neighbour(index, item, +1),
        item.modality: _CONTENT[type(payload)](payload, start, stop),
        "media": f"/v1/items/{item.id}/media"
        if isinstance(payload, ImagePayload | VideoPayload)
        else None,
        "pages": _pages(item, index.path),
    }


def _end(length: int, start: int, stop: int | None, page: int) -> int:
    """Return where a page ends: as asked, but within the item and not after more than a page."""
    return min(length, start + page, length if stop is None else stop)


def _text(payload: TextPayload, start: int, stop: int | None) -> dict[str, Any]:
    end = _end(len(payload.text), start, stop, TEXT_PAGE)
    return {
        "start": start,
        "stop": max(start, end),
        "text": payload.text[start:end],
        "headings": [
            {"start": each.start, "stop": each.stop, "level": each.level, "text": each.text}
            for each in payload.headings
            if start <= each.start < end
        ],
    }


def _table(payload: TablePayload, start: int, stop: int | None) -> dict[str, Any]:
    end = _end(len(payload.rows), start, stop, TABLE_PAGE)
    return {
        "caption": payload.caption,
        "header": list(payload.header),
        "n_rows": len(payload.rows),
        "start": start,
        "stop": max(start, end),
        "rows": [list(row) for row in payload.rows[start:end]],
    }


def _image(payload: ImagePayload, start: int, stop: int | None) -> dict[str, Any]:
    return {
        "width": payload.width,
        "height": payload.height,
        "caption": payload.caption,
        "ocr": payload.ocr,
    }


def _video(payload: VideoPayload, start: int, stop: int | None) -> dict[str, Any]:
    return {
        "duration_s": payload.duration_s,
        "width": payload.width,
        "height": payload.height,
        "caption": payload.caption,
        "segments": [
            {"start": each.start, "stop": each.stop, "subtitles": each.subtitles}
            for each in payload.segments
        ],
    }


_CONTENT: dict[type, Callable[[Any, int, int | None], dict[str, Any]]] = {
    TextPayload: _text,
    TablePayload: _table,
    ImagePayload: _image,
    VideoPayload: _video,
}


def _neighbour(index: Index, item: Item, step: int) -> str | None:
    """Return the id of the item before or after in the same source, if there is one."""
    if item.source.ordinal + step < 0:
        return None
    wanted = item_id(item.source.uri, item.source.ordinal + step)
    try:
        return wanted if index.item(wanted).source.uri == item.source.uri else None
    except StoreError:
        return None


def _pages(item: Item, folder: Path) -> list[dict[str, Any]]:
    """Return the pages of a PDF that an item stands on; none if the file is gone."""
    numbers = sorted({place.page for span in item.source.spans for place in span.places})
    try:
        path = source_pdf(item, folder) if numbers else None
        sizes = [] if path is None else page_sizes(path, numbers)
    except ApiError:
        return []  # the item itself is in the index, whole
    return [
        {
            "page": each.page,
            "width": each.width,
            "height": each.height,
            "image": f"/v1/items/{item.id}/pages/{each.page}",
        }
        for each in sizes
    ]
