"""What became of mutated and made-up files, by format."""

from __future__ import annotations

import benchmark_tables

OUTCOMES = ("parsed", "parsed, with notes", "clear error", "net")
FORBIDDEN = ("crash", "hang", "memory", "broken promise", "no clear error")


def table() -> str:
    """Return the totals and outcomes by format."""
    result = benchmark_tables.read("fuzz-ingest")
    limits = result["limits"]
    told = (
        f"{result['count']:,} files from {len(result['formats'])} formats; at most "
        f"{limits['memory_mb']:,} MB and {limits['seconds']:.0f} s without a result; "
        f"{benchmark_tables.machine(result)}."
    )
    before = result["before_fixes"]
    if before:
        n_bad = sum(before.get(each, 0) for each in FORBIDDEN)
        told += (
            f" Before the fixes {n_bad} of them broke a promise and {before.get('net', 0)} were "
            "unnamed damage; these ran again."
        )
    lines = []
    for name, counts in result["formats"].items():
        shown = [f"{counts.get(each, 0):,}" for each in (*OUTCOMES, *FORBIDDEN)]
        lines.append([name, f"{sum(counts.values()):,}", *shown])
    total = [f"**{result['outcomes'].get(each, 0):,}**" for each in (*OUTCOMES, *FORBIDDEN)]
    lines.append(["**all**", f"**{result['count']:,}**", *total])
    head = ["format", "files", *OUTCOMES[:3], "unnamed damage", *FORBIDDEN]
    return f"{told}\n\n{benchmark_tables.table(head, lines)}"
