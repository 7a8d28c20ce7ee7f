"""What every benchmark loader gives, whatever its files look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item

Group = Literal["in_domain", "out_of_domain", "extra"]
"""Which pool a benchmark's items belong to (P16)."""
Metric = Literal["squad", "hotpotqa", "tatqa", "mmqa", "accuracy"]
"""The official way to compare answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """A file that a loader reads if it is in the folder."""

    path: str
    """Official name, relative to the benchmark's folder; may hold `*`."""
    what: str
    required: bool = False
    """Whether nothing can be loaded without it; of several forms none is required alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """A question or item that was not kept, and why."""

    id: str
    reason: str
    """One of a loader's few fixed phrases, so that omissions can be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A benchmark read from a folder."""

    name: str
    questions: tuple[Question, ...]
    """Questions whose gold evidence was located, in file order."""
    items: Callable[[], Iterator[Item]]
    """Streams the benchmark's items anew at each call; ids are unique."""
    omitted: tuple[Omitted, ...] = ()
    """Questions that were not kept."""
    n_total: int = 0
    """Questions in the files."""
    notes: tuple[str, ...] = ()
    """What else the user should know, such as files that are missing and what that means."""

    def why_omitted(self) -> dict[str, int]:
        """Return how many questions were left out for each reason, most frequent first."""
        return dict(Counter(each.reason for each in self.omitted).most_common())


Load: TypeAlias = Callable[[Path, SentenceSplitter], Loaded]
"""Reads whichever official files are in a folder; raises `DataError` naming file and place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark: what it is, and how it is read."""

    name: str
    """As in `--benchmark NAME=PATH`."""
    title: str
    group: Group
    metric: Metric
    licence: str
    homepage: str
    files: Sequence[ExpectedFile]
    load: Load
    kinds: Sequence[str] = field(default=())
    """Reasoning types, by which splits are stratified; empty: none."""
