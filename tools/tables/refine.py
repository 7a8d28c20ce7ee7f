"""From hits to what is kept of them, against the floor and the query's embedding."""

from __future__ import annotations

from typing import Any

import benchmark_tables

FORMS = ("float16", "int8", "int4")


def table() -> str:
    """Return a line for each number of hits and each form of rows."""
    result = benchmark_tables.read("refine")
    lines = [_line(n_hits, row, form) for n_hits, row in result["hits"].items() for form in FORMS]
    head = [
        "hits",
        "rows",
        "stored as",
        "read once, µs",
        "added up, µs",
        "similarities, µs",
        "with selection, µs",
        "of the embedding",
    ]
    embedding = result["hits"]["10"]["query_embedding"]
    return (
        f"{result['questions']} questions, {result['rounds']} rounds; the query's embedding took "
        f"{embedding / 1000:.1f} ms; {benchmark_tables.machine(result)}.\n\n"
        f"{benchmark_tables.table(head, lines)}"
    )


def _line(n_hits: str, row: dict[str, Any], form: str) -> list[str]:
    own = row[form]
    times = [own[name] for name in ("copy", "sum", "similarities", "refine")]
    return [
        n_hits,
        f"{row['leaf_rows']:,}",
        form,
        *(f"{each:,.1f}" if each < 100 else f"{each:,.0f}" for each in times),
        f"{100 * own['refine_to_embedding']:.1f} %",
    ]
