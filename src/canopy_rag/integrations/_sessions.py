"""What an agent has been shown so far, so that a later search brings only what is new."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.evidence import Evidence, Shown
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Node

NEW = "new"
"""Asks for a session with a name that nobody can guess."""
MAX_NAME_CHARS = 200
MAX_LEAVES = 200_000
"""Leaves that one session remembers; an agent that has read that much starts another."""


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """What one agent has been shown. Not for two threads at once: hold `lock`."""

    id: str | None = None
    """None: it ends with the call."""
    last_used: float = 0.0
    n_calls: int = 0
    n_fragments: int = 0
    """Shown so far; numbers go on from here."""
    n_leaves: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[tuple[str, int], set[int]] = field(default_factory=dict)

    def take(self, evidence: Evidence) -> Evidence:
        """Return what of the evidence was not shown before, and remember it as shown.

        Of a region that was shown in part, the rest is returned. An item that was indexed again
        with another content is a new one.

        Raises:
            DataError: If the session is full.
        """
        if self.n_leaves >= MAX_LEAVES:
            raise DataError(f"session {self.id!r} is full; go on in a new one")
        entries = [new for new in map(self._unseen, evidence.entries) if new is not None]
        self.n_calls += 1
        self.n_fragments += sum(len(entry.kept) for entry in entries)
        return replace(evidence, entries=tuple(entries))

    def _unseen(self, entry: Shown) -> Shown | None:
        nodes = entry.item.nodes
        seen = self._seen.setdefault((entry.item.id, hash(entry.item)), set())
        shown = {leaf for node in entry.kept for leaf in leaves(nodes, node)}
        new = shown - seen
        if entry.cut is None:  # of a leaf that was cut short the rest is still to be seen
            seen |= new
            self.n_leaves += len(new)
        if new == shown:
            return entry
        return replace(entry, kept=coarsest(nodes, new), cut=None) if new else None


def coarsest(nodes: Sequence[Node], chosen: set[int]) -> tuple[int, ...]:
    """Return the fewest nodes that hold just the chosen leaves, ascending.

    Args:
        nodes: A tree in preorder.
        chosen: Indices of leaves.
    """
    full = [node.index in chosen for node in nodes]
    for node in reversed(nodes):  # preorder: children come first
        if node.children:
            full[node.index] = all(full[child] for child in node.children)
    return tuple(
        node.index
        for node in nodes
        if full[node.index] and (node.parent is None or not full[node.parent])
    )


class Sessions:
    """The sessions of a server: at most so many, forgotten when idle.

    Args:
        limit: Most sessions; the one that was idle longest makes room.
        idle_s: Seconds without a call after which a session is forgotten.
        clock: Seconds that only grow.

    Raises:
        ConfigError: If the limit is below 1 or the time not above 0.
    """

    def __init__(
        self,
        *,
        limit: int = 256,
        idle_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if limit < 1 or idle_s <= 0:
            raise ConfigError(
                f"sessions need a limit of at least 1 and a time above 0, got {limit}, {idle_s}"
            )
        self._limit = limit
        self._idle_s = idle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            self._forget()
            return len(self._sessions)

    def get(self, name: str | None, owner: str = "") -> Session:
        """Return the session of a name, a fresh one if there is none or it has expired.

        Args:
            name: As the agent gives it; `new`: a fresh one whose id nobody can guess. None or
                empty: one that ends with the call.
            owner: Who may share it: two owners' sessions of one name are two.

        Raises:
            DataError: If the name is too long.
        """
        if not name:
            return Session()
        if len(name) > MAX_NAME_CHARS:
            raise DataError(f"a session's name has at most {MAX_NAME_CHARS} characters")
        if name == NEW:
            name = secrets.token_urlsafe(12)
        with self._lock:
            self._forget()
            session = self._sessions.pop((owner, name), None) or Session(id=name)
            session.last_used = self._clock()
            self._sessions[owner, name] = session
            while len(self._sessions) > self._limit:
                self._sessions.popitem(last=False)
        return session

    def _forget(self) -> None:
        """Drop what has been idle too long; the least recently used come first."""
        latest = self._clock() - self._idle_s
        while self._sessions and next(iter(self._sessions.values())).last_used <= latest:
            self._sessions.popitem(last=False)
