"""Indexing beside the network alone and beside sentence-transformers."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return the rates of the pipeline and of long items, and what an index takes."""
    result = benchmark_tables.read("index")
    own, long = result["pipeline"], result["sixteen"]
    rates = benchmark_tables.table(
        ["", "items a second", "of the bare loop's rate", "of its CPU time"],
        [
            [
                way,
                f"{rate:.1f}",
                f"{own['rate_to_bare'][way]:.2f}",
                f"{own['cpu_to_bare'][way]:.2f}",
            ]
            for way, rate in own["items_per_s"].items()
        ],
    )
    nodes = benchmark_tables.table(
        ["", "items a second", "canopy is faster by"],
        [
            [way, f"{rate:.1f}", f"{long['times_as_fast'][way]:.2f} x"]
            for way, rate in long["items_per_s"].items()
        ],
    )
    n_bytes = own["bytes"]
    tokens = list(long["encoder_tokens"].values())
    return "\n\n".join(
        [
            f"{own['files']} files, {own['items']} items, {own['nodes']:,} nodes; {own['repeats']} "
            f"repeats in turns. The encoder reads {own['tokens_to_items']:.3f} x the items' "
            f"tokens, and {own['padding']:.1%} of what the network computes is padding.",
            rates,
            f"Items of sixteen sentences, {long['nodes'] / long['items']:.0f} nodes each "
            f"({long['items']} of them); read once they have {tokens[0]:,} tokens, node by node "
            f"{tokens[1]:,}.",
            nodes,
            f"The index of {n_bytes['text']:,} bytes of text has {n_bytes['index']:,} bytes, "
            f"{n_bytes['index per item']:,} an item and {n_bytes['index per node']:,} a node; the "
            "vectors of all nodes in float32 would have "
            f"{n_bytes['float32 vectors of all nodes']:,}. The process holds at most "
            f"{own['peak_mb']['half of the files']} MB for half of the files and "
            f"{own['peak_mb']['all files']} MB for all of them. "
            f"{benchmark_tables.machine(result)}.",
        ]
    )
