"""The servers behind one chat model: their addresses, and which one to ask next."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from canopy_rag.core.errors import ConfigError

REST_S = 10.0
"""How long a replica that failed is asked only if no other is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one server answers."""

    api: httpx.URL
    """Ends before `/chat/completions`."""
    root: httpx.URL
    """Where a llama.cpp or vLLM server keeps what is not OpenAI's."""
    shown: str
    """For messages: without user, password and query."""

    def at(self, path: str) -> httpx.URL:
        """Return the URL of a path below `api`."""
        return _below(self.api, path)

    def beside(self, path: str) -> httpx.URL:
        """Return the URL of a path below `root`."""
        return _below(self.root, path)


def _below(base: httpx.URL, path: str) -> httpx.URL:
    return base.copy_with(path=f"{base.path.rstrip('/')}/{path}")


def address(base_url: str) -> Address:
    """Read a base URL, written with or without `/v1`.

    `/v1` is added unless the path has a version already, as in `/v1` or `/v1beta/openai`.

    Raises:
        ConfigError: If it is not a complete http(s) URL.
    """
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ConfigError(f"llm URL {base_url!r} cannot be read: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(
            f"llm URL {base_url!r} is not complete. Write it like http://127.0.0.1:8000/v1"
        )
    path = re.sub(r"/chat/completions/?$", "", url.path).rstrip("/")
    if not re.search(r"/v\d+\w*(/|$)", path):
        path += "/v1"
    api = url.copy_with(path=path, fragment=None)
    root = api.copy_with(path=re.sub(r"/v\d+\w*$", "", path) or "/")
    shown = str(api.copy_with(userinfo=b"", query=None))
    return Address(api=api, root=root, shown=shown)


class Replica:
    """One server: its address, what was learnt about it, how busy it is."""

    def __init__(self, base_url: str) -> None:
        self.address = address(base_url)
        self.model: str | None = None
        self.context_tokens: int | None = None
        self.sees: bool | None = None
        self.described = False
        self.quirks: frozenset[str] = frozenset()
        self.in_flight = 0
        self.last_used = 0
        self.rests_until = 0.0


class Replicas:
    """Chooses among servers; safe to use from several threads.

    The server with the fewest requests in flight is next, ties by the longest unused. One that
    failed is left alone for a while, unless nothing else is left.

    Args:
        base_urls: At least one.
        clock: Seconds that only grow.

    Raises:
        ConfigError: If there is none, or one cannot be read.
    """

    def __init__(
        self, base_urls: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.all = [Replica(base_url) for base_url in base_urls]
        if not self.all:
            raise ConfigError("no llm URL was given. Write it like http://127.0.0.1:8000/v1")
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = 0

    def take(self, tried: Sequence[Replica]) -> Replica:
        """Return the server to ask next and count the request in; `give_back` counts it out.

        Args:
            tried: Servers that this request has been at.
        """
        with self._lock:
            now = self._clock()
            best = min(
                self.all,
                key=lambda each: (
                    tried.count(each),
                    each.rests_until > now,
                    each.in_flight,
                    each.last_used,
                ),
            )
            self._turn += 1
            best.last_used = self._turn
            best.in_flight += 1
            return best

    def give_back(self, replica: Replica, *, failed: bool | None) -> None:
        """Count a request out.

        Args:
            replica: As `take` returned it.
            failed: Whether the server let it down, and so rests; None when nothing was learnt.
        """
        with self._lock:
            replica.in_flight -= 1
            if failed is not None:
                replica.rests_until = self._clock() + REST_S if failed else 0.0

    def has_other(self, tried: Sequence[Replica]) -> bool:
        """Return whether a server that does not rest has not been tried."""
        with self._lock:
            now = self._clock()
            return any(each not in tried and each.rests_until <= now for each in self.all)
