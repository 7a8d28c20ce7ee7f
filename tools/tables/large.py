"""What large inputs took of memory and time, and what a kill left of them."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return a line for each input."""
    result = benchmark_tables.read("large")
    lines = [
        [
            each["what"],
            f"{each['megabytes']:,.0f}",
            f"{each['items']:,}",
            f"{each['run_mb']:,}",
            f"{each['parser_mb']:,}",
            f"{each['seconds']:,.0f}",
            f"{each['taken_up_s']:,.0f}",
            f"{each['kept_files']:,}",
            "yes" if each["same_after"] else "no",
        ]
        for each in result.values()
    ]
    head = [
        "input",
        "MB",
        "items",
        "run, MB",
        "parser, MB",
        "s",
        "s after the kill",
        "files kept",
        "complete",
    ]
    loads = ", ".join(f"{each['load']:.0f}" for each in result.values())
    machine = benchmark_tables.machine(next(iter(result.values())))
    return f"{benchmark_tables.table(head, lines)}\n\n{machine}; load during each: {loads}."
