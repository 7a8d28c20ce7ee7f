"""Who may ask: the server's key, those who guess at it, and the sessions of browsers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from canopy_rag.config import Secret
from canopy_rag.server.errors import GuessingError

MAX_SESSIONS = 1000
MAX_GUESSES = 10
"""Different wrong keys that an address may send before it has to wait."""
GUESS_S = 60.0
"""How long it has to wait, and how long a wrong key is remembered after the last one."""
MAX_GUESSING = 10_000
"""Addresses whose wrong keys are remembered; beyond, the one longest silent is forgotten."""


class Key:
    """A key that is compared in constant time, not too often, and never shown.

    Args:
        secret: The key.
        clock: Seconds that only grow.
    """

    def __init__(self, secret: Secret, clock: Callable[[], float] = time.monotonic) -> None:
        self._digest = _digest(secret.reveal().encode("utf-8"))
        self._guesses = Guesses(clock)

    def matches(self, given: bytes, address: str) -> bool:
        """Whether `given` is the key; takes the same time however much of it is right.

        Args:
            given: What was sent.
            address: Who sent it.

        Raises:
            GuessingError: If too many wrong ones came from there.
        """
        wait_s = self._guesses.wait_s(address)
        if wait_s:
            raise GuessingError(wait_s)
        matches = hmac.compare_digest(_digest(given), self._digest)
        if not matches:
            self._guesses.note(address, given)
        return matches


class Guesses:
    """Wrong keys by address, so that nobody can try many.

    After ten different ones no further key of an address is looked at for a minute, right or
    wrong: an answer would tell which it is. The same wrong key sent again, as by a program that was
    set up wrongly, counts once. Of IPv6 the first 64 bits count as one address, since a caller has
    all that follow.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[float, set[bytes]]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return how many seconds no key of an address is looked at; mostly 0."""
        last, wrong = self._wrong.get(_network(address), (0.0, set()))
        return max(0.0, last + GUESS_S - self._clock()) if len(wrong) >= MAX_GUESSES else 0.0

    def note(self, address: str, key: bytes) -> None:
        """Remember a wrong key, as its hash."""
        name, now = _network(address), self._clock()
        last, keys = self._wrong.pop(name, (now, set()))
        if now - last >= GUESS_S:
            keys = set()
        keys.add(_digest(key))
        self._wrong[name] = (now, keys)
        while len(self._wrong) > MAX_GUESSING:
            self._wrong.popitem(last=False)


def _network(address: str) -> str:
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = getattr(read, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    return str(read if read.version == 4 else ipaddress.ip_network((read, 64), strict=False))


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
