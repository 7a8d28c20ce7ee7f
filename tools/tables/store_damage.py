"""Which damage of an index's files is named, and what a search made of it."""

from __future__ import annotations

import benchmark_tables

_NAMES = {
    "data": "items and vectors",
    "versions": "the list of files",
    "indices": "indices of search",
    "transactions": "the engine's log",
}
_OUTCOMES = (
    "named",
    "search answers",
    "search says why not",
    "search answers otherwise",
    "silent",
    "next run completes",
    "next run says why not",
    "next run loses",
)


def table() -> str:
    """Return one line for each kind of file."""
    result = benchmark_tables.read("store-faults")
    lines = []
    for kind, counts in result["damaged"].items():
        figures = [_count(counts, outcome) for outcome in _OUTCOMES[:5]]
        again = [counts.get(outcome, 0) for outcome in _OUTCOMES[5:]]
        told = f"{again[0]} complete, {again[1]} say why not, {again[2]} lose"
        lines.append(
            [
                _NAMES.get(kind, f"`{kind}`"),
                str(counts["injected"]),
                *figures,
                told if any(again) else "",
            ]
        )
    head = ["damaged", "files", "named", "answers as before", "says why not", "answers otherwise"]
    return benchmark_tables.table([*head, "silent", "the next run"], lines)


def _count(counts: dict[str, int], outcome: str) -> str:
    return str(counts.get(outcome, 0))
