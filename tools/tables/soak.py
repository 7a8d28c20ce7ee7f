"""What twenty minutes of everything left behind in `canopy serve`."""

from __future__ import annotations

from collections import Counter

import benchmark_tables


def table() -> str:
    """Return the totals, the process over time, and the replies by kind of request."""
    result = benchmark_tables.read("soak")
    told = (
        f"{result['minutes']:.0f} minutes, {result['requests']:,} requests by {result['workers']} "
        f"clients. Replies that should not be: {result['n_unexpected']}; errors in the log: "
        f"{result['errors_in_log']}. Memory grew by {result['rss_mb_per_minute']:.2f} MB a minute, "
        f"{result['rss_kb_per_request']:.2f} KB a request; in the last half it was within "
        f"{result['rss_mb_spread_of_last_half']:.0f} MB. {benchmark_tables.machine(result)}."
    )
    moments = [
        ("before", result["before"]),
        *((f"{each['minutes']:.0f} min", each) for each in result["samples"][::3]),
        ("after, load ended", result["after"]),
    ]
    names = ("requests", "rss_mb", "descriptors", "threads", "tasks", "at_work")
    process = [[moment, *(f"{each[name]:,.0f}" for name in names)] for moment, each in moments]
    replies = [
        [name, f"{sum(own.values()):,}", ", ".join(f"{n:,} x {s}" for s, n in _common(own))]
        for name, own in sorted(result["statuses"].items())
    ]
    head = ["", "requests", "memory, MB", "descriptors", "threads", "tasks", "at work"]
    return "\n\n".join(
        [
            told,
            benchmark_tables.table(head, process),
            benchmark_tables.table(["request", "n", "replies"], replies),
        ]
    )


def _common(counts: dict[str, int]) -> list[tuple[str, int]]:
    return Counter(counts).most_common()
