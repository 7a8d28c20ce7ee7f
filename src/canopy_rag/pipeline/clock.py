"""Time by stage of one question; the stages are OpenTelemetry spans where that is installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any


class Clock:
    """Adds up wall-clock seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; a stage that comes again is added up, and one that fails counts too."""
        started = time.perf_counter()
        try:
            with _span(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


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
