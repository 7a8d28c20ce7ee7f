"""Bytes that took work to make, the latest used first, within a size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Cache:
    """Keeps results by key; the one that was not used for longest goes first.

    Args:
        max_bytes: Size of all results.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._n_bytes = 0

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the result for `key`, made if need be. Two threads may make it at once."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._n_bytes += len(made)
            while self._n_bytes > self._max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._n_bytes -= len(dropped)
        return made
