"""One request, several attempts, several servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from canopy_rag.llms._errors import AttemptError
from canopy_rag.llms._replicas import Replica, Replicas

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
MAX_PAUSE_S = 30.0
BUSY_S = 1.0
"""How long a server is left out that answers 429 and does not say for how long: it answers at once,
and so would have the fewest requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """Sends until it succeeds.

    The SDK's own retries are off: they know one server only, and would multiply with these.

    Args:
        replicas: The servers.
        timeout_s: Seconds that one attempt may take; no server is waited for longer. Once all
            servers have done nothing but fail for as long, each is tried once and not again.
        max_retries: Attempts after the first; with several servers each is tried once at least.
        backoff_s: First pause between attempts at one server; it doubles. As much at most is added
            at random, to what `Retry-After` asks for too.
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
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt
        from tenacity.wait import wait_exponential, wait_random

        tried: list[Replica] = []
        jitter = wait_random(0, self.backoff_s)
        growing = wait_exponential(self.backoff_s, MAX_PAUSE_S)

        def again(error: BaseException) -> bool:
            return (
                isinstance(error, AttemptError) and error.retryable and self._hopeful(error, tried)
            )

        def pause(state: RetryCallState) -> float:
            if self.replicas.has_other(tried):
                return 0.0
            error = state.outcome.exception() if state.outcome else None
            asked = error.retry_after_s if isinstance(error, AttemptError) else None
            return jitter(state) + (growing(state) if asked is None else asked)

        policy = AsyncRetrying(
            stop=stop_after_attempt(max(self.max_retries, len(self.replicas.all) - 1) + 1),
            retry=retry_if_exception(again),
            wait=pause,
            reraise=True,
        )
        return await policy(self._attempt, send, tried)

    def _hopeful(self, error: AttemptError, tried: list[Replica]) -> bool:
        if self.replicas.has_other(tried):
            return True
        if (error.retry_after_s or 0) > self.timeout_s:
            return False
        all_tried = len(set(tried)) == len(self.replicas.all)
        return not (all_tried and self.replicas.lost(self.timeout_s))

    async def _attempt(
        self, send: Callable[[Replica], Awaitable[T]], tried: list[Replica]
    ) -> tuple[Replica, T]:
        replica = await self.replicas.take(tried)
        tried.append(replica)
        try:
            return replica, await send(replica)
        except AttemptError as error:
            self.replicas.give_back(replica, failed=error.down, pause_s=_pause_s(error))
            raise
        except BaseException:
            self.replicas.give_back(replica, failed=None)
            raise


def _pause_s(error: AttemptError) -> float | None:
    if error.retry_after_s is None and error.status == 429:
        return BUSY_S
    return error.retry_after_s
