"""What a caller is told of an error: a status, a type, a message that gives nothing away."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from canopy_rag.core.errors import (
    ConfigError,
    DataError,
    EncodeError,
    IngestError,
    LLMError,
    MissingDependencyError,
    ModelError,
    StoreError,
)

RETRY_AFTER_S = 1
_SOON = {"Retry-After": str(RETRY_AFTER_S)}
KINDS = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    421: "misdirected_request",
    429: "too_many_requests",
    499: "client_closed_request",
    500: "internal_error",
    501: "not_installed",
    502: "model_error",
    503: "overloaded",
    504: "timeout",
}
FAULT = "something went wrong inside the server; its log has the details"


class ApiError(Exception):
    """An error that a caller is told.

    Args:
        status: HTTP status; it decides the type.
        message: What is wrong and what to do.
        headers: Sent along.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def to_dict(self) -> dict[str, Any]:
        """Return the body of the reply; `param` and `code` are there for OpenAI's clients."""
        kind = KINDS.get(self.status, "invalid_request" if self.status < 500 else "internal_error")
        error = {"type": kind, "message": self.message, "param": None, "code": None}
        return {"error": error}


class OverloadedError(ApiError):
    """More requests than a limit allows."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            503,
            f"{limit} {what} are at work or waiting already; try again in a moment",
            _SOON,
        )


class GuessingError(ApiError):
    """Too many wrong keys came from one address."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(
            429,
            "too many wrong keys came from this address; none is looked at for a while",
            {"Retry-After": str(math.ceil(wait_s))},
        )


class ClientGoneError(Exception):
    """The client has closed the connection: nobody is left to be told anything."""


def told(error: BaseException) -> ApiError:
    """Return what a caller is told of an error.

    Faults and troubles of the index are for the log alone: their messages name places on the
    server's disk.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, TimeoutError):
        return ApiError(504, "this took longer than the server allows; ask for less")
    if isinstance(error, LLMError):
        return _told_of_llm(error)
    if isinstance(error, EncodeError | ModelError):
        return ApiError(502, f"a model failed: {error}")
    if isinstance(error, MissingDependencyError):
        return ApiError(501, str(error))
    if isinstance(error, StoreError | IngestError):
        return ApiError(500, "the index or a file of it cannot be read; the log has the details")
    if isinstance(error, DataError | ConfigError):
        return ApiError(400, str(error))
    return ApiError(500, FAULT)


def _told_of_llm(error: LLMError) -> ApiError:
    if error.status == 429:
        return ApiError(503, f"the chat model is overloaded: {error}", _SOON)
    slow = error.status is None and "time" in str(error).lower()
    return ApiError(504 if slow else 502, f"the chat model did not answer: {error}")
