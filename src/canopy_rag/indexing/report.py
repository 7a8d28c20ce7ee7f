"""What an indexing run did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


class Progress(Protocol):
    """Hears how far a run is."""

    def __call__(self, done: int, total: int, current: str, items: int) -> None:
        """Take note.

        Args:
            done: Files that are settled.
            total: Files that are to be looked into; unchanged ones are not among them.
            current: The file at work, as the user named it; empty at the end.
            items: Items written so far.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A file that was not indexed."""

    path: str
    """As the user named it, or below a folder that the user named."""
    reason: str
    """What is wrong and what to do."""


@dataclass(slots=True, kw_only=True)
class IndexReport:
    """Counts files; grows while a run goes on."""

    indexed: int = 0
    """New files."""
    unchanged: int = 0
    replaced: int = 0
    """Files that had changed, or were indexed with other settings."""
    removed: int = 0
    ignored: int = 0
    """Hidden, excluded and unsupported files; an ignored folder counts once."""
    failed: list[Failure] = field(default_factory=list)
    items: int = 0
    """Items written."""
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return what `canopy index --json` prints."""
        return {
            "files": {
                "indexed": self.indexed,
                "unchanged": self.unchanged,
                "replaced": self.replaced,
                "removed": self.removed,
                "ignored": self.ignored,
                "failed": [
                    {"path": printable(failure.path), "reason": printable(failure.reason)}
                    for failure in self.failed
                ],
            }
        }


def printable(text: str) -> str:
    """Return `text` with what cannot be written as UTF-8 escaped: bytes of foreign file names."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
