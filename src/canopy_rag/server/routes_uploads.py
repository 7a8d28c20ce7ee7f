"""`/v1/uploads`: add files, and hear how far they are."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from canopy_rag.server.errors import ApiError, ClientGoneError
from canopy_rag.server.replies import dumps, json_reply
from canopy_rag.server.service import Service, service_of
from canopy_rag.server.uploads import Uploads

router = APIRouter()


def uploads_of(service: Annotated[Service, Depends(service_of)]) -> Uploads:
    """Return the uploads of a server that takes some.

    Raises:
        ApiError: If it takes none.
    """
    if service.uploads is None:
        raise ApiError(403, "this server takes no files; start it with --allow-upload")
    return service.uploads


Taking = Annotated[Uploads, Depends(uploads_of)]


@router.post("/v1/uploads", status_code=202, summary="Add a file to the index")
async def upload(
    request: Request, uploads: Taking, name: Annotated[str, Query(min_length=1, max_length=1000)]
) -> Response:
    """Store the body as a file and index it in the background."""
    try:
        taken = await uploads.take(name, request.stream())
    except ClientDisconnect as error:
        raise ClientGoneError from error
    return json_reply(dumps(taken.to_dict()), 202)


@router.get("/v1/uploads", summary="The latest uploads")
async def latest(uploads: Taking) -> Response:
    """Return the uploads that are remembered, newest first."""
    return json_reply(dumps({"uploads": [each.to_dict() for each in uploads.latest()]}))


@router.get("/v1/uploads/{upload_id}", summary="How far an upload is")
async def one(upload_id: str, uploads: Taking) -> Response:
    """Return an upload as it stands."""
    return json_reply(dumps(uploads.get(upload_id).to_dict()))
