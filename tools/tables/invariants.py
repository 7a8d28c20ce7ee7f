"""How often what must hold from files to evidence was looked at, and did not."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return the checks of each encoder, and below them what they were made on."""
    if not (benchmark_tables.RESULTS / "invariants.json").exists():
        return "Not run yet."
    result = benchmark_tables.read("invariants")
    encoders = result["encoders"]
    names = sorted({name for own in encoders.values() for name in own["checks"]})
    lines = [
        [name, *(f"{own['checks'].get(name, 0):,}" for own in encoders.values())] for name in names
    ]
    lines.append(["**violations**", *(str(own["violations"]) for own in encoders.values())])
    told = "; ".join(
        f"`{name}`: {own['folders']:,} random folders, {own['elsewhere']} of them also by another "
        f"process, whose similarities differ by {own['widest_gap']:.6f} at most"
        for name, own in encoders.items()
    )
    head = ["checked", *(f"with `{name}`" for name in encoders)]
    return f"{benchmark_tables.table(head, lines)}\n\n{told}."
