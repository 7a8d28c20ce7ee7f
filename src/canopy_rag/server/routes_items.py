"""`/v1/items/{id}`: the originals behind the evidence."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from canopy_rag.server.admission import unless_gone
from canopy_rag.server.errors import ApiError
from canopy_rag.server.files import (
    MAX_WIDTH,
    MIN_WIDTH,
    Original,
    original,
    page_picture,
    source_pdf,
)
from canopy_rag.server.items import found_item, item_dict
from canopy_rag.server.replies import dumps, json_reply
from canopy_rag.server.service import Service, service_of

router = APIRouter()
Served = Annotated[Service, Depends(service_of)]
ItemId = Annotated[str, Path(max_length=1000)]
SAFE_MEDIA = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
    "Content-Disposition": "inline",
}
"""A picture or video that is opened by itself runs nothing, whatever it holds."""


@router.get("/v1/items/{item_id}", summary="An item, long content in pages")
async def item(
    item_id: ItemId,
    request: Request,
    service: Served,
    start: Annotated[int, Query(ge=0)] = 0,
    stop: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """Return an item with its content from `start` to `stop`."""

    def work() -> bytes:
        return dumps(item_dict(service.index, item_id, start, stop))

    return json_reply(
        await unless_gone(request, service.searches.run(work), service.config.server.timeout_s)
    )


@router.get("/v1/items/{item_id}/media", summary="The picture or video of an item")
@router.head("/v1/items/{item_id}/media", include_in_schema=False)
async def media(item_id: ItemId, request: Request, service: Served) -> Response:
    """Return the picture or video of an item; ranges are possible."""

    def work() -> Original:
        return original(found_item(service.index, item_id), service.index.path)

    found = await unless_gone(request, service.heavy.run(work), service.config.server.timeout_s)
    if found.path is None:
        return Response(found.body, 200, SAFE_MEDIA, found.media_type)
    return FileResponse(found.path, headers=SAFE_MEDIA, media_type=found.media_type)


@router.get("/v1/items/{item_id}/pages/{page}", summary="A page of the PDF, as a picture")
async def page(
    item_id: ItemId,
    page: Annotated[int, Path(ge=1, le=1_000_000)],
    request: Request,
    service: Served,
    width: Annotated[int, Query(ge=MIN_WIDTH, le=MAX_WIDTH)] = 1200,
) -> Response:
    """Return a page of the PDF that an item comes from."""
    held = request.headers.get("if-none-match")

    def work() -> tuple[str, bytes | None]:
        path = source_pdf(found_item(service.index, item_id), service.index.path)
        if path is None:
            raise ApiError(404, f"item {item_id!r} does not come from a PDF")
        state = path.stat()
        key = (str(path), state.st_mtime_ns, state.st_size, page, width)
        tag = f'"{sha256(repr(key).encode()).hexdigest()[:32]}"'
        if held == tag:
            return tag, None
        return tag, service.pictures.get(key, partial(page_picture, path, page, width))

    tag, drawn = await unless_gone(
        request, service.heavy.run(work), service.config.server.timeout_s
    )
    # A browser asks each time: boxes on a page of the file of before would be in wrong places.
    headers = {**SAFE_MEDIA, "ETag": tag}
    if drawn is None:
        return Response(status_code=304, headers=headers)
    return Response(drawn, 200, headers, "image/png")
