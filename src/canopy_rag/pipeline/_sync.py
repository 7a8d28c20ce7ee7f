"""Run coroutines from synchronous code, inside a running event loop too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a thread of our own; a notebook's loop stays untouched."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="canopy-loop", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; an interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(stream: AsyncIterator[T]) -> Iterator[T]:
    """Yield what an asynchronous iterator yields."""

    async def step() -> list[T]:
        try:
            return [await anext(stream)]
        except StopAsyncIteration:
            return []

    while values := run(step()):
        yield from values
