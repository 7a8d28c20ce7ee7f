"""Indexing on Ray beside the local engine."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return the table with how it was measured."""
    result = benchmark_tables.read("ray")
    lines = [
        [
            way,
            f"{row['items_per_s']:.1f}",
            f"{row['rate_to_local']:.2f}",
            f"{row['first_file_s']:.1f} s",
            f"{row['cpu_of_this_process_ms_per_item']:.1f} ms",
            "yes" if row["same_digest"] else "**no**",
            f"{row['vectors_most_apart']:g}",
        ]
        for way, row in result["rows"].items()
    ]
    head = [
        "engine",
        "items/s",
        "to local",
        "first file after",
        "CPU of the writing process per item",
    ]
    head += ["same index", "vectors apart by at most"]
    cost = result["per_item"]
    runs = "one run each" if result["repeats"] == 1 else f"medians of {result['repeats']} runs"
    return (
        f"{result['files']} files, {result['items']} items; {runs}; "
        f"{result['machine']}, load {result['load']}, Ray {result['ray']}. The cluster was started "
        f"before, in {result['cluster_start_s']:.0f} s; each run starts its workers and loads the "
        f"model.\n\n{benchmark_tables.table(head, lines)}\n\n"
        f"Per item on one core, with vectors made up: parsing {cost['parse_ms']:.2f} ms, packing "
        f"{cost['pack_ms']:.2f} ms, both in the workers; receiving and writing "
        f"{cost['write_ms']:.2f} ms in the process that writes, which so bounds a run at about "
        f"{1000 / cost['write_ms']:,.0f} items a second. {cost['sent_bytes']:,} bytes of it are "
        f"sent. A killed worker cost {result['kill_costs_s']:.1f} s, most of them for loading the "
        "model again."
    )
