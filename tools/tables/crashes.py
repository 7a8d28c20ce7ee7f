"""Processes that were killed, by what they were doing, and what was wrong afterwards."""

from __future__ import annotations

import benchmark_tables

_KINDS = {
    "index": "`canopy index`",
    "index, workers": "`canopy index --workers 2`",
    "index, Ray": "`canopy index --engine ray`",
    "prune": "`canopy index --prune`",
    "upgrade": "`canopy upgrade`",
    "evaluate": "`canopy evaluate`",
    "train": "`canopy train`",
    "serve, uploads": "`canopy serve` with uploads",
}


def table() -> str:
    """Return kills and what they did, one line for each kind of run."""
    if not (benchmark_tables.RESULTS / "crash.json").exists():
        return "Not run yet."
    result = benchmark_tables.read("crash")
    lines = [
        [
            told,
            str(own["kills"]),
            str(own["by_time"]),
            str(own["after_a_change"]),
            str(own["survived"]),
            str(own["kills"] - own["survived"]),
        ]
        for name, told in _KINDS.items()
        if (own := result["kinds"].get(name))
    ]
    head = ["run", "kills", "at a random time", "right after a change", "nothing wrong", "faults"]
    return benchmark_tables.table(head, lines)
