"""Running the application: one process, one event loop, a socket, an orderly end."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from canopy_rag._optional import require
from canopy_rag.config import Secret, ServerConfig
from canopy_rag.server.logs import Redacting

KEEP_ALIVE_S = 30
HEAD_TIMEOUT_S = 15.0
"""Longest time for request line and headers to arrive."""
MAX_HEAD_BYTES = 32_768
"""Longest request line with headers."""


def url_of(listener: socket.socket) -> str:
    """Return the address of a listening socket, as a browser on this machine opens it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: ASGIApp, config: ServerConfig, on_start: Callable[[], None]) -> Any:
    """Return a uvicorn server; `run(sockets=[listener])` answers requests until it is stopped.

    It stops at SIGINT or SIGTERM, or when `should_exit` is set. New connections are then refused;
    what runs has `server.grace_s` to end.

    Args:
        app: The application.
        config: Time limits.
        on_start: Called when requests are answered.
    """
    uvicorn: Any = require("uvicorn", extra="server", feature="The server")
    from canopy_rag.server.connections import Bounded, Stuck

    stuck = Stuck(config.write_timeout_s)

    class Server(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            """Called ten times a second."""
            stuck.cut(self.server_state.connections, time.monotonic())
            return bool(await super().on_tick(counter))

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_start()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """As uvicorn's, but a server that was told to stop has not failed."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            stops = (signal.SIGINT, signal.SIGTERM)
            before = {each: signal.signal(each, self.handle_exit) for each in stops}
            try:
                yield
            finally:
                for each, handler in before.items():
                    signal.signal(each, handler)

    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # ours holds no query strings
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(config.grace_s)),
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        http=partial(
            Bounded,
            head_timeout_s=HEAD_TIMEOUT_S,
            write_timeout_s=config.write_timeout_s,
            max_connections=config.max_connections,
        ),
        ws="none",
        lifespan="on",
    )
    return Server(settings)


def log_to_stderr(secrets: Sequence[Secret | None], *, quiet: bool) -> None:
    """Write the log of the server to stderr, without secrets.

    Args:
        secrets: Keys that must not be written.
        quiet: Warnings and errors only.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Redacting(secrets, "%(asctime)s %(levelname)s %(message)s"))
    level = logging.WARNING if quiet else logging.INFO
    for name in ("canopy_rag", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
