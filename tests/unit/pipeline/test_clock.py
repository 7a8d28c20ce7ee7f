"""Stages are timed, added up, and told to OpenTelemetry where it is installed."""

from contextlib import contextmanager

import pytest

from canopy_rag.pipeline import clock as clocks
from canopy_rag.pipeline.clock import Clock


def test_a_stage_that_comes_again_is_added_up_and_a_failing_one_counts():
    clock = Clock()
    with clock.stage("read"):
        pass
    first = clock.seconds["read"]
    with pytest.raises(ValueError, match="x"), clock.stage("read"):
        raise ValueError("x")
    assert clock.seconds["read"] > first >= 0


def test_stages_are_spans_where_a_tracer_is_there(monkeypatch):
    told = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name):
            told.append(name)
            yield

    monkeypatch.setattr(clocks, "_tracer", Tracer)
    with Clock().stage("critic"):
        pass
    assert told == ["canopy.critic"]
