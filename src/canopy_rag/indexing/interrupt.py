"""Ctrl-C that ends a run between two commits, not inside one."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupt:
    """While entered, notes the first Ctrl-C; a second one interrupts at once.

    Only in the main thread, and only if nobody else handles the signal.
    """

    def __init__(self) -> None:
        self.asked = False
        """Whether the run is to end."""
        self._taken = False

    def __enter__(self) -> Interrupt:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._taken = True
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._give_back()

    def _give_back(self) -> None:
        if self._taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._taken = False
