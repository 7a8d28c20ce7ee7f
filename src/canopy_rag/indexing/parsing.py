"""Files to items, in this process or in several beside it; a file that fails stops no other."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from canopy_rag.core.types import Item
from canopy_rag.indexing.sources import Parse, reason_of

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Parsed:
    """The items of one file, or the first of them, or why there are none."""

    items: list[Item] = field(default_factory=list)
    rest: Iterator[Item] | None = None
    """What follows `items` in a file that has more than fit into memory; None when that is all."""
    complete: bool = True
    """Whether `items` and `rest` are all; False: the file is large and must be read here."""
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
    """Parses files in several processes, a few ahead of the reader.

    A process that dies, as on a crash in a native library, fails only the file that killed it.

    Args:
        parse: Reads one file; must be picklable.
        most_nodes: A file with more is parsed here, as a stream.
        workers: Number of processes.
    """

    def __init__(self, parse: Parse, most_nodes: int, workers: int) -> None:
        self._parse = parse
        self._most_nodes = most_nodes
        self._workers = workers
        self._pool = _new_pool(workers)

    def parsed(self, work: Iterable[Work[T]]) -> Iterator[tuple[Work[T], Parsed]]:
        """Yield each file with its items, in order."""
        ahead: deque[tuple[Work[T], Future[Parsed]]] = deque()
        for each in work:
            ahead.append((each, self._submit(each)))
            if len(ahead) > 2 * self._workers:
                yield self._settled(*ahead.popleft())
        while ahead:
            yield self._settled(*ahead.popleft())

    def close(self) -> None:
        """End the processes; what they have not begun is not done."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _settled(self, work: Work[T], future: Future[Parsed]) -> tuple[Work[T], Parsed]:
        parsed = _result(future)
        if parsed is None:  # it, or one beside it, killed the process: try it alone
            with _new_pool(1) as alone:
                parsed = _result(self._submit_to(alone, work))
        if parsed is None:
            reason = "ended the process that parsed it: a crash in its parser, or no memory left"
            parsed = Parsed(reason=reason)
        if not parsed.complete:
            parsed = parse_here(self._parse, work.path, work.uri, self._most_nodes)
        return work, parsed

    def _submit(self, work: Work[T]) -> Future[Parsed]:
        try:
            return self._submit_to(self._pool, work)
        except BrokenProcessPool:
            self._pool = _new_pool(self._workers)
            return self._submit_to(self._pool, work)

    def _submit_to(self, pool: ProcessPoolExecutor, work: Work[T]) -> Future[Parsed]:
        return pool.submit(_parse_there, self._parse, work.path, work.uri, self._most_nodes)


def _new_pool(workers: int) -> ProcessPoolExecutor:
    # Forking a process that runs an engine's threads can lock up.
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
    )


def _result(future: Future[Parsed]) -> Parsed | None:
    """Return what a process made of a file, or None if the process died."""
    try:
        return future.result()
    except BrokenProcessPool:
        return None
    except Exception as error:  # such as items that cannot cross over
        return Parsed(reason=reason_of(error))


def _parse_there(parse: Parse, path: Path, uri: str, most_nodes: int) -> Parsed:
    parsed = parse_here(parse, path, uri, most_nodes)
    if parsed.rest is not None:  # an open file cannot cross over
        return Parsed(complete=False)
    return parsed


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
