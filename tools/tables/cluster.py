"""What 21 million passages take on a cluster, simulated."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return the table with its assumptions."""
    result = benchmark_tables.read("cluster")
    lines = [
        [
            f"{row['units']} {row['kind']}{'s' if row['units'] > 1 else ''}",
            f"{row['hours']:,.1f}",
            f"{row['perfect_hours']:,.1f}",
            f"{row['items_per_s']:,}",
            f"{100 * row['writing']:.0f} %",
            f"{row['lost_workers']}",
            f"{row['items_again']:,}",
            f"{row['cost']:,.0f}",
        ]
        for row in result["rows"]
    ]
    head = ["cluster", "hours", "if nothing were in the way", "items/s", "writer busy"]
    head += ["workers lost", "items made twice", "cost"]
    price, assumed = result["price"], result["assumed"]
    return (
        f"{result['items']:,} passages; an index of {result['index_gb']:,.0f} GB, "
        f"{result['sent_gb']:,.0f} GB sent to the writer. A core makes "
        f"{result['core_items_per_s']} items a second, measured; a GPU "
        f"{result['assumed_gpu_items_per_s']:,.0f}, **assumed**, which takes "
        f"{result['workers_per_gpu']} workers and {result['cores_per_gpu']} cores beside it for "
        "parsing and packing. Assumed as well: each worker is lost every "
        f"{assumed['a worker is lost every (h)']:.0f} hours and replaced after "
        f"{assumed['and replaced after (s)']:.0f} s, and "
        f"{100 * assumed['workers that take twice as long']:.0f} % take twice as long; "
        f"{price['core-hour']} for a core-hour, {price['GPU-hour']} for a GPU-hour. The vector "
        f"index is built afterwards.\n\n{benchmark_tables.table(head, lines)}"
    )
