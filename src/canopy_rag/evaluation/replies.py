"""Replies that were had before: the same request is not sent twice.

Temperature is 0, so a reply belongs to its request. What is kept are checksums of requests, and
replies; neither questions nor evidence.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from canopy_rag.core import codec
from canopy_rag.core.errors import DataError
from canopy_rag.core.protocols import LLM, ChatRequest, Completion

_TABLE = "CREATE TABLE IF NOT EXISTS replies (request BLOB PRIMARY KEY, reply TEXT) WITHOUT ROWID"
_WAIT_S = 60.0


class Replies:
    """Replies on disk, by the checksum of their request. Several processes may use one file.

    Args:
        path: The file; made when it is missing, its folder too.

    Raises:
        DataError: If it is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(_TABLE)
            self._database.commit()
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{path} cannot be used as a cache of replies: {error}") from error

    def get(self, request: bytes) -> Completion | None:
        """Return the reply to a request; None if it was not had."""
        with self._lock:
            row = self._database.execute(
                "SELECT reply FROM replies WHERE request = ?", (request,)
            ).fetchone()
        return None if row is None else codec.loads(Completion, row[0])

    def put(self, request: bytes, reply: Completion) -> None:
        """Keep a reply."""
        with self._lock:
            self._database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?)", (request, codec.dumps(reply))
            )
            self._database.commit()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


class RememberingLLM:
    """A chat model whose replies are kept, so that an identical run asks it nothing.

    A reply from the cache costs nothing; what its `Completion` says is what it cost when it came.

    Args:
        llm: The model.
        replies: Where they are kept; None: nowhere, calls are counted all the same.
    """

    def __init__(self, llm: LLM, replies: Replies | None = None) -> None:
        self._llm = llm
        self._replies = replies
        self.n_asked = 0
        """Replies that the model gave."""
        self.n_cached = 0
        """Replies that were had before."""
        self.spent = 0.0
        """What the replies that the model gave cost, as far as prices are known."""

    @property
    def name(self) -> str:
        """The model's."""
        return self._llm.name

    @property
    def context_tokens(self) -> int | None:
        """The model's."""
        return self._llm.context_tokens

    @property
    def vision(self) -> bool:
        """The model's."""
        return self._llm.vision

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, from the cache if it can.

        Raises:
            LLMError: As the model.
        """
        if self._replies is None:
            return self._count(await self._llm.complete(request))
        key = request_key(self._llm.name, request)
        known = await asyncio.to_thread(self._replies.get, key)
        if known is not None:
            self.n_cached += 1
            return known
        reply = self._count(await self._llm.complete(request))
        # Keyed anew: some models learn their name with the first reply.
        key = request_key(self._llm.name, request)
        await asyncio.to_thread(self._replies.put, key, reply)
        return reply

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the whole reply as one piece."""
        reply = await self.complete(request)
        yield reply.text
        if ended is not None:
            ended(reply)

    async def count_tokens(self, text: str) -> int | None:
        """Return what the model says."""
        return await self._llm.count_tokens(text)

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return what the model says."""
        return await self._llm.media_tokens(width, height)

    async def aclose(self) -> None:
        """Close the model."""
        await self._llm.aclose()

    def _count(self, reply: Completion) -> Completion:
        self.n_asked += 1
        self.spent += reply.cost or 0.0
        return reply


def request_key(model: str, request: ChatRequest) -> bytes:
    """Return the checksum of all that a reply depends on."""
    text = json.dumps([model, codec.encode(request)], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).digest()
