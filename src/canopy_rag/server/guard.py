"""What stands in front of every request: host, origin, key, size and time of the body, headers.

One plain ASGI layer, so that what is mounted (MCP, files) has the same guard as our own paths.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from canopy_rag.config import ServerConfig
from canopy_rag.server.errors import FAULT, ApiError, OverloadedError
from canopy_rag.server.hosts import Callers
from canopy_rag.server.keys import Key, Sessions
from canopy_rag.server.logs import shown_path
from canopy_rag.server.metrics import Metrics
from canopy_rag.server.pages import sign_in_page
from canopy_rag.server.replies import error_reply, note

logger = logging.getLogger(__name__)
access = logging.getLogger("canopy_rag.server.access")

SESSION_PATH = "/v1/session"
UPLOAD_PATH = "/v1/uploads"
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
BODY_BYTES = {"/v1/chat/completions": 2_000_000, "/mcp": 4_000_000}
"""Longest body by path; reading JSON holds up everything else. Documents to compress have the
limit of the settings."""
SHORT_BYTES = 256_000
"""Longest body of all other paths."""
BUFFERS = 16
"""Longest bodies that are held in memory at once; more wait outside."""
CORS_HEADERS = "authorization, content-type, mcp-session-id, mcp-protocol-version, last-event-id"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
SAFE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": PAGE_POLICY.encode(),
    b"cache-control": b"no-store",
}
"""Sent with every reply that does not set them itself."""


class Guard:
    """Lets through what may pass.

    Args:
        app: What is guarded.
        config: Limits.
        key: What callers must know; None: everybody on this machine may ask.
        sessions: Of browsers.
        metrics: Counts.
        cookie: Name of the sessions' cookie.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        config: ServerConfig,
        key: Key | None,
        sessions: Sessions,
        metrics: Metrics,
        cookie: str,
    ) -> None:
        self._app = app
        self._config = config
        self._key = key
        self._sessions = sessions
        self._metrics = metrics
        self._cookie = cookie
        self._callers = Callers.of(config, has_key=key is not None)
        self._n_buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, and account for it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        reply = _Reply(send, self._config.write_timeout_s, self._cors_headers(scope))
        started = time.perf_counter()
        try:
            await self._guarded(scope, receive, reply)
        except asyncio.CancelledError:
            raise
        except _StalledError:
            logger.debug("a client took nothing of its reply")
        except Exception as error:  # the one place where faults end
            if reply.status is None:
                await error_reply(note(error))(scope, receive, reply)
            else:
                logger.error("a reply broke off: %s", error, exc_info=error)
        finally:
            seconds = time.perf_counter() - started
            status = reply.status or 499
            self._metrics.request(scope, status, seconds)
            where = shown_path(scope["path"])
            access.info("%s %s %d %.0f ms", scope["method"], where, status, 1000 * seconds)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _single(scope)
        self._check_caller(scope, headers)
        if self._is_preflight(scope, headers):
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        is_open = scope["path"] == "/health" or (
            scope["path"] == SESSION_PATH and scope["method"] == "POST"
        )
        if not is_open and not self._may_ask(headers, scope):
            if scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
                await sign_in_page()(scope, receive, send)
                return
            raise ApiError(
                401,
                "this server needs its key: send it as `Authorization: Bearer KEY`",
                {"WWW-Authenticate": "Bearer"},
            )
        if scope["method"] not in BODY_METHODS:
            await self._app(scope, receive, send)
            return
        _check_type(scope["path"], headers)
        await self._with_body(scope, headers, receive, send)

    def _check_caller(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._callers.takes_host(host):
            raise ApiError(
                421,
                f"this server is not {host[:200]!r}; if it is, start it with --allow-host",
            )
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._callers.takes_origin(origin.decode("latin-1"), host):
                raise ApiError(403, "pages of this origin may not call; see --allow-origin")
        elif headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            opened = headers.get(b"sec-fetch-mode") == b"navigate" and scope["method"] == "GET"
            if not opened or headers.get(b"sec-fetch-dest") != b"document":
                raise ApiError(403, "pages of other sites may not call")

    def _is_preflight(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers

    def _cors_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return what allows a page of another origin, if it is an allowed one, to read."""
        origin = dict(scope.get("headers", ())).get(b"origin")
        if origin is None or origin.decode("latin-1").lower() not in self._callers.origins:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", CORS_HEADERS.encode()),
            (b"access-control-expose-headers", b"retry-after, mcp-session-id"),
            (b"access-control-max-age", b"600"),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"vary", b"origin"),
        ]

    def _may_ask(self, headers: dict[bytes, bytes], scope: Scope) -> bool:
        if self._key is None:
            return True
        given = headers.get(b"authorization")
        if given is not None:
            scheme, _, value = given.partition(b" ")
            return scheme.lower() == b"bearer" and self._key.matches(
                value.strip(), address_of(scope)
            )
        token = cookie_of(headers.get(b"cookie", b""), self._cookie)
        return token is not None and self._sessions.holds(token)

    async def _with_body(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        config = self._config
        is_upload = scope["path"] == UPLOAD_PATH
        limit = config.max_upload_bytes if is_upload else config.max_body_bytes
        if not is_upload and scope["path"] != "/v1/compress":
            limit = min(limit, BODY_BYTES.get(scope["path"], SHORT_BYTES))
        length = _length(headers)
        if length is not None and length > limit:
            raise ApiError(413, f"the body has {length} bytes, {limit} are allowed")
        if is_upload:
            await self._app(scope, _timed(receive, config.body_timeout_s), send)
            return
        room = BUFFERS * config.max_body_bytes
        held = 0

        def hold(n: int) -> None:
            nonlocal held
            # Also while a body arrives: many that are let in together are small until then.
            if self._n_buffered + n > room:
                raise OverloadedError("bytes of bodies", room)
            held += n
            self._n_buffered += n

        try:
            if self._n_buffered + (length or 0) > room:
                raise OverloadedError("bytes of bodies", room)
            body = await _read(receive, limit, config.body_timeout_s, hold)
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._n_buffered -= held


class _StalledError(Exception):
    """A client takes nothing; the application has no handler for it, as nobody can be told."""


class _Reply:
    """Passes a reply on: with our headers, errors as JSON, and no patience for stuck clients."""

    def __init__(self, send: Send, timeout_s: float, extra: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._timeout_s = timeout_s
        self._extra = extra
        self._replaced: bytes | None = None
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Send a message; `_StalledError` if the client takes nothing for too long."""
        if message["type"] == "http.response.start":
            message = self._start(message)
        elif self._replaced is not None:
            if message.get("more_body"):
                return
            message = {"type": "http.response.body", "body": self._replaced}
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send(message)
        except TimeoutError:
            raise _StalledError from None

    def _start(self, message: Message) -> Message:
        self.status = int(message["status"])
        headers = [(name.lower(), value) for name, value in message.get("headers", [])]
        kind = dict(headers).get(b"content-type", b"")
        if self.status >= 400 and not kind.startswith((b"application/json", b"text/html")):
            reply = error_reply(ApiError(self.status, _WORDS.get(self.status, "refused")))
            kept = [pair for pair in headers if pair[0] in (b"content-range", b"allow")]
            headers, self._replaced = [*reply.raw_headers, *kept], bytes(reply.body)
        own = {name for name, _ in self._extra}
        headers = [pair for pair in headers if pair[0] not in own] + self._extra
        there = {name for name, _ in headers}
        headers += [pair for pair in SAFE_HEADERS.items() if pair[0] not in there]
        return {**message, "headers": headers}


_WORDS = {404: "there is nothing here", 405: "this path knows no such method",
          416: "the file has no such range", 500: FAULT}  # fmt: skip


def address_of(scope: Scope) -> str:
    """Return who sends a request: its address, empty for a socket without one."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def cookie_of(header: bytes, name: str) -> str | None:
    """Return the value of a cookie, or None.

    Cookies know no ports: those of other programs on this machine come along, whatever they hold,
    and `http.cookies` would stop at the first that breaks its rules.
    """
    return cookie_parser(header.decode("latin-1")).get(name)


def _single(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers; those that decide about access must not come twice.

    Raises:
        ApiError: If one does.
    """
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in found and name in (b"host", b"origin", b"authorization", b"content-type"):
            raise ApiError(400, f"the header {name.decode('latin-1')!r} comes twice")
        found[name] = value
    return found


def _check_type(path: str, headers: dict[bytes, bytes]) -> None:
    """Refuse bodies of kinds that any web page may send without being asked."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if path == UPLOAD_PATH:
        if kind != b"application/octet-stream":
            raise ApiError(415, "send the file as the body, as application/octet-stream")
    elif kind != b"application/json" and path != SESSION_PATH:
        empty = headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
        if not empty:
            raise ApiError(415, "send JSON, with `Content-Type: application/json`")


def _length(headers: dict[bytes, bytes]) -> int | None:
    given = headers.get(b"content-length")
    if given is None:
        return None
    if not given.isdigit():
        raise ApiError(400, "Content-Length must be a whole number")
    return int(given)


async def _read(
    receive: Receive, limit: int, timeout_s: float, hold: Callable[[int], None]
) -> bytes:
    """Return the whole body.

    Raises:
        ApiError: If it is longer than `limit`, or takes too long to arrive.
    """
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(timeout_s):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ApiError(499, "the client has gone")
                part = message.get("body", b"")
                size += len(part)
                hold(len(part))
                if size > limit:
                    raise ApiError(413, f"the body is longer than the {limit} bytes allowed")
                parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {timeout_s:g} s") from None
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        for message in messages:
            return message
        return await receive()

    return replayed


def _timed(receive: Receive, timeout_s: float) -> Callable[[], Awaitable[Message]]:
    async def timed() -> Message:
        try:
            async with asyncio.timeout(timeout_s):
                return await receive()
        except TimeoutError:
            raise ApiError(408, f"nothing of the body arrived for {timeout_s:g} s") from None

    return timed
