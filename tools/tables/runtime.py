"""Other ways to run the embedded encoder's network."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return what each gains and which decisions it changes."""
    result = benchmark_tables.read("runtime")
    lines = []
    for name, row in result["rows"].items():
        query = f"{row['query_speedup']:.2f} x" if "query_speedup" in row else ""
        shares = [f"{row[key]:.1%}" if key in row else "" for key in ("items", "paper", "set")]
        lines.append([name, f"{row['batches_speedup']:.2f} x", query, *shares])
    head = ["", "batches", "a query", "same items", "same regions, `paper`"]
    return (
        f"{benchmark_tables.table([*head, 'same regions, `set`'], lines)}\n\n"
        f"The first line reads {result['tokens_per_s']:,} tokens a second, and a query in "
        f"{result['query_ms']:.1f} ms; {result['queries_in_a_call']} queries in one call take "
        f"{result['query_speedup_in_a_call']:.2f} x less time each. "
        f"{result['items']} items in {result['repeats']} turns, {result['questions']} questions; "
        f"{benchmark_tables.machine(result)}."
    )
