"""Connections to chat servers, made by the `openai` SDK: version 2 on httpx, 3 on httpx2."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.llms._bounds import UnreadableError, bounded
from canopy_rag.llms._errors import Response, broken, timed_out, unreachable, unreadable
from canopy_rag.llms._replicas import Address, Replica

CONNECT_S = 10.0
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")
_EXTRA = "llm"
_FEATURE = "A chat server"


def check_installed() -> None:
    """Check, without loading them, that the packages are there.

    Raises:
        MissingDependencyError: Naming the one that is not.
    """
    for package in ("openai", "tenacity"):
        if find_spec(package) is None:
            require(package, extra=_EXTRA, feature=_FEATURE)


class Clients:
    """The SDK's clients of one event loop: one for each server, over one pool of connections.

    Replies come back as they are, whatever their status. Servers that call themselves compatible
    send texts in parts, errors of status 200, web pages, and streams that just end: the SDK's own
    models of replies make None, a bare `JSONDecodeError` or an empty stream of those.

    Args:
        replicas: The servers.
        api_key: Sent as bearer token; None: nothing is sent, whatever the environment holds.
        timeout_s: Seconds that a request may take; for a stream, that it may pause.

    Raises:
        ConfigError: If a URL's host is none.
    """

    def __init__(self, replicas: Sequence[Replica], api_key: str | None, timeout_s: float) -> None:
        self._sdk = require("openai", extra=_EXTRA, feature=_FEATURE)
        self._http = _http_of(self._sdk)
        # anyio's own error is what some connections over TLS end with when they are cut.
        self._breaks = (self._http.HTTPError, OSError, import_module("anyio").EndOfStream)
        self._timeout_s = timeout_s
        self._api_key = api_key
        self._pool = self._sdk.DefaultAsyncHttpxClient(
            timeout=self._sdk.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s), pool=None),
            # Servers on this machine are reached without a proxy.
            mounts=dict.fromkeys(_DIRECT),
            follow_redirects=False,
            event_hooks={"response": [bounded(self._http)]},
        )
        self._of = {each: self._client(each.address) for each in replicas}
        _keep_texts_out_of_the_log()

    async def ask(self, replica: Replica, payload: Mapping[str, Any]) -> Response:
        """Send a chat completion, return the reply with its body read.

        Raises:
            AttemptError: If no reply came.
        """
        # Not `chat.completions.create`, which first walks through the payload and its schema.
        return await self.post(replica, "/chat/completions", payload)

    async def open(self, replica: Replica, payload: Mapping[str, Any]) -> Response:
        """Send a chat completion whose reply is read by `chunks`, and has to be closed.

        Raises:
            AttemptError: If no reply came.
        """
        create = self._of[replica].chat.completions.with_raw_response.create
        headers = self._authorisation(replica)
        async with self._failures(replica):
            return await self._answer(create(**payload, stream=True, extra_headers=headers))

    async def chunks(self, replica: Replica, response: Response) -> AsyncIterator[bytes]:
        """Yield the body of a reply as it comes.

        Raises:
            AttemptError: If it breaks off, or pauses for too long.
        """
        reading = response.aiter_bytes()
        while True:
            async with self._failures(replica):
                try:
                    chunk = await anext(reading)
                except StopAsyncIteration:
                    return
            yield chunk

    async def get(self, replica: Replica, url: str) -> Response:
        """Get a URL, absolute or below the API.

        Raises:
            AttemptError: If no reply came.
        """
        async with self._failures(replica):
            return await self._answer(self._of[replica].get(url, **self._raw(replica)))

    async def post(self, replica: Replica, url: str, payload: Mapping[str, Any]) -> Response:
        """Post JSON to a URL, absolute or below the API.

        Raises:
            AttemptError: If no reply came.
        """
        async with self._failures(replica):
            client = self._of[replica]
            return await self._answer(client.post(url, body=payload, **self._raw(replica)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    def _client(self, address: Address) -> Any:
        headers: dict[str, Any] = {"Accept-Encoding": "identity"}
        if not address.host.endswith("openai.com"):
            # The SDK takes them from the environment; they are nobody else's business.
            headers |= dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), self._sdk.Omit())
        try:
            return self._sdk.AsyncOpenAI(
                # The SDK refuses to be without a key; each request leaves the header out instead.
                api_key=self._api_key or "none",
                base_url=address.api,
                default_query=dict(parse_qsl(address.query, keep_blank_values=True)),
                default_headers=headers,
                max_retries=0,
                http_client=self._pool,
            )
        except self._http.InvalidURL as error:
            raise ConfigError(f"llm URL {address.shown} cannot be used: {error}") from error

    async def _answer(self, call: Awaitable[Any]) -> Response:
        try:
            reply = await call
        except self._sdk.APIStatusError as error:
            reply = error.response
        response: Response = getattr(reply, "http_response", reply)
        return response

    def _raw(self, replica: Replica) -> dict[str, Any]:
        headers = self._authorisation(replica)
        return {"cast_to": self._http.Response, "options": {"headers": headers}}

    def _authorisation(self, replica: Replica) -> dict[str, Any]:
        if replica.address.login:
            login = ":".join(replica.address.login).encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        return {} if self._api_key else {"Authorization": self._sdk.Omit()}

    @asynccontextmanager
    async def _failures(self, replica: Replica) -> AsyncIterator[None]:
        """Turn what can go wrong inside into an `AttemptError`, a time-out included."""
        url = replica.address.shown
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except (TimeoutError, self._sdk.APITimeoutError, self._http.TimeoutException) as error:
            raise timed_out(url, self._timeout_s) from error
        except self._sdk.APIConnectionError as error:
            cause = error.__cause__ or error
            if isinstance(cause, UnreadableError):
                raise unreadable(url, cause) from error
            told = unreachable if isinstance(cause, self._http.ConnectError) else broken
            raise told(url, cause) from error
        except UnreadableError as error:
            raise unreadable(url, error) from error
        # The SDK names what breaks between request and reply; what breaks a stream it passes on.
        except self._breaks as error:
            raise broken(url, error) from error


def _http_of(sdk: ModuleType) -> ModuleType:
    """Return the HTTP library under the SDK; the SDK does not export its errors."""
    return import_module(sdk.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])


def _keep_texts_out_of_the_log() -> None:
    logger = logging.getLogger("openai._base_client")
    if _holds_no_text not in logger.filters:
        logger.addFilter(_holds_no_text)


def _holds_no_text(record: logging.LogRecord) -> bool:
    """Tell the SDK's debug line with the whole request, which version 2 writes, from others."""
    return not str(record.msg).startswith("Request options")
