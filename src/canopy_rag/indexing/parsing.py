"""Files to items, in processes beside this one or in it; a file that fails stops no other."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.types import Item
from canopy_rag.indexing.processes import LOOK_S, MEGABYTE, Limits, Reading, Worker
from canopy_rag.indexing.sources import Parse, reason_of

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Parsed:
    """The items of one file, or the first of them, or why there are none."""

    items: list[Item] = field(default_factory=list)
    rest: Iterator[Item] | None = None
    """What follows `items` in a file that has more than fit into memory; None when that is all."""
    reason: str | None = None
    """Why it cannot be read."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Uri and what could not be used; grows while `rest` is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[T]):
    """A file to be parsed, and what the caller knows of it."""

    path: Path
    uri: str
    about: T


def parse_here(parse: Parse, path: Path, uri: str, most_nodes: int) -> Parsed:
    """Parse one file; of a large one only the first items, the rest as it is asked for."""
    parsed = Parsed()
    try:
        items = parse(path, uri, lambda uri, message: parsed.notes.append((uri, message)))
        n_nodes = 0
        for item in items:
            parsed.items.append(item)
            n_nodes += len(item.nodes)
            if n_nodes >= most_nodes:
                parsed.rest = items
                break
    except Exception as error:  # a parser may fail in any way; the run goes on
        parsed.items, parsed.reason = [], reason_of(error)
    return parsed


class InlineParser(Generic[T]):
    """Parses files one after the other, in this process.

    Args:
        parse: Reads one file.
        most_nodes: A file with more is handed over as a stream.
    """

    def __init__(self, parse: Parse, most_nodes: int) -> None:
        self._parse = parse
        self._most_nodes = most_nodes

    def parsed(self, work: Iterable[Work[T]]) -> Iterator[tuple[Work[T], Parsed]]:
        """Yield each file with its items, in order."""
        for each in work:
            yield each, parse_here(self._parse, each.path, each.uri, self._most_nodes)

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


class PoolParser(Generic[T]):
    """Parses files in processes of their own, a few ahead of the reader.

    A file that crashes its parser, or takes more time or memory than the limits, fails alone.

    Args:
        parse: Reads one file; must be picklable.
        most_nodes: A file with more is handed over as a stream.
        workers: Number of processes.
        limits: What the parser of one file may take; None: the defaults.
        stopping: Whether the run is to end; then a wait for a parser is a `KeyboardInterrupt`.
    """

    def __init__(
        self,
        parse: Parse,
        most_nodes: int,
        workers: int,
        *,
        limits: Limits | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._most_nodes = most_nodes
        self._limits = limits or Limits()
        self._stopping = stopping
        self._waiting: queue.SimpleQueue[Reading | None] = queue.SimpleQueue()
        self._workers = [Worker(parse, self._limits, self._waiting) for _ in range(workers)]
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._look, name="canopy-watching", daemon=True)
        self._watch.start()

    def parsed(self, work: Iterable[Work[T]]) -> Iterator[tuple[Work[T], Parsed]]:
        """Yield each file with its items, in order.

        Raises:
            ConfigError: If no process can be started.
            KeyboardInterrupt: If the run is to end and there is nothing to do but wait.
        """
        ahead: deque[tuple[Work[T], Reading]] = deque()
        for each in work:
            ahead.append((each, self._submit(each)))
            if len(ahead) > 2 * len(self._workers):
                yield self._settled(*ahead.popleft())
        while ahead:
            yield self._settled(*ahead.popleft())

    def close(self) -> None:
        """End the processes; what they have not begun is not done."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.close()
        self._closed.set()
        self._watch.join()

    def _submit(self, work: Work[T]) -> Reading:
        try:
            megabytes = work.path.stat().st_size / MEGABYTE
        except OSError:
            megabytes = 0.0  # the parser will say that it is gone
        reading = Reading(work.path, work.uri, self._limits.seconds + megabytes, self._stopping)
        self._waiting.put(reading)
        return reading

    def _settled(self, work: Work[T], reading: Reading) -> tuple[Work[T], Parsed]:
        parsed = parse_here(reading.parse, work.path, work.uri, self._most_nodes)
        if isinstance(reading.error, ConfigError):
            raise reading.error
        return work, parsed

    def _look(self) -> None:
        while not self._closed.wait(LOOK_S):
            for worker in self._workers:
                worker.look()
