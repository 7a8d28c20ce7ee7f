"""A chat model behind OpenAI's API: vLLM, llama.cpp, SGLang, Ollama, OpenAI and many others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx

from canopy_rag.core.errors import ConfigError, LLMError
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.llms import _describe, _reply, _request
from canopy_rag.llms._errors import AttemptError, check, transport_error
from canopy_rag.llms._replicas import Replica, Replicas
from canopy_rag.llms._retry import Retrying

T = TypeVar("T")
_log = logging.getLogger(__name__)

CONNECT_S = 10.0
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@dataclass(frozen=True, slots=True)
class _Session:
    """What belongs to one event loop."""

    client: httpx.AsyncClient
    completions: asyncio.Semaphore
    counts: asyncio.Semaphore
    describing: defaultdict[Replica, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """A stream that has begun."""

    first: str
    rest: AsyncGenerator[str]
    response: httpx.Response

    async def aclose(self) -> None:
        """Stop reading."""
        await self.rest.aclose()
        await self.response.aclose()


class OpenAIChat:
    """A chat model at one or several servers that speak OpenAI's chat completions.

    It may be used from several event loops: each gets connections of its own, closed by `aclose`,
    which is to be awaited in a loop before that loop is closed. After it, calls open new ones.

    A request goes to the server with the fewest in flight. Status 408, 425, 429 and 5xx, time-outs
    and broken connections are tried again, at another server if there is one, otherwise after what
    `Retry-After` says or an exponential pause. With several servers each is tried once at least.

    Servers behind loopback addresses are reached without a proxy.

    Args:
        base_urls: Base URL with or without `/v1`, or several: a sequence, or joined by commas.
        model: Name of the model; None for the only one that the server lists.
        api_key: Sent as bearer token; kept out of messages and of the repr.
        timeout_s: Seconds that one attempt may take; for a stream, that it may pause.
        max_retries: Attempts after the first.
        max_in_flight: Most requests at once from one event loop; the others wait their turn.
        vision: Whether messages may hold pictures; None for what the server says once asked.
        backoff_s: First pause between attempts; it doubles, up to 30 s, with jitter.

    Raises:
        ConfigError: If a URL is incomplete, or the key cannot be sent.
    """

    def __init__(
        self,
        base_urls: str | Sequence[str],
        model: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 3,
        *,
        max_in_flight: int = 32,
        vision: bool | None = False,
        backoff_s: float = 0.5,
    ) -> None:
        listed = base_urls.split(",") if isinstance(base_urls, str) else base_urls
        self._replicas = Replicas([each.strip() for each in listed if each.strip()])
        self._model = model or None
        self._api_key = _checked_key(api_key)
        self._timeout_s = timeout_s
        self._max_in_flight = max_in_flight
        self._vision = vision
        self._retrying = Retrying(
            replicas=self._replicas,
            timeout_s=timeout_s,
            max_retries=max_retries,
            backoff_s=backoff_s,
        )
        self._can_count: bool | None = None
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        urls = ",".join(each.address.shown for each in self._replicas.all)
        return f"OpenAIChat({urls!r}, model={self._model!r})"

    @property
    def name(self) -> str:
        """The model, or the server's address as long as the model is not known."""
        first = self._replicas.all[0]
        return self._model or first.model or first.address.shown

    @property
    def context_tokens(self) -> int | None:
        """Smallest context window of the servers asked so far; None before, or if none tells.

        `discover` and `count_tokens` ask.
        """
        known = [each.context_tokens for each in self._replicas.all if each.context_tokens]
        return min(known, default=None)

    @property
    def vision(self) -> bool:
        """Whether messages may hold pictures."""
        if self._vision is not None:
            return self._vision
        told = [each.sees for each in self._replicas.all if each.described]
        return bool(told) and all(told)

    async def discover(self) -> None:
        """Ask a server for its model and context window, unless one has been asked.

        Raises:
            LLMError: If no server answers, or one serves several models and none was named.
        """
        if not any(each.described for each in self._replicas.all):
            session = self._session()
            replica, _ = await self._retrying(lambda each: self._described(session, each))
            self._replicas.give_back(replica, failed=False)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        A server that answers 400 or 422 to the schema gets the same prompt once without it, and
        from then on no schema. Without `usage` in the reply the tokens are counted by the server if
        it can, without the chat template, or estimated as a quarter of the UTF-8 bytes, and the
        completion says `estimated`.

        Raises:
            LLMError: When no reply with a text came after the retries.
        """
        session = self._session()
        async with session.completions:
            replica, reply = await self._retrying(
                lambda each: self._adapting(session, each, request, self._ask)
            )
            self._replicas.give_back(replica, failed=False)
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        if prompt is not None and completion is not None:
            return Completion(
                text=reply.text, prompt_tokens=prompt, completion_tokens=completion, cut=reply.cut
            )
        return Completion(
            text=reply.text,
            prompt_tokens=await self._guess(_texts(request)),
            completion_tokens=await self._guess(reply.text),
            cut=reply.cut,
            tokens_are="estimated",
        )

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the pieces of one reply as they come.

        Until the first piece, failures are retried as in `complete`; later ones are not, as what
        was yielded cannot be taken back.

        Raises:
            LLMError: When the stream does not begin, or breaks.
        """
        session = self._session()
        async with session.completions:
            replica, opened = await self._retrying(
                lambda each: self._adapting(session, each, request, self._open)
            )
            failed: bool | None = None
            try:
                yield opened.first
                async for piece in opened.rest:
                    yield piece
                failed = False
            except (httpx.HTTPError, TimeoutError) as error:
                failed = True
                url = replica.address.shown
                raise transport_error(url, error, self._timeout_s) from error
            finally:
                self._replicas.give_back(replica, failed=failed)
                await opened.aclose()

    async def count_tokens(self, text: str) -> int | None:
        """Return the exact number of tokens of `text`, or None if the server cannot tell.

        llama.cpp, vLLM and SGLang can, by `/tokenize`; whether this one can is asked once.

        Raises:
            LLMError: When no server answers.
        """
        if self._can_count is False:
            return None
        session = self._session()
        async with session.counts:
            replica, count = await self._retrying(lambda each: self._count(session, each, text))
            self._replicas.give_back(replica, failed=False)
        if self._can_count is None:
            self._can_count = count is not None
        return count

    async def aclose(self) -> None:
        """Close the connections of this event loop, and of others that still run."""
        with self._lock:
            sessions = dict(self._sessions)
            self._sessions.clear()
        for loop, session in sessions.items():
            if loop is asyncio.get_running_loop():
                await session.client.aclose()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(session.client.aclose(), loop)
                await asyncio.wrap_future(closing)

    def _session(self) -> _Session:
        loop = asyncio.get_running_loop()
        with self._lock:
            session = self._sessions.get(loop)
            if session is None:
                headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
                session = self._sessions[loop] = _Session(
                    httpx.AsyncClient(
                        headers=headers,
                        timeout=httpx.Timeout(
                            self._timeout_s, connect=min(CONNECT_S, self._timeout_s), pool=None
                        ),
                        limits=httpx.Limits(max_keepalive_connections=self._max_in_flight),
                        mounts=dict.fromkeys(_DIRECT),
                    ),
                    asyncio.Semaphore(self._max_in_flight),
                    asyncio.Semaphore(self._max_in_flight),
                )
            return session

    async def _adapting(
        self,
        session: _Session,
        replica: Replica,
        request: ChatRequest,
        send: Callable[[_Session, Replica, ChatRequest, frozenset[str]], Awaitable[T]],
    ) -> T:
        """Send in the server's dialect, and learn it from refusals."""
        if self._model is None or self._vision is None:
            await self._described(session, replica)
        self._check_pictures(request)
        quirks = replica.quirks
        while True:
            try:
                result = await send(session, replica, request, quirks)
            except AttemptError as error:
                more = _request.learnt(quirks, request, error)
                if more == quirks:
                    raise
                quirks = more
            else:
                for quirk in quirks - replica.quirks:
                    _log.warning("%s: %s", replica.address.shown, _request.TOLD[quirk])
                replica.quirks |= quirks
                return result

    async def _ask(
        self, session: _Session, replica: Replica, request: ChatRequest, quirks: frozenset[str]
    ) -> _reply.Reply:
        content = await self._body(replica, request, quirks, stream=False)
        url = replica.address
        async with asyncio.timeout(self._timeout_s):
            response = await session.client.post(
                url.at("chat/completions"), content=content, headers=_describe.JSON
            )
        check(response, url.shown, self._api_key)
        return _reply.parse_reply(response.content, url.shown, self._api_key)

    async def _open(
        self, session: _Session, replica: Replica, request: ChatRequest, quirks: frozenset[str]
    ) -> _Opened:
        content = await self._body(replica, request, quirks, stream=True)
        url = replica.address
        built = session.client.build_request(
            "POST", url.at("chat/completions"), content=content, headers=_describe.JSON
        )
        response = await session.client.send(built, stream=True)
        pieces = _reply.pieces(response, url.shown, self._api_key)
        try:
            first = await anext(pieces)
        except BaseException:
            await response.aclose()
            raise
        return _Opened(first, pieces, response)

    async def _described(self, session: _Session, replica: Replica) -> None:
        async with session.describing[replica]:
            if not replica.described:
                await _describe.describe(session.client, replica, self._model, self._api_key)

    async def _count(self, session: _Session, replica: Replica, text: str) -> int | None:
        await self._described(session, replica)
        return await _describe.count(session.client, replica, text, self._api_key)

    async def _guess(self, text: str) -> int:
        """Count by the server, or estimate: the caller says that it is estimated."""
        try:
            counted = await self.count_tokens(text)
        except LLMError:
            counted = None
        return -(-len(text.encode("utf-8", "replace")) // 4) if counted is None else counted

    async def _body(
        self, replica: Replica, request: ChatRequest, quirks: frozenset[str], *, stream: bool
    ) -> bytes:
        model = self._model or replica.model or _describe.UNLISTED
        if _request.pictures(request):
            return await asyncio.to_thread(_request.body, request, model, quirks, stream=stream)
        return _request.body(request, model, quirks, stream=stream)

    def _check_pictures(self, request: ChatRequest) -> None:
        n_pictures = _request.pictures(request)
        if n_pictures and not self.vision:
            raise LLMError(
                f"{self.name} is not known to see pictures, and the messages hold {n_pictures}. "
                "Switch vision on for a model that does, or leave them out"
            )


def _texts(request: ChatRequest) -> str:
    parts = (part for message in request.messages for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str))


def _checked_key(api_key: str | None) -> str | None:
    """Return the key without white space around it; an empty one counts as none."""
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            "the API key of the chat model holds characters that cannot be sent in a header. "
            "Was something else copied along with it?"
        )
    return key or None
