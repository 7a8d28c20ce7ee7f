"""What parses and encodes the files of a run: this machine, or a cluster (`indexing.on_ray`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from canopy_rag.core.protocols import Encoder, Entry
from canopy_rag.indexing.encoding import GROUP_NODES, AnyEncoded, Encoded, Encoding
from canopy_rag.indexing.parsing import InlineParser, PoolParser, Work
from canopy_rag.indexing.processes import Limits
from canopy_rag.indexing.sources import Parse
from canopy_rag.indexing.writing import Task

T = TypeVar("T")


class Engine(Protocol):
    """Turns files into encoded ones. Which files, and what becomes of them, is the run's affair."""

    @property
    def commit_nodes(self) -> int:
        """Nodes that are worth a commit: a few seconds' work."""
        ...

    def encoded(self, work: Iterable[Work[Task]]) -> Iterator[tuple[Work[Task], AnyEncoded]]:
        """Yield each file with what became of it, in any order; every file once."""
        ...

    def close(self) -> None:
        """Let go of processes and threads; what was not yielded is not done."""
        ...


MakeEngine = Callable[[int, Callable[[], bool]], Engine]
"""Makes an engine, given the number of files and whether the run is to end."""


class LocalEngine(Generic[T]):
    """Parses in processes or in this one, and encodes in a thread of this one.

    Args:
        parse: Reads one file; must be picklable for processes.
        encoder: Makes the vectors.
        checksum: Of a file, from what its `Work` is about.
        workers: Processes that parse.
        limits: What the parser of one file may take; None: with one worker, parse in this process.
        stopping: Whether the run is to end.
    """

    def __init__(
        self,
        parse: Parse,
        encoder: Encoder,
        *,
        checksum: Callable[[T], str],
        workers: int,
        limits: Limits | None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._encoding = Encoding(encoder, checksum)
        self._parser: InlineParser[T] | PoolParser[T]
        if limits is None and workers < 2:
            self._parser = InlineParser(parse, GROUP_NODES)
        else:
            self._parser = PoolParser(parse, GROUP_NODES, workers, limits=limits, stopping=stopping)

    @property
    def commit_nodes(self) -> int:
        """Nodes that are worth a commit."""
        return GROUP_NODES

    def encoded(self, work: Iterable[Work[T]]) -> Iterator[tuple[Work[T], Encoded[Entry]]]:
        """Yield each file with what became of it, in order."""
        return self._encoding.encoded(self._parser.parsed(work))

    def close(self) -> None:
        """End the processes and the thread."""
        self._parser.close()
        self._encoding.close()
