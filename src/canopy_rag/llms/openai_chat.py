"""A chat model behind OpenAI's API: vLLM, llama.cpp, SGLang, Ollama, OpenAI and many others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from canopy_rag.core.errors import ConfigError, LLMError
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.llms import _describe, _reply, _request
from canopy_rag.llms._clients import Clients, check_installed
from canopy_rag.llms._errors import AttemptError, Response, check
from canopy_rag.llms._replicas import Replica, Replicas
from canopy_rag.llms._retry import Retrying
from canopy_rag.llms._turns import Turns
from canopy_rag.llms.counting import AS_TOLD, Counting, estimated, pictures_of

T = TypeVar("T")
EVENTS_PER_TOKEN, MORE_EVENTS = 4, 1000
"""How many events a stream may have, by `max_tokens`: servers send one for each token, at times
some without a text."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Session:
    """What belongs to one event loop."""

    clients: Clients
    completions: Turns
    counts: Turns
    describing: defaultdict[Replica, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """A stream that has begun."""

    first: str
    rest: AsyncGenerator[str]
    told: _reply.Streamed
    response: Response

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
    `Retry-After` says or an exponential pause. With several servers each is tried once at least;
    one that failed is left out for a while (see `Replicas`).

    Servers behind loopback addresses are reached without a proxy.

    Args:
        base_urls: Base URL with or without `/v1`, or several: a sequence, or joined by commas.
        model: Name of the model; None for the only one that the server lists.
        api_key: Sent as bearer token; kept out of messages and of the repr.
        timeout_s: Seconds that one attempt may take; for a stream, that it may pause.
        max_retries: Attempts after the first.
        max_in_flight: Most requests at once from one event loop; the others wait their turn.
        max_per_server: Most of them at one server; None: any number.
        max_waiting: Most that wait; further ones end with an error of status 429. None: any number.
        vision: Whether messages may hold pictures; None for what the server says once asked.
        backoff_s: First pause between attempts; it doubles, up to 30 s, with jitter.
        counting: How tokens are counted, and what they cost.

    Raises:
        ConfigError: If a URL is incomplete, the key cannot be sent, or the tokenizer is not there.
        MissingDependencyError: If the `openai` package is not installed.
    """

    def __init__(  # noqa: PLR0913 (a client's options are its parameters)
        self,
        base_urls: str | Sequence[str],
        model: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 3,
        *,
        max_in_flight: int = 32,
        max_per_server: int | None = None,
        max_waiting: int | None = None,
        vision: bool | None = False,
        backoff_s: float = 0.5,
        counting: Counting = AS_TOLD,
    ) -> None:
        listed = base_urls.split(",") if isinstance(base_urls, str) else base_urls
        urls = [each.strip() for each in listed if each.strip()]
        self._replicas = Replicas(urls, most_each=max_per_server)
        check_installed()
        self._model = model or None
        self._api_key = _checked_key(api_key)
        self._timeout_s = timeout_s
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._vision = vision
        self._counting = counting
        self._tokenizer = counting.own_tokenizer()
        self._named_pictures = counting.named_pictures()
        self._retrying = Retrying(
            replicas=self._replicas,
            timeout_s=timeout_s,
            max_retries=max_retries,
            backoff_s=backoff_s,
        )
        self._can_count: bool | None = None
        self._pictures: dict[tuple[int, int], int | None] = {}
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
        async with session.completions.turn():
            replica, reply = await self._retrying(
                lambda each: self._adapting(session, each, request, self._ask, stream=False)
            )
            self._replicas.give_back(replica, failed=False)
        return await self._completion(request, reply)

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the pieces of one reply as they come.

        Until the first piece, failures are retried as in `complete`; later ones are not, as what
        was yielded cannot be taken back.

        Args:
            request: What to answer.
            ended: Called with the whole reply and its cost after the last piece.

        Raises:
            LLMError: When the stream does not begin, or breaks.
        """
        session = self._session()
        opening = partial(self._open, request.max_tokens)
        async with session.completions.turn():
            replica, opened = await self._retrying(
                lambda each: self._adapting(session, each, request, opening, stream=True)
            )
            failed: bool | None = None
            try:
                yield opened.first
                async for piece in opened.rest:
                    yield piece
                failed = False
            except AttemptError as error:
                failed = error.down
                raise
            finally:
                self._replicas.give_back(replica, failed=failed)
                await opened.aclose()
        if ended is not None:
            ended(await self._completion(request, opened.told.reply()))

    async def count_tokens(self, text: str) -> int | None:
        """Return the exact number of tokens of `text`, or None if nobody can tell.

        The tokenizer named in `counting` counts; otherwise the server, if it is llama.cpp, vLLM or
        SGLang, by `/tokenize`: whether it can is asked once. The server is asked for its context
        window all the same.

        Raises:
            LLMError: When no server answers.
            ConfigError: If the tokenizer cannot be read.
        """
        if self._tokenizer is not None:
            await self.discover()
            return self._tokenizer.count(text)
        if self._can_count is False:
            return None
        count = await self._counted(
            lambda session, each: _describe.count(session.clients, each, text, self._api_key)
        )
        if self._can_count is None:
            self._can_count = count is not None
        return count

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return the tokens of a picture of that many pixels.

        None if nobody can tell, or the model sees none. As the family named in `counting` has it;
        otherwise as the server counts, if it is a vLLM that counts pictures, each size once;
        otherwise by the model's name.

        Raises:
            LLMError: When no server answers.
        """
        if self._vision is False:
            return None
        if self._named_pictures is not None:
            return self._named_pictures(width, height)
        size = (width, height)
        if size not in self._pictures:
            counted = await self._counted(
                lambda session, each: _describe.count_picture(
                    session.clients, each, size, self._api_key
                )
            )
            by_name = pictures_of(self.name)
            if counted is None and by_name is not None:
                counted = by_name(width, height)
            self._pictures[size] = counted
        return self._pictures[size]

    async def aclose(self) -> None:
        """Close the connections of this event loop, and of others that still run."""
        with self._lock:
            sessions = dict(self._sessions)
            self._sessions.clear()
        for loop, session in sessions.items():
            if loop is asyncio.get_running_loop():
                await session.clients.aclose()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(session.clients.aclose(), loop)
                await asyncio.wrap_future(closing)

    def _session(self) -> _Session:
        loop = asyncio.get_running_loop()
        with self._lock:
            session = self._sessions.get(loop)
            if session is None:
                session = self._sessions[loop] = _Session(
                    Clients(self._replicas.all, self._api_key, self._timeout_s),
                    Turns(self._max_in_flight, self._max_waiting),
                    Turns(self._max_in_flight),
                )
            return session

    async def _adapting(
        self,
        session: _Session,
        replica: Replica,
        request: ChatRequest,
        send: Callable[[_Session, Replica, dict[str, Any]], Awaitable[T]],
        *,
        stream: bool,
    ) -> T:
        """Send in the server's dialect, and learn it from refusals."""
        if self._model is None or self._vision is None:
            await self._described(session, replica)
        self._check_pictures(request)
        quirks = replica.quirks
        while True:
            try:
                payload = await self._payload(replica, request, quirks, stream=stream)
                result = await send(session, replica, payload)
            except AttemptError as error:
                more = _request.learnt(quirks, request, error, stream=stream)
                if more == quirks:
                    raise
                quirks = more
            else:
                for quirk in quirks - replica.quirks:
                    _log.warning("%s: %s", replica.address.shown, _request.TOLD[quirk])
                replica.quirks |= quirks
                return result

    async def _ask(
        self, session: _Session, replica: Replica, payload: dict[str, Any]
    ) -> _reply.Reply:
        response = await session.clients.ask(replica, payload)
        url = replica.address.shown
        check(response, url, self._api_key)
        parsed = _reply.parse_json(response.content, url, self._api_key)
        return _reply.reply_of(parsed, url, self._api_key)

    async def _open(
        self, max_tokens: int, session: _Session, replica: Replica, payload: dict[str, Any]
    ) -> _Opened:
        response = await session.clients.open(replica, payload)
        told = _reply.Streamed()
        pieces = _reply.pieces(
            response,
            session.clients.chunks(replica, response),
            told,
            url=replica.address.shown,
            secret=self._api_key,
            patience_s=self._timeout_s,
            max_events=EVENTS_PER_TOKEN * max_tokens + MORE_EVENTS,
        )
        try:
            first = await anext(pieces)
        except BaseException:
            await response.aclose()
            raise
        return _Opened(first, pieces, told, response)

    async def _described(self, session: _Session, replica: Replica) -> None:
        async with session.describing[replica]:
            if not replica.described:
                await _describe.describe(session.clients, replica, self._model, self._api_key)

    async def _counted(
        self, ask: Callable[[_Session, Replica], Awaitable[int | None]]
    ) -> int | None:
        session = self._session()

        async def count(replica: Replica) -> int | None:
            await self._described(session, replica)
            return await ask(session, replica)

        async with session.counts.turn():
            replica, counted = await self._retrying(count)
            self._replicas.give_back(replica, failed=False)
        return counted

    async def _completion(self, request: ChatRequest, reply: _reply.Reply) -> Completion:
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        exact = prompt is not None and completion is not None
        if prompt is None or completion is None:
            prompt = await self._guess(_texts(request))
            completion = await self._guess(reply.text)
        return Completion(
            text=reply.text,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cut=reply.cut,
            tokens_are="exact" if exact else "estimated",
            cost=self._counting.cost(prompt, completion),
        )

    async def _guess(self, text: str) -> int:
        """Count, or estimate: the caller says that it is estimated."""
        try:
            counted = await self.count_tokens(text)
        except LLMError:
            counted = None
        return estimated(text) if counted is None else counted

    async def _payload(
        self, replica: Replica, request: ChatRequest, quirks: frozenset[str], *, stream: bool
    ) -> dict[str, Any]:
        model = self._model or replica.model or _describe.UNLISTED
        if _request.pictures(request):
            return await asyncio.to_thread(_request.payload, request, model, quirks, stream=stream)
        return _request.payload(request, model, quirks, stream=stream)

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
