"""The application: parts wired together, paths mounted, errors told in one form."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from canopy_rag import __version__
from canopy_rag.api import Index
from canopy_rag.config import Config, Secret
from canopy_rag.core.errors import CanopyError
from canopy_rag.core.protocols import LLM
from canopy_rag.pipeline import factory
from canopy_rag.server import (
    routes_ask,
    routes_chat,
    routes_items,
    routes_meta,
    routes_search,
    routes_uploads,
)
from canopy_rag.server.admission import Gate, Workers
from canopy_rag.server.cache import Cache
from canopy_rag.server.errors import ApiError, ClientGoneError
from canopy_rag.server.guard import Guard
from canopy_rag.server.hosts import check_bind
from canopy_rag.server.keys import Key, Sessions
from canopy_rag.server.mcp import McpMount, mcp_mount
from canopy_rag.server.metrics import Metrics
from canopy_rag.server.pages import STATIC, PageFiles
from canopy_rag.server.replies import error_reply, note
from canopy_rag.server.service import MAX_HEAVY, Service
from canopy_rag.server.uploads import Uploads
from canopy_rag.server.wording import first_problem

PICTURE_BYTES = 64_000_000
"""Drawn pages and pictures that are kept."""
logger = logging.getLogger(__name__)


def create_app(
    index: Index, *, config: Config | None = None, llm: LLM | None = None, key: Secret | None = None
) -> ASGIApp:
    """Return the application that answers over an index.

    Args:
        index: The index. It may be written to while it is searched.
        config: All settings; None: the index's.
        llm: The chat model; None: as configured.
        key: What callers must know; None: nothing is asked for.

    Raises:
        ConfigError: If others can reach the address and no key is asked for, or a setting cannot
            work.
        MissingDependencyError: If the extra `server` is not installed.
    """
    config = config or index.config
    check_bind(config.server, has_key=key is not None)
    service = build_service(index, config, llm, key)
    mount = mcp_mount(service)
    app = FastAPI(
        title="canopy-rag",
        version=__version__,
        lifespan=_lifespan(service, mount),
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    for module in (
        routes_meta,
        routes_search,
        routes_ask,
        routes_items,
        routes_uploads,
        routes_chat,
    ):
        app.include_router(module.router)
    app.router.routes.extend(mount.routes)
    app.mount("/static", PageFiles(directory=STATIC, check_dir=False))
    for kind in (ApiError, CanopyError, ClientGoneError, TimeoutError):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    return Guard(
        app,
        config=config.server,
        key=service.key,
        sessions=service.sessions,
        metrics=service.metrics,
        cookie=service.cookie,
    )


def build_service(index: Index, config: Config, llm: LLM | None, key: Secret | None) -> Service:
    """Return the parts of a server."""
    server, metrics = config.server, Metrics()
    answers = Gate("answers", server.max_answers)
    searches = Workers(Gate("searches", server.max_searches), server.threads)
    heavy = Workers(Gate("heavy", MAX_HEAVY), server.threads)
    for gate in (answers, searches.gate, heavy.gate):
        metrics.watch(gate)
    return Service(
        index=index,
        config=config,
        llm=factory.build_llm(config.llm) if llm is None else llm,
        key=None if key is None else Key(key),
        cookie=f"canopy_{server.port}",
        sessions=Sessions(server.session_s),
        metrics=metrics,
        searches=searches,
        heavy=heavy,
        answers=answers,
        uploads=Uploads(index, server, metrics.upload) if server.allow_upload else None,
        pictures=Cache(PICTURE_BYTES),
    )


def _lifespan(
    service: Service, mount: McpMount
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await _warm(service)
            if service.uploads is not None:
                service.uploads.resume()
            async with mount.running():
                yield
        finally:
            service.close()
            if service.llm is not None:
                await service.llm.aclose()

    return lifespan


async def _warm(service: Service) -> None:
    """Load weights and tables, so that the first caller does not wait for them."""
    try:
        await service.searches.run(lambda: service.index.search("warm", k=1))
    except CanopyError as error:  # a server of the encoder that is not up yet; callers will hear
        logger.warning("the first search failed: %s", error)


async def _told(_: Request, error: Any) -> Response:
    if isinstance(error, ClientGoneError):
        return Response(status_code=499)
    return error_reply(note(error))


async def _invalid(_: Request, error: Any) -> Response:
    return error_reply(ApiError(400, first_problem(error.errors())))


async def _http(_: Request, error: Any) -> Response:
    return error_reply(
        ApiError(error.status_code, _SAID.get(error.status_code, str(error.detail)), error.headers)
    )


_SAID = {
    400: "the body is not JSON",
    404: "there is nothing here; docs/http-api.md lists all paths",
    405: "this path knows no such method",
}
