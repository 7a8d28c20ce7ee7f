"""How questions ended at a chat server that does everything wrong."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return the totals, and one line for each fault that lasted."""
    result = benchmark_tables.read("chaos-llm")
    met = sum(result["faults"].values())
    before, after = result["before"], result["after"]
    told = (
        f"{result['questions']:,} questions, {result['in_flight']} at once; {result['requests']:,} "
        f"requests, {met:,} of which met one of {result['kinds_of_fault']} faults. "
        f"{result['answered']:,} answered, {result['typed_errors']:,} ended in a typed error, "
        f"{result['hung']} hung, {result['crashed']} crashed; "
        f"{sum(result['fallbacks'].values()):,} fallbacks on record, "
        f"{sum(result['unrecorded'].values())} departures not recorded. The longest question took "
        f"{result['longest_s']:.0f} s, with attempts of {result['timeout_s']:g} s; the bound is "
        f"{result['bound_s']:g} s. Before and after: {before['tasks']} and {after['tasks']} tasks, "
        f"{before['descriptors']} and {after['descriptors']} file descriptors, "
        f"{before['threads']} and {after['threads']} threads. {benchmark_tables.machine(result)}."
    )
    lines = [
        [
            "drawn for each request" if name == "drawn" else name,
            str(result["faults"].get(name, "")),
            str(own.get("answered", 0)),
            str(own.get("typed error", 0)),
        ]
        for name, own in result["ends"].items()
    ]
    head = ["fault that lasts", "times met", "answered", "typed error"]
    return f"{told}\n\n{benchmark_tables.table(head, lines)}"
