"""The page, signing in, and what the server says of itself."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from canopy_rag import __version__
from canopy_rag.server.bodies import SessionBody
from canopy_rag.server.errors import ApiError
from canopy_rag.server.guard import address_of
from canopy_rag.server.pages import STATIC, sign_in_page
from canopy_rag.server.replies import dumps, json_reply
from canopy_rag.server.service import Service, service_of
from canopy_rag.server.wording import first_problem

router = APIRouter()
Served = Annotated[Service, Depends(service_of)]
FORM = "application/x-www-form-urlencoded"
_SESSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SessionBody.model_json_schema()}},
    }
}


@router.get("/", summary="The explorer page")
async def page() -> Response:
    """Return the page."""
    found = STATIC / "index.html"
    if not found.is_file():
        raise ApiError(404, "the explorer page is not part of this installation")
    return FileResponse(found, media_type="text/html", headers={"Cache-Control": "no-cache"})


@router.get("/health", summary="Whether the server runs")
async def health() -> dict[str, str]:
    """Return ok; needs no key."""
    return {"status": "ok"}


@router.get("/metrics", summary="Numbers for Prometheus")
async def metrics(service: Served) -> Response:
    """Return all counts."""
    text, kind = service.metrics.text()
    return Response(text, media_type=kind)


@router.get("/v1/info", summary="What the index holds and what this server can do")
async def info(request: Request, service: Served) -> Response:
    """Return counts, model, limits."""

    def work() -> bytes:
        server, store = service.config.server, service.index.store
        limits = {
            "max_searches": server.max_searches,
            "max_answers": server.max_answers,
            "max_body_bytes": server.max_body_bytes,
            "max_upload_bytes": server.max_upload_bytes,
            "timeout_s": server.timeout_s,
        }
        about = {
            "version": __version__,
            "index": {"items": store.count(), "encoder": store.fingerprint.model},
            "model": None if service.llm is None else service.llm.name,
            "uploads": service.uploads is not None,
            "signed_in": service.cookie in request.cookies,
            "limits": limits,
        }
        return dumps(about)

    return json_reply(await service.searches.run(work))


@router.post("/v1/session", summary="Sign a browser in", openapi_extra=_SESSION, status_code=204)
async def sign_in(request: Request, service: Served) -> Response:
    """Exchange the key for a cookie."""
    raw = await request.body()
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    given = _form_key(raw) if is_form else _json_key(raw)
    address = address_of(request.scope)
    if service.key is not None and not service.key.matches(
        given.encode("utf-8", "replace"), address
    ):
        if is_form:
            return sign_in_page("This is not the key.")
        raise ApiError(401, "this is not the key")
    reply = RedirectResponse("/", 303) if is_form else Response(status_code=204)
    _set_cookie(reply, service)
    return reply


@router.delete("/v1/session", summary="Sign a browser out", status_code=204)
async def sign_out(request: Request, service: Served) -> Response:
    """Forget the session of the cookie."""
    service.sessions.close(request.cookies.get(service.cookie, ""))
    reply = Response(status_code=204)
    reply.delete_cookie(service.cookie, path="/", httponly=True, samesite="strict")
    return reply


def _set_cookie(reply: Response, service: Service) -> None:
    sessions = service.sessions
    reply.set_cookie(
        service.cookie,
        sessions.open(),
        max_age=int(sessions.lifetime_s),
        path="/",
        httponly=True,
        samesite="strict",
    )


def _json_key(raw: bytes) -> str:
    try:
        return str(SessionBody.model_validate_json(raw).key)
    except ValidationError as error:
        raise ApiError(400, first_problem(error.errors(include_input=False))) from error


def _form_key(raw: bytes) -> str:
    try:
        fields = parse_qs(raw.decode("ascii"), max_num_fields=10)
    except ValueError as error:
        raise ApiError(400, "this is no form") from error
    return fields.get("key", [""])[0]
