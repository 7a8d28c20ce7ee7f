"""Time by stage of one question; the stages are OpenTelemetry spans where that is installed.

Stages nest, and each counts its own time alone: a search inside the stage `retrieve` is time of the
stage `search`, which the paper's latency leaves out (P17).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

SEARCH = "search"
"""The stage of looking up vectors, which the paper's latency leaves out (P17)."""
Watch = Callable[[str, float, float], None]
"""Hears each stretch of time that a stage took: its name, begin and end by `time.perf_counter`."""

_watch: ContextVar[Watch | None] = ContextVar("canopy_watch", default=None)
_open: ContextVar[_Frame | None] = ContextVar("canopy_stage", default=None)


@dataclass(slots=True)
class _Frame:
    """A stage that is running."""

    clock: Clock
    name: str
    since: float
    """When its own time began or went on."""

    def close(self, now: float) -> None:
        """Count the time since it began or went on."""
        seconds = self.clock.seconds
        seconds[self.name] = seconds.get(self.name, 0.0) + now - self.since
        watch = _watch.get()
        if watch is not None:
            watch(self.name, self.since, now)


class Clock:
    """Adds up wall-clock seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; a stage that comes again is added up, and one that fails counts too.

        Inside another stage of the same context, the other one's time stands still.
        """
        outer = _open.get()
        frame = _Frame(self, name, time.perf_counter())
        if outer is not None:
            outer.close(frame.since)
        # Set back by value: an async generator may be resumed in another context, where a token
        # of this one does not count.
        _open.set(frame)
        try:
            with _span(name):
                yield
        finally:
            now = time.perf_counter()
            frame.close(now)
            if outer is not None:
                outer.since = now
            _open.set(outer)


@contextmanager
def inner_stage(name: str) -> Iterator[None]:
    """Time a stage of whatever question is at work in this context; of none, nothing is timed."""
    outer = _open.get()
    if outer is None:
        yield
        return
    with outer.clock.stage(name):
        yield


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Let `watch` hear the stages of all questions that are started inside, from any thread."""
    before = _watch.get()
    _watch.set(watch)
    try:
        yield
    finally:
        _watch.set(before)


@cache
def _tracer() -> Any:
    """Return a tracer, or None: canopy does not depend on OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return None
    return trace.get_tracer("canopy_rag")


def _span(name: str) -> AbstractContextManager[Any]:
    tracer = _tracer()
    if tracer is None:
        return nullcontext()
    span: AbstractContextManager[Any] = tracer.start_as_current_span(f"canopy.{name}")
    return span
