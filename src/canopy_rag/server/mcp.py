"""`/mcp`: the MCP server, where its extra is installed."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from canopy_rag.server.admission import Gate
from canopy_rag.server.errors import OverloadedError
from canopy_rag.server.service import Service

PATH = "/mcp"
IDLE_S = 1800.0
"""Seconds after which a session that nobody uses is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpMount:
    """Paths to add, and what has to run while they are served."""

    routes: Sequence[BaseRoute] = ()
    running: Callable[[], contextlib.AbstractAsyncContextManager[Any]] = contextlib.nullcontext


class Gated:
    """Lets so many requests through at once; streams that only listen do not count.

    A call of a client that has gone outlives its request: what it computes or asks has places of
    its own, with those of REST.

    Args:
        app: What answers.
        gate: Admits calls.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        async with self._gate.place():
            await self._app(scope, receive, send)


def mcp_mount(service: Service) -> McpMount:
    """Return the MCP server as part of this one; nothing without the extra `mcp`.

    Host, origin and key are checked by the guard in front of all paths.
    """
    if importlib.util.find_spec("mcp") is None:
        return McpMount()
    from mcp.server.mcpserver.exceptions import ToolError

    from canopy_rag.integrations.mcp import create_server

    @contextlib.asynccontextmanager
    async def told() -> AsyncIterator[None]:
        try:
            yield
        except OverloadedError as error:
            raise ToolError(error.message) from error

    async def compute(call: Callable[[], Any]) -> Any:
        async with told():
            return await service.searches.run(call)

    @contextlib.asynccontextmanager
    async def answering() -> AsyncIterator[None]:
        async with told(), service.answers.place():
            yield

    server = create_server(
        service.index,
        llm="none" if service.llm is None else service.llm,
        config=service.config,
        timeout_s=service.config.server.timeout_s,
        compute=compute,
        answering=answering,
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, session_idle_timeout=IDLE_S, host=""
    )
    gate = Gate("mcp", service.config.server.max_answers)
    service.metrics.watch(gate)
    routes = [Route(route.path, endpoint=Gated(route.endpoint, gate)) for route in app.routes]
    return McpMount(routes=routes, running=server.session_manager.run)
