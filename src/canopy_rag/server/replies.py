"""Replies: JSON however odd the names in it, errors, and streams of events that hold nobody up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from canopy_rag.server.admission import Slot, until_gone
from canopy_rag.server.errors import ApiError, told

KEEP_ALIVE_S = 15.0
Emit = Callable[[bytes], None]
logger = logging.getLogger(__name__)


def dumps(document: Any) -> bytes:
    """Return a document as JSON in UTF-8; bytes of foreign file names are escaped."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_reply(body: bytes, status: int = 200) -> Response:
    """Return a reply with JSON that is written out already."""
    return Response(body, status, media_type="application/json")


def error_reply(error: ApiError) -> Response:
    """Return the reply that tells of an error."""
    return Response(dumps(error.to_dict()), error.status, error.headers, "application/json")


def event(name: str, body: bytes) -> bytes:
    """Return a server-sent event with one line of JSON."""
    return b"event: " + name.encode("ascii") + b"\ndata: " + body + b"\n\n"


def note(error: BaseException) -> ApiError:
    """Return what a caller is told of an error, and log the rest if it is the server's own."""
    said = told(error)
    if said.status >= 500 and not isinstance(error, ApiError | TimeoutError):
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)
    return said


class EventStream(Response):
    """Sends what a producer emits. The producer never waits for the client.

    Args:
        produce: Emits events and returns at the end; what it raises becomes a last event.
        failed: Turns an error into that event.
        slot: Given back when the producer has ended.
        timeout_s: Longest time that the producer may take.
        waits: Send nothing before the first event, so that an error until then has a status.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        produce: Callable[[Emit], Awaitable[None]],
        *,
        failed: Callable[[ApiError], bytes],
        slot: Slot,
        timeout_s: float,
        waits: bool = False,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._produce = produce
        self._failed = failed
        self._slot = slot
        self._timeout_s = timeout_s
        self._waits = waits
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._early: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the last one, or until the client has gone."""
        producer = asyncio.ensure_future(self._run())
        watcher = asyncio.ensure_future(until_gone(receive))
        watcher.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            first = await self._queue.get() if self._waits else b": ok\n\n"
            if self._early is not None:
                raise self._early
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            chunk = first
            while chunk is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await self._next()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for each in (producer, watcher):
                each.cancel()
            await asyncio.gather(producer, watcher, return_exceptions=True)
            self._slot.release()

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                return await self._queue.get()
        except TimeoutError:
            return b": still at work\n\n"

    async def _run(self) -> None:
        emitted = False

        def emit(chunk: bytes) -> None:
            nonlocal emitted
            emitted = True
            self._queue.put_nowait(chunk)

        try:
            async with asyncio.timeout(self._timeout_s):
                await self._produce(emit)
        except Exception as error:  # whatever it is, the client is told
            if self._waits and not emitted:
                self._early = error
            else:
                self._queue.put_nowait(self._failed(note(error)))
        finally:
            self._slot.release()
            with contextlib.suppress(RuntimeError):  # the loop is closing
                self._queue.put_nowait(None)
