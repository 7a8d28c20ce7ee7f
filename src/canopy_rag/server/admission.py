"""How much is done at once: gates that send away what is too much, threads that compute."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from starlette.requests import Request

from canopy_rag.server.errors import ClientGoneError, OverloadedError

T = TypeVar("T")


class Slot:
    """A place behind a gate; giving it back twice does nothing."""

    def __init__(self, gate: Gate) -> None:
        self._gate: Gate | None = gate

    def release(self) -> None:
        """Give the place back."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.leave()


class Gate:
    """Admits pieces of work up to a limit.

    Args:
        what: What they are called, in the plural.
        limit: Most at work or waiting.
    """

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        self.limit = limit
        self._lock = threading.Lock()
        self._n = 0

    @property
    def n(self) -> int:
        """How many are at work or waiting."""
        return self._n

    def enter(self) -> Slot:
        """Take a place.

        Raises:
            OverloadedError: If none is free.
        """
        with self._lock:
            if self._n >= self.limit:
                raise OverloadedError(self.what, self.limit)
            self._n += 1
        return Slot(self)

    def leave(self) -> None:
        """Give a place back."""
        with self._lock:
            self._n -= 1

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place."""
        slot = self.enter()
        try:
            yield
        finally:
            slot.release()


class Workers:
    """Threads that compute, first come first served.

    Args:
        gate: Admits the work.
        n_threads: Threads; None: one more than there are CPUs, since part of each piece waits.
    """

    def __init__(self, gate: Gate, n_threads: int | None = None) -> None:
        self.gate = gate
        self._pool = ThreadPoolExecutor(
            n_threads or (os.cpu_count() or 1) + 1, thread_name_prefix=f"canopy-{gate.what}"
        )

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread. Its place is free when the call has ended, wanted or not.

        Raises:
            OverloadedError: If too many are waiting.
        """
        slot = self.gate.enter()
        try:
            future: Future[T] = self._pool.submit(call)
        except RuntimeError:  # shut down
            slot.release()
            raise
        future.add_done_callback(lambda _: slot.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Drop what waits; what is at work ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Return what `work` returns; cancel it when its time is up or the client has gone.

    Raises:
        ClientGoneError: If the client closed the connection first.
        TimeoutError: If it took too long.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(until_gone(request.receive))
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGoneError
            return await task
    finally:
        for each in (task, watch):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def until_gone(receive: Callable[[], Any]) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
