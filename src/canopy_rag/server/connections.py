"""What uvicorn leaves open: how long heads and ends may take, and how many may be connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from canopy_rag.server.errors import OverloadedError
from canopy_rag.server.replies import dumps


class Bounded(H11Protocol):
    """One client, as uvicorn makes it.

    uvicorn limits the time between requests alone: who connects and says nothing, sends a head drop
    by drop, or takes nothing of a reply would be waited for without end. The last holds even where
    the application gives up, since uvicorn then waits to write of that.

    Args:
        head_timeout_s: Longest time from connecting, or from the first byte of a further request,
            to the end of its head. A connection that takes longer is closed without a word.
        write_timeout_s: Longest time that a client may take nothing of what waits for it.
        max_connections: Most clients connected; further ones are told 503 and sent away.
        **uvicorn: Its own.
    """

    def __init__(
        self,
        *,
        head_timeout_s: float,
        write_timeout_s: float,
        max_connections: int,
        **uvicorn: Any,
    ) -> None:
        super().__init__(**uvicorn)
        self._head_timeout_s = head_timeout_s
        self._write_timeout_s = write_timeout_s
        self._max_connections = max_connections
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > self._max_connections:
            self._refused = True
            transport.write(_refusal(self._max_connections))
            transport.close()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and wait for the head's end if it is not there."""
        if self._refused:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        """Wait for the client to take what was written."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it has taken most of it."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_timeout_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Stuck:
    """Cuts connections that are closing and do not come to their end.

    A connection closes when its client has taken the last of what was written, and that may be so
    little that no write has to wait.

    Args:
        patience_s: How long one may be closing.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[Any, float] = {}

    def cut(self, connections: Iterable[Any], now: float) -> None:
        """Look at all connections; to be called now and then.

        Args:
            connections: Protocols as uvicorn keeps them.
            now: Seconds that only grow.
        """
        closing = [each for each in connections if each.transport.is_closing()]
        self._since = {each: self._since.get(each, now) for each in closing}
        for each, since in self._since.items():
            if now - since >= self._patience_s:
                each.transport.abort()


def _refusal(limit: int) -> bytes:
    error = OverloadedError("connections", limit)
    body = dumps(error.to_dict())
    headers = {
        **error.headers,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {error.status} Service Unavailable", *map(": ".join, headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
