"""The servers behind one chat model: their addresses, and which one to ask next."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from canopy_rag.core.errors import ConfigError

REST_S = 1.0
"""How long a replica that failed is asked only if no other is left; it doubles each time. Short,
since one request in many fails at a replica that is well."""
MAX_REST_S = 60.0
_PORTS = {"http": 80, "https": 443}
_EXAMPLE = "Write it like http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one server answers. None of its URLs holds user, password or query."""

    api: str
    """Ends before `/chat/completions`."""
    root: str
    """Where a llama.cpp or vLLM server keeps what is not OpenAI's."""
    query: str
    """What follows `?`, sent with every request."""
    login: tuple[str, str] | None
    """User and password."""

    @property
    def shown(self) -> str:
        """The URL for messages."""
        return self.api

    @property
    def host(self) -> str:
        """The host's name, in lower case."""
        return urlsplit(self.api).hostname or ""

    def beside(self, path: str) -> str:
        """Return the URL of a path below `root`."""
        return f"{self.root.rstrip('/')}/{path}"


def address(base_url: str) -> Address:
    """Read a base URL, written with or without `/v1`.

    `/v1` is added unless the path has a version already, as in `/v1` or `/v1beta/openai`.

    Raises:
        ConfigError: If it is not a complete http(s) URL.
    """
    text = base_url.strip()
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ConfigError(
            f"llm URL {_hidden(text)!r} cannot be read: {error}. {_EXAMPLE}"
        ) from None
    if url.scheme not in _PORTS or not url.hostname or re.search(r"\s", text):
        raise ConfigError(f"llm URL {_hidden(text)!r} is not complete. {_EXAMPLE}")
    path = re.sub(r"/chat/completions/?$", "", url.path).rstrip("/")
    if not re.search(r"/v\d+\w*(/|$)", path):
        path += "/v1"
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    netloc = host if port in {None, _PORTS[url.scheme]} else f"{host}:{port}"
    api = url._replace(netloc=netloc, path=path, query="", fragment="")
    root = api._replace(path=re.sub(r"/v\d+\w*$", "", path) or "/")
    return Address(api=api.geturl(), root=root.geturl(), query=url.query, login=_login(url))


def _login(url: SplitResult) -> tuple[str, str] | None:
    if url.username is None and url.password is None:
        return None
    return unquote(url.username or ""), unquote(url.password or "")


def _hidden(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//***@", url).partition("?")[0]


class Replica:
    """One server: its address, what was learnt about it, how busy and how well it is."""

    def __init__(self, base_url: str) -> None:
        self.address = address(base_url)
        self.model: str | None = None
        self.context_tokens: int | None = None
        self.sees: bool | None = None
        self.described = False
        self.counts_pictures: bool | None = None
        self.quirks: frozenset[str] = frozenset()
        self.in_flight = 0
        self.last_used = 0
        self.rests_until = 0.0
        self.busy_until = 0.0
        self.failures = 0
        """Failures without a success since; those during one rest count once."""
        self.failing_since: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A request for which every server that it may go to is full."""

    tried: Sequence[Replica]
    loop: asyncio.AbstractEventLoop
    given: asyncio.Future[Replica]


class Replicas:
    """Chooses among servers, with a circuit breaker for each; safe to use from several threads.

    The server with the fewest requests in flight is next, ties by the longest unused. One that
    failed is left out for a while, which doubles with every further failure up to a minute. Then
    it gets one request at a time until one succeeds. If no other server is left, it is asked all
    the same.

    A server that is full is waited for, first come first served, rather than asking one that is
    left out.

    Args:
        base_urls: At least one.
        clock: Seconds that only grow.
        most_each: Most requests in flight at each server; None: any number.

    Raises:
        ConfigError: If there is none, or one cannot be read.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        *,
        most_each: int | None = None,
    ) -> None:
        self.all = [Replica(base_url) for base_url in base_urls]
        if not self.all:
            raise ConfigError(f"no llm URL was given. {_EXAMPLE}")
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = 0
        self._most_each = most_each
        self._waiting: list[_Waiting] = []

    async def take(self, tried: Sequence[Replica]) -> Replica:
        """Return the server to ask next and count the request in; `give_back` counts it out.

        Args:
            tried: Servers that this request has been at.
        """
        with self._lock:
            best = self._best(tried)
            if not self._is_full(best):
                return self._counted_in(best)
            loop = asyncio.get_running_loop()
            waiting = _Waiting(list(tried), loop, loop.create_future())
            self._waiting.append(waiting)
        try:
            return await waiting.given
        except asyncio.CancelledError:
            with self._lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
            if waiting.given.done() and not waiting.given.cancelled():
                self.give_back(waiting.given.result(), failed=None)
            raise

    def _best(self, tried: Sequence[Replica]) -> Replica:
        now = self._clock()
        return min(
            self.all,
            key=lambda each: (
                tried.count(each),
                _is_out(each, now),
                each.in_flight,
                each.last_used,
            ),
        )

    def _is_full(self, replica: Replica) -> bool:
        return self._most_each is not None and replica.in_flight >= self._most_each

    def _counted_in(self, replica: Replica) -> Replica:
        self._turn += 1
        replica.last_used = self._turn
        replica.in_flight += 1
        return replica

    def _let_in(self) -> None:
        """Give those who wait what they wait for, as far as it is there."""
        for each in list(self._waiting):
            best = self._best(each.tried)
            if self._is_full(best):
                continue
            self._waiting.remove(each)
            try:
                each.loop.call_soon_threadsafe(self._hand, each.given, best)
            except RuntimeError:  # its loop was closed while it waited
                continue
            self._counted_in(best)

    def _hand(self, given: asyncio.Future[Replica], replica: Replica) -> None:
        if given.cancelled():
            self.give_back(replica, failed=None)
        else:
            given.set_result(replica)

    def give_back(
        self, replica: Replica, *, failed: bool | None, pause_s: float | None = None
    ) -> None:
        """Count a request out.

        Args:
            replica: As `take` returned it.
            failed: Whether the server let it down, and so rests; None when nothing was learnt.
            pause_s: How long the server asks not to be asked.
        """
        with self._lock:
            now = self._clock()
            replica.in_flight -= 1
            if pause_s:
                replica.busy_until = max(replica.busy_until, now + pause_s)
            if failed is False:
                replica.failures, replica.failing_since, replica.rests_until = 0, None, 0.0
            elif failed:
                if replica.failing_since is None:
                    replica.failing_since = now
                if now >= replica.rests_until:
                    rest = min(MAX_REST_S, REST_S * 2.0 ** min(replica.failures, 10))
                    replica.rests_until = now + rest
                    replica.failures += 1
            self._let_in()

    def has_other(self, tried: Sequence[Replica]) -> bool:
        """Return whether a server that is not left out has not been tried."""
        with self._lock:
            now = self._clock()
            return any(each not in tried and not _is_out(each, now) for each in self.all)

    def lost(self, for_s: float) -> bool:
        """Return whether all servers have only failed, for so many seconds or longer."""
        with self._lock:
            now = self._clock()
            return all(
                each.failing_since is not None and now - each.failing_since >= for_s
                for each in self.all
            )


def _is_out(replica: Replica, now: float) -> bool:
    if now < max(replica.rests_until, replica.busy_until):
        return True
    return replica.failures > 0 and replica.in_flight > 0
