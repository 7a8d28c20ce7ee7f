"""What one attempt at a chat server can end in, and how it is told."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from time import time

import httpx

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
    if re.match(r"\s*<(!doctype|html|head|body)", body, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", body, re.IGNORECASE | re.DOTALL)
        body = title.group(1) if title else re.sub(r"<[^>]*>", " ", body)
        body = f"a web page: {body}"
    if secret:
        body = body.replace(secret, "***")
    line = " ".join(body.split())
    return line if len(line) <= EXCERPT_CHARS else f"{line[:EXCERPT_CHARS]}…"


def check(response: httpx.Response, url: str, secret: str | None) -> None:
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


def transport_error(url: str, error: Exception, timeout_s: float) -> AttemptError:
    """Return the error of an attempt that got no reply, or lost it half way."""
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        reason = f"did not answer within {timeout_s:g} s. Raise the timeout or lower the load"
    elif isinstance(error, httpx.ConnectError):
        reason = f"cannot be reached ({error}). Is the server running there?"
    else:
        detail = str(error) or type(error).__name__
        reason = f"broke the connection off ({detail}). Look at the server's log"
    return AttemptError(f"{url} {reason}", retryable=True, down=True)


def retry_after_s(headers: httpx.Headers) -> float | None:
    """Return how many seconds `Retry-After` asks to wait, given as seconds or as a date."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except ValueError:
        return None
