"""What one attempt at a chat server can end in, and how it is told."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Protocol

from canopy_rag.core.errors import LLMError

EXCERPT_CHARS = 300
_HINTS = {
    400: "If the prompt is too long for the model, lower the evidence budget",
    401: "Set CANOPY_LLM_API_KEY (or OPENAI_API_KEY) to a key of this server",
    403: "Set CANOPY_LLM_API_KEY (or OPENAI_API_KEY) to a key that may use this model",
    404: "Check the base URL and the name of the model",
    408: "Raise the timeout of the chat model",
    413: "Lower the evidence budget",
    429: "Lower the number of requests in flight, or try later",
}
_RETRYABLE = {408, 425, 429}


class Response(Protocol):
    """An HTTP reply, as both generations of the SDK hand it out."""

    @property
    def status_code(self) -> int: ...
    @property
    def is_success(self) -> bool: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...
    @property
    def text(self) -> str: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class AttemptError(LLMError):
    """One attempt failed.

    Args:
        message: What failed and what to do.
        status: The HTTP status, or None without a reply.
        retryable: Whether the same call may succeed later, or at another replica.
        retry_after_s: How long the server asks to wait; None when it does not say.
        down: Whether the server itself seems to be out of order.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        down: bool = False,
    ) -> None:
        super().__init__(message, status=status, retryable=retryable)
        self.retry_after_s = retry_after_s
        self.down = down


def excerpt(body: str, secret: str | None) -> str:
    """Return the begin of a reply on one line, pages as their text, without the key."""
    body = body[: 100 * EXCERPT_CHARS]
    if re.match(r"\s*<(!doctype|html|head|body)", body, re.IGNORECASE):
        # No class crosses a further "<": a page of those alone would take quadratic time.
        title = re.search(r"<title[^<>]*>([^<]*)</title>", body, re.IGNORECASE)
        body = title.group(1) if title else re.sub(r"<[^<>]*>", " ", body)
        body = f"a web page: {body}"
    if secret:
        body = body.replace(secret, "***")
    line = " ".join(body.split())
    return line if len(line) <= EXCERPT_CHARS else f"{line[:EXCERPT_CHARS]}…"


def check(response: Response, url: str, secret: str | None) -> None:
    """Accept a reply that is a success; its body has been read.

    Args:
        response: The reply.
        url: Where it came from, for messages.
        secret: The key, kept out of messages.

    Raises:
        AttemptError: If it is none.
    """
    if response.is_success:
        return
    status, headers = response.status_code, response.headers
    hint = _HINTS.get(status, "Look at the server's log" if status >= 500 else "")
    if 300 <= status < 400:
        target = headers.get("location", "").partition("?")[0]
        hint = f"Use the URL it redirects to{f': {target}' if target else ''}"
    wait = retry_after_s(headers)
    told = excerpt(response.text, secret) or "an empty body"
    asked = f" It asks to wait {wait:g} s." if wait else ""
    advice = f" {hint}." if hint else ""
    raise AttemptError(
        f"{url} answered HTTP {status}: {told}.{asked}{advice}",
        status=status,
        retryable=status in _RETRYABLE or status >= 500,
        retry_after_s=wait,
        down=status >= 500,
    )


def timed_out(url: str, timeout_s: float) -> AttemptError:
    """Return the error of an attempt that took too long."""
    return AttemptError(
        f"{url} did not answer within {timeout_s:g} s. Raise the timeout or lower the load",
        retryable=True,
        down=True,
    )


def unreachable(url: str, error: BaseException) -> AttemptError:
    """Return the error of an attempt that found nobody at the other end."""
    return AttemptError(
        f"{url} cannot be reached ({_detail(error)}). Is the server running there?",
        retryable=True,
        down=True,
    )


def broken(url: str, error: BaseException) -> AttemptError:
    """Return the error of an attempt that got no whole reply."""
    return AttemptError(
        f"{url} broke the connection off ({_detail(error)}). Look at the server's log",
        retryable=True,
        down=True,
    )


def unreadable(url: str, error: BaseException) -> AttemptError:
    """Return the error of a reply that is not read to its end."""
    return AttemptError(f"the reply of {url} is not read: {error}. Is it a chat server?")


def _detail(error: BaseException) -> str:
    """Return the outermost words of an error and its causes; many have none."""
    cause: BaseException | None = error
    while cause is not None:
        if words := str(cause).strip():
            return words
        cause = cause.__cause__
    return type(error).__name__


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds `Retry-After` asks to wait, given as seconds or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time())
    except ValueError:
        return None
