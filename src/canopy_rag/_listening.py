"""A socket that answers HTTP, for the server and for MCP."""

from __future__ import annotations

import contextlib
import socket

from canopy_rag.core.errors import ConfigError

MAX_PORT = 65_535
BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: A name or address of this machine.
        port: 0: any free one.

    Raises:
        ConfigError: If that is not possible: the port is taken, the address is not ours.
    """
    if port > MAX_PORT:
        raise ConfigError(f"--port must be at most {MAX_PORT}, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        with contextlib.ExitStack() as undo:
            # By its number: asyncio sets TCP_NODELAY only where the protocol says TCP, and without
            # it a reply's body waits 40 ms for the caller to acknowledge its head.
            listener = undo.enter_context(
                socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            )
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            undo.pop_all()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error}; choose another --port"
        ) from error
    return listener
