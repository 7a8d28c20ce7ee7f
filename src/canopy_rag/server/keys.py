"""Who may ask: the server's key, and the sessions of browsers that have shown it once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from canopy_rag.config import Secret

MAX_SESSIONS = 1000


class Key:
    """A key that is compared in constant time and never shown.

    Args:
        secret: The key.
    """

    def __init__(self, secret: Secret) -> None:
        self._digest = _digest(secret.reveal().encode("utf-8"))

    def matches(self, given: bytes) -> bool:
        """Whether `given` is the key; takes the same time however much of it is right."""
        return hmac.compare_digest(_digest(given), self._digest)


class Sessions:
    """Tokens that expire; only their hashes are kept.

    Args:
        lifetime_s: Seconds that one lives.
        clock: Seconds that only grow.
    """

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.lifetime_s = lifetime_s
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def open(self) -> str:
        """Return a new token; beyond a thousand the one that ends first is dropped."""
        now = self._clock()
        self._ends = {token: ends for token, ends in self._ends.items() if ends > now}
        while len(self._ends) >= MAX_SESSIONS:
            self._ends.pop(min(self._ends, key=self._ends.__getitem__))
        token = secrets.token_urlsafe(32)
        self._ends[_digest(token.encode())] = now + self.lifetime_s
        return token

    def holds(self, token: str) -> bool:
        """Whether a token is known and has not expired."""
        ends = self._ends.get(_digest(token.encode("utf-8", "surrogateescape")))
        return ends is not None and ends > self._clock()

    def close(self, token: str) -> None:
        """Forget a token."""
        self._ends.pop(_digest(token.encode("utf-8", "surrogateescape")), None)


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
