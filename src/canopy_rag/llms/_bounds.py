"""How long a reply may be: a server that sends without end must not fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import Any

REPLY_BYTES = 16_000_000
"""Longest reply, a stream with all its events included; an answer has some thousands."""
_ZIPPED = {"gzip", "x-gzip", "deflate"}
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class UnreadableError(Exception):
    """A reply that is too long, or packed in a way that nobody asked for."""


def bounded(http: ModuleType) -> Callable[[Any], Awaitable[None]]:
    """Return a hook for the replies of an httpx client.

    It also unpacks what is zipped, since httpx would unpack a small bomb whole.

    Args:
        http: The generation of httpx under the client.
    """
    stream: Any = http.AsyncByteStream

    class Bounded(stream):  # type: ignore[misc]
        def __init__(self, inner: Any, *, zipped: bool) -> None:
            self._inner = inner
            self._zipped = zipped

        def __aiter__(self) -> AsyncIterator[bytes]:
            return _unpacked(self._inner) if self._zipped else _counted(self._inner)

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def hook(response: Any) -> None:
        packed = response.headers.get("content-encoding", "").strip().lower()
        zipped = packed in _ZIPPED
        if zipped:
            del response.headers["content-encoding"]
        elif packed not in ("", "identity"):
            await response.aclose()
            raise UnreadableError(f"it is packed as {packed[:40]!r}, which nobody asked for")
        response.stream = Bounded(response.stream, zipped=zipped)

    return hook


async def _counted(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > REPLY_BYTES:
            raise _too_long()
        yield chunk


async def _unpacked(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unzip, size = zlib.decompressobj(_ZLIB_OR_GZIP), 0
    async for chunk in chunks:
        try:
            plain = unzip.decompress(chunk, REPLY_BYTES + 1 - size)
        except zlib.error as error:
            raise UnreadableError(f"it does not unpack: {error}") from error
        size += len(plain)
        if size > REPLY_BYTES:
            raise _too_long()
        yield plain


def _too_long() -> UnreadableError:
    return UnreadableError(f"it is longer than {REPLY_BYTES // 1_000_000} MB")
