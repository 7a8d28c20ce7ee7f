"""Counts for Prometheus, in a registry of each server's own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from starlette.types import Scope

from canopy_rag._optional import require
from canopy_rag.core.answer import Answer
from canopy_rag.core.evidence import Evidence
from canopy_rag.server.admission import Gate

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0)


class Metrics:
    """What `/metrics` tells. Labels have few values: routes, never paths."""

    def __init__(self) -> None:
        client: Any = require("prometheus_client", extra="server", feature="The server")
        self._client = client
        self._registry = client.CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Any:
            return client.Counter(f"canopy_{name}", text, labels, registry=self._registry)

        self._requests = counter("requests", "Requests.", "route", "method", "status")
        self._seconds = client.Histogram(
            "canopy_request_seconds",
            "Time from a request's headers to the end of its reply.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._tokens = counter("evidence_tokens", "Tokens of evidence.", "extent")
        self._answers = counter("answers", "Answers by what ended their rounds.", "stop")
        self._calls = counter("llm_calls", "Replies of chat models.")
        self._llm_tokens = counter("llm_tokens", "Tokens of chat models.", "direction")
        self._stages = counter("stage_seconds", "Seconds of answers by stage.", "stage")
        self._fallbacks = counter("fallbacks", "Steps that degraded.", "stage")
        self._uploads = counter("uploads", "Uploads that ended.", "state")
        self._tasks = self._gauge("tasks", "Tasks of the event loop that answers.")
        self._gauge("threads", "Threads of Python.").set_function(threading.active_count)

    def _gauge(self, name: str, text: str) -> Any:
        return self._client.Gauge(f"canopy_{name}", text, registry=self._registry)

    def watch(self, gate: Gate) -> None:
        """Tell how many pieces of a kind of work are at work or waiting, and the limit."""
        for name, text, value in (
            ("in_flight", "At work or waiting.", lambda: gate.n),
            ("in_flight_limit", "Most at work or waiting.", lambda: gate.limit),
        ):
            self._gauge(f"{gate.what}_{name}", f"{gate.what}: {text}").set_function(value)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        route = getattr(scope.get("route"), "path", None) or "none"
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def evidence(self, evidence: Evidence) -> None:
        """Count what was shown, and what the same items are whole."""
        self._tokens.labels("shown").inc(evidence.tokens)
        self._tokens.labels("whole").inc(evidence.tokens_full)
        for note in evidence.fallbacks:
            self._fallbacks.labels(note.stage).inc()

    def answer(self, answer: Answer) -> None:
        """Count an answer."""
        self.evidence(answer.evidence)
        self._answers.labels(answer.stop).inc()
        self._calls.inc(answer.usage.llm_calls)
        self._llm_tokens.labels("in").inc(answer.usage.prompt_tokens)
        self._llm_tokens.labels("out").inc(answer.usage.completion_tokens)
        for stage, seconds in answer.usage.seconds.items():
            self._stages.labels(stage).inc(seconds)
        for each in answer.rounds:
            for note in each.fallbacks:
                self._fallbacks.labels(note.stage).inc()

    def upload(self, state: str) -> None:
        """Count an upload that is done or has failed."""
        self._uploads.labels(state).inc()

    def text(self) -> tuple[bytes, str]:
        """Return all numbers in Prometheus's format, and its media type; in the event loop."""
        self._tasks.set(len(asyncio.all_tasks()))
        return (
            self._client.generate_latest(self._registry),
            "text/plain; version=0.0.4; charset=utf-8",
        )
