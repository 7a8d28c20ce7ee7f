"""Search at 10,000 to 1,000,000 items, beside libraries for vectors."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def table() -> str:
    """Return a line for each engine at each size."""
    result = benchmark_tables.read("scale")
    lines = [
        _line(size, name, own) for size in result["sizes"] for name, own in size["engines"].items()
    ]
    head = ["items", "engine", "p50", "p95", "recall@10", "memory, MB", "on disk, MB", "ready, s"]
    grown = ", ".join(
        f"{name} {value:.2f}" for name, value in result["growth_exponent"].items() if value
    )
    return (
        f"{result['queries']} queries; p50 and p95 as multiples of the median embedding of a query "
        f"by `minilm`, in brackets milliseconds; {result['machine']}, load {result['load']}.\n\n"
        f"{benchmark_tables.table(head, lines)}\n\n"
        f"Growth of the median from the smallest size to the largest, as an exponent: {grown}."
    )


def _line(size: dict[str, Any], name: str, own: dict[str, Any]) -> list[str]:
    memory = own["resident_mb"]
    return [
        f"{size['items']:,}",
        name,
        f"{own['p50_to_embedding']:.2f} ({own['p50_ms']:.1f})",
        f"{own['p95_to_embedding']:.2f} ({own['p95_ms']:.1f})",
        f"{own['recall']:.3f}",
        f"{memory['now']:,} (most {memory['most']:,})",
        f"{own['mb']:,}" if "mb" in own else "",
        f"{own['ready_s']:.1f}",
    ]
