"""One request, several attempts, several servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from canopy_rag.llms._errors import AttemptError, transport_error
from canopy_rag.llms._replicas import Replica, Replicas

T = TypeVar("T")
MAX_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """Sends until it succeeds.

    Args:
        replicas: The servers.
        timeout_s: Seconds that one attempt may take; no server is waited for longer.
        max_retries: Attempts after the first; with several servers each is tried once at least.
        backoff_s: First pause between attempts at one server; it doubles, with jitter.
    """

    replicas: Replicas
    timeout_s: float
    max_retries: int
    backoff_s: float

    async def __call__(self, send: Callable[[Replica], Awaitable[T]]) -> tuple[Replica, T]:
        """Return the result and who gave it; the caller gives that replica back.

        Raises:
            AttemptError: The last one.
        """
        tried: list[Replica] = []

        def again(error: BaseException) -> bool:
            if not isinstance(error, AttemptError) or not error.retryable:
                return False
            patient = (error.retry_after_s or 0) <= self.timeout_s
            return patient or self.replicas.has_other(tried)

        def pause(state: RetryCallState) -> float:
            if self.replicas.has_other(tried):
                return 0.0
            error = state.outcome.exception() if state.outcome else None
            asked = error.retry_after_s if isinstance(error, AttemptError) else None
            return growing(state) if asked is None else asked

        growing = wait_exponential(self.backoff_s, MAX_PAUSE_S) + wait_random(0, self.backoff_s)
        attempts = max(self.max_retries, len(self.replicas.all) - 1) + 1
        policy = AsyncRetrying(
            stop=stop_after_attempt(attempts),
            retry=retry_if_exception(again),
            wait=pause,
            reraise=True,
        )
        return await policy(self._attempt, send, tried)

    async def _attempt(
        self, send: Callable[[Replica], Awaitable[T]], tried: list[Replica]
    ) -> tuple[Replica, T]:
        replica = self.replicas.take(tried)
        tried.append(replica)
        try:
            return replica, await send(replica)
        except (httpx.HTTPError, TimeoutError) as error:
            self.replicas.give_back(replica, failed=True)
            raise transport_error(replica.address.shown, error, self.timeout_s) from error
        except BaseException as error:
            failed = error.down if isinstance(error, AttemptError) else None
            self.replicas.give_back(replica, failed=failed)
            raise
