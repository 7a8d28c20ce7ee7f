"""Requests to embedding servers: several at once, tried again, checked before they are used.

Sent over the HTTP library of the `openai` SDK (httpx, or httpx2 since its version 3); the SDK's own
method knows neither messages nor base64, and hides which vector is missing.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, EncodeError
from canopy_rag.encoders.quantize import Floats
from canopy_rag.encoders.remote_reply import EXCERPT_CHARS, ServerError, retry_after_s, rows_of

if TYPE_CHECKING:
    from tenacity import RetryCallState

CONNECT_S = 10.0
MAX_PAUSE_S = 60.0
"""A server that asks to wait longer has failed."""
_EXTRA, _FEATURE = "llm", "An encoder over HTTP"
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")
_RETRYABLE = frozenset({408, 425, 429})
_OF_THE_SERVER = {
    401: "set CANOPY_ENCODER_API_KEY (or OPENAI_API_KEY) to a key of this server",
    403: "set CANOPY_ENCODER_API_KEY (or OPENAI_API_KEY) to a key that may use this model",
    404: "check the base URL and the name of the model",
    405: "check the base URL; it usually ends in /v1",
}
"""Replies that no other input would change, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request."""

    model: str
    names: Sequence[str]
    """What to call each input in an error; as many vectors are expected."""
    body: Callable[[int, int], Mapping[str, Any]]
    """Makes the fields that hold the inputs from a first to before a last one."""
    dimensions: int | None = None
    """Asked for; None: the model's own."""


class _AttemptError(Exception):
    def __init__(
        self, reason: str, *, status: int = 0, retryable: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.retryable = retryable and (wait_s or 0.0) <= MAX_PAUSE_S
        self.wait_s = wait_s


class EmbeddingServer:
    """Sends requests to `<url>/embeddings`.

    Args:
        urls: Base URLs; requests go round, and to the next one after a failure.
        api_key: Sent as bearer token; None: none is sent.
        dim: Dimensions that every vector must have; None: those of the first.
        max_in_flight: Most requests at once.
        timeout_s: Longest wait for the next part of a reply.
        max_retries: Further tries after a failure that may pass.
        backoff_s: First pause; it doubles, with as much again at random.

    Raises:
        ConfigError: If a URL or the key cannot be sent.
    """

    def __init__(
        self,
        urls: Sequence[str],
        api_key: str | None = None,
        *,
        dim: int | None = None,
        max_in_flight: int = 8,
        timeout_s: float = 120.0,
        max_retries: int = 5,
        backoff_s: float = 0.5,
    ) -> None:
        for url in urls:
            _check_url(url)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ConfigError("the key of the encoder's server holds characters that no key has")
        self._urls = tuple(urls)
        self._key = api_key
        self._max_in_flight = max_in_flight
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._backoff_s = backoff_s
        self._dim = dim
        self._lock = threading.Lock()
        self._turn = itertools.count()
        self._client: Any = None
        self._packed = True
        """Whether vectors are asked for as base64, a quarter of their size as text."""

    @property
    def dim(self) -> int | None:
        """Dimensions of the vectors; None before the first one came."""
        return self._dim

    def vectors(self, asks: Sequence[Ask]) -> list[Floats]:
        """Return the unit vectors of each request's inputs, `(n, dim)`, in order.

        Raises:
            EncodeError: Naming an input that the server refuses or gives no proper vector for.
            ServerError: If the server cannot be reached, or refuses everything.
        """
        halt = threading.Event()
        if len(asks) <= 1:
            return [self._vectors(ask, halt) for ask in asks]
        pool = ThreadPoolExecutor(min(self._max_in_flight, len(asks)))
        try:
            running = [pool.submit(self._vectors, ask, halt) for ask in asks]
            return [each.result() for each in running]
        finally:  # nobody waits for requests whose answers are no longer wanted
            halt.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _vectors(self, ask: Ask, halt: threading.Event) -> Floats:
        return self._part(ask, 0, len(ask.names), halt, self._max_retries)

    def _part(
        self, ask: Ask, begin: int, end: int, halt: threading.Event, max_retries: int
    ) -> Floats:
        """Return the vectors of some inputs; a refused batch is halved until the input is found."""
        names = ask.names[begin:end]
        try:
            url, reply = self._send(ask, begin, end, halt, max_retries)
        except _AttemptError as error:
            if error.status in _OF_THE_SERVER:
                raise ServerError(f"{error}; {_OF_THE_SERVER[error.status]}") from error
            if not (400 <= error.status <= 500) or error.status in _RETRYABLE:
                raise ServerError(str(error)) from error
            if ask.dimensions is not None and "dimension" in str(error).lower():
                raise ServerError(
                    f"{error}; unset encoder.dim, or let the server give fewer dimensions (vLLM: "
                    """--hf-overrides '{"is_matryoshka": true}')"""
                ) from error
            if len(names) == 1:
                raise EncodeError(
                    names[0], f"{error}; if it is too long, lower encoder.max_tokens"
                ) from error
            middle = (begin + end) // 2
            halves = [
                self._part(ask, *part, halt, min(1, max_retries))
                for part in ((begin, middle), (middle, end))
            ]
            return np.vstack(halves)
        return self._checked(rows_of(reply, names, url), names, url)

    def _send(
        self, ask: Ask, begin: int, end: int, halt: threading.Event, max_retries: int
    ) -> tuple[str, Any]:
        payload = {"model": ask.model, **ask.body(begin, end)}
        if ask.dimensions is not None:
            payload["dimensions"] = ask.dimensions
        if not self._packed:
            return self._persistently(payload, halt, max_retries)
        try:
            return self._persistently({**payload, "encoding_format": "base64"}, halt, max_retries)
        except _AttemptError as error:
            if error.status not in (400, 422) or "encoding" not in str(error).lower():
                raise
            self._packed = False  # a server that gives numbers alone, and says so
            return self._persistently(payload, halt, max_retries)

    def _persistently(
        self, payload: Mapping[str, Any], halt: threading.Event, max_retries: int
    ) -> tuple[str, Any]:
        tenacity = require("tenacity", extra=_EXTRA, feature=_FEATURE)
        growing = tenacity.wait_random_exponential(self._backoff_s, MAX_PAUSE_S)

        def pause(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.wait_s if isinstance(error, _AttemptError) else None
            return float(growing(state)) if asked is None else asked

        policy = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(max_retries + 1) | tenacity.stop_when_event_set(halt),
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, _AttemptError) and error.retryable
            ),
            wait=pause,
            sleep=tenacity.sleep_using_event(halt),
            reraise=True,
        )
        found: tuple[str, Any] = policy(self._attempt, payload)
        return found

    def _attempt(self, payload: Mapping[str, Any]) -> tuple[str, Any]:
        url = self._urls[next(self._turn) % len(self._urls)]
        client, http = self._connected()
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            response = client.post(f"{url}/embeddings", json=payload, headers=headers)
        except http.TimeoutException as error:
            raise _AttemptError(
                f"{url} did not answer within {self._timeout_s:g} s; lower encoder.max_in_flight",
                retryable=True,
            ) from error
        except (http.HTTPError, OSError) as error:
            detail = str(error) or type(error).__name__
            raise _AttemptError(
                f"{url} cannot be reached ({detail}); is the server running there?", retryable=True
            ) from error
        return url, self._content(response, url)

    def _content(self, response: Any, url: str) -> Any:
        status, text = response.status_code, response.text
        if not response.is_success:
            raise _AttemptError(
                f"{url} answered HTTP {status}: {self._excerpt(text)}",
                status=status,
                retryable=status in _RETRYABLE or status >= 500,
                wait_s=retry_after_s(response.headers),
            )
        try:
            return json.loads(text)
        except ValueError as error:
            raise _AttemptError(
                f"{url} answered no JSON: {self._excerpt(text)}; check the base URL"
            ) from error

    def _checked(self, rows: Floats, names: Sequence[str], url: str) -> Floats:
        """Return rows of length one; all have the dimension of the first that ever came."""
        with self._lock:
            self._dim = self._dim or rows.shape[1]
        if rows.shape[1] != self._dim:
            raise EncodeError(
                names[0],
                f"{url} gave a vector of {rows.shape[1]} entries, {self._dim} are expected; does "
                "it serve another model now? Use the one that the index was made with",
            )
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        for name, length in zip(names, lengths.tolist(), strict=True):
            if not math.isfinite(length) or length == 0:
                raise EncodeError(name, f"{url} gave a vector that is zero or holds no numbers")
        return np.asarray(rows / lengths[:, None], np.float32)

    def _connected(self) -> tuple[Any, Any]:
        with self._lock:
            sdk = require("openai", extra=_EXTRA, feature=_FEATURE)
            http = import_module(sdk.DefaultHttpxClient.__base__.__module__.partition(".")[0])
            if self._client is None:
                self._client = sdk.DefaultHttpxClient(
                    timeout=sdk.Timeout(
                        self._timeout_s, connect=min(CONNECT_S, self._timeout_s), pool=None
                    ),
                    mounts=dict.fromkeys(_DIRECT),  # this machine is reached without a proxy
                    follow_redirects=False,
                )
                weakref.finalize(self, self._client.close)
            return self._client, http

    def _excerpt(self, text: str) -> str:
        text = text[: 100 * EXCERPT_CHARS]
        if self._key:
            text = text.replace(self._key, "***")
        line = " ".join(text.split())
        return line if len(line) <= EXCERPT_CHARS else f"{line[:EXCERPT_CHARS]}…"


def _check_url(url: str) -> None:
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0]
    if scheme not in ("http", "https") or not mark or not host:
        raise ConfigError(
            f"encoder URL {url!r}: write it like http://HOST:PORT/v1, before #<model>"
        )
    if "@" in host:
        raise ConfigError(
            "an encoder's URL holds no user name or password; set CANOPY_ENCODER_API_KEY instead"
        )
