"""Stages are timed, added up, and told to OpenTelemetry where it is installed."""

import asyncio
from contextlib import contextmanager

import pytest

from canopy_rag.pipeline import clock as clocks
from canopy_rag.pipeline.clock import Clock, inner_stage, watching


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


@pytest.fixture
def ticking(monkeypatch):
    """Let the clock go on by one second each time it is read."""
    now = iter(range(100))
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: float(next(now)))


@pytest.mark.usefixtures("ticking")
def test_the_time_of_a_stage_stands_still_while_one_inside_it_runs():
    clock, heard = Clock(), []
    with (
        watching(lambda *stretch: heard.append(stretch)),
        clock.stage("retrieve"),
        inner_stage("search"),
    ):
        pass
    assert heard == [("retrieve", 0, 1), ("search", 1, 2), ("retrieve", 2, 3)]
    assert clock.seconds == {"retrieve": 2, "search": 1}


def test_an_inner_stage_of_no_question_times_nothing():
    heard = []
    with watching(lambda *stretch: heard.append(stretch)), inner_stage("search"):
        pass
    assert heard == []


async def test_a_search_in_a_thread_is_a_stage_of_its_question():
    def search():
        with inner_stage("search"):
            pass

    clock, heard = Clock(), []
    with watching(lambda name, *_: heard.append(name)), clock.stage("retrieve"):
        await asyncio.to_thread(search)
    assert heard == ["retrieve", "search", "retrieve"]
    assert set(clock.seconds) == {"retrieve", "search"}
