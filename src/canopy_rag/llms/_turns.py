"""Who may ask next: so many requests at once, and so many that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from canopy_rag.core.errors import LLMError


class Turns:
    """Lets requests through in the order in which they came; belongs to one event loop.

    Args:
        limit: Most at once.
        max_waiting: Most that wait; None: any number.
    """

    def __init__(self, limit: int, max_waiting: int | None = None) -> None:
        self._free = asyncio.Semaphore(limit)
        self._max_waiting = max_waiting
        self._n_waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Raises:
            LLMError: If too many wait; its status is 429, as a server would say.
        """
        full = self._max_waiting is not None and self._n_waiting >= self._max_waiting
        if full and self._free.locked():
            raise LLMError(
                f"{self._n_waiting} requests wait for the chat model already. Ask fewer questions "
                "at once, add servers, or raise llm.max_waiting",
                status=429,
                retryable=True,
            )
        self._n_waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._n_waiting -= 1
        try:
            yield
        finally:
            self._free.release()
