"""What large inputs took of memory and time, and what a kill left of them."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def table() -> str:
    """Return a line for each input."""
    result = benchmark_tables.read("large")
    isolation = result.pop("isolation", None)
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
    told = f"{benchmark_tables.table(head, lines)}\n\n{machine}; load during each: {loads}."
    return told if isolation is None else f"{told}\n\n{_beside(isolation)}"


def _beside(result: dict[str, Any]) -> str:
    """Return what the parser's own process costs."""
    seconds, cpu = result["seconds"], result["cpu_seconds"]
    ratio = seconds["--index"] / seconds["--index-here"]
    return (
        f"What the process for the parser costs: {result['what']} took {ratio:.2f} times as long "
        f"as with `index.isolate` off, {cpu['--index'] - cpu['--index-here']:.1f} s more of CPU "
        f"time ({cpu['--index']:.1f} s against {cpu['--index-here']:.1f} s; medians of "
        f"{result['repeats']} in turns)."
    )
