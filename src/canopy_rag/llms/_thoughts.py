"""Thinking aloud, which some servers leave in the text of a reply."""

from __future__ import annotations


class ThoughtFilter:
    """Takes one leading `<think>...</think>` off a reply that comes in pieces."""

    _OPEN, _CLOSE = "<think>", "</think>"

    def __init__(self) -> None:
        self._held = ""
        self._state = "begin"
        self.found = False

    def feed(self, piece: str) -> str:
        """Take the next piece, return what of the answer is certain by now."""
        if self._state == "answer":
            return piece
        self._held += piece
        if self._state == "begin":
            begin = self._held.lstrip()
            if self._OPEN.startswith(begin[: len(self._OPEN)]) and len(begin) < len(self._OPEN):
                return ""
            if not begin.startswith(self._OPEN):
                return self._release(self._held)
            self._state, self.found = "thought", True
        if self._state == "thought":
            _, closed, rest = self._held.partition(self._CLOSE)
            if not closed:
                return ""
            self._state, self._held = "space", rest
        rest = self._held.lstrip()
        return self._release(rest) if rest else ""

    def finish(self) -> str:
        """Return what was held back when the reply ends."""
        return self._held if self._state == "begin" else ""

    def _release(self, text: str) -> str:
        self._state, self._held = "answer", ""
        return text
