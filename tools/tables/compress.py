"""Compressing ten retrieved items, beside what frameworks put behind a retriever."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def table() -> str:
    """Return a table for each group of items, with what it comes to."""
    result = benchmark_tables.read("compress")
    parts = [_group(name, group) for name, group in result["groups"].items()]
    told = (
        f"Medians over the queries, ways in turns, {result['threads']} thread everywhere; "
        f"LLMLingua-2 was {result['llmlingua']}; {benchmark_tables.machine(result)}."
    )
    return "\n\n".join([*parts, told])


def _group(name: str, group: dict[str, Any]) -> str:
    with_query = group["rows"]["stored vectors, query embedded"]["ms"]
    lines = [
        [
            way,
            f"{row['ms']:,.2f}" if row["ms"] < 100 else f"{row['ms']:,.0f}",
            f"{row['encoder_tokens']:,.0f}",
            f"{row['evidence_tokens']:,.0f}" if row["evidence_tokens"] else "",
            _times(group["stored_speedup"].get(way)),
            _times(row["ms"] / with_query if way in group["stored_speedup"] else None),
            _times(group["ad_hoc_speedup"].get(way)),
        ]
        for way, row in group["rows"].items()
    ]
    head = ["", "ms a query", "encoder tokens", "evidence tokens", "stored is faster by"]
    head += ["with its query", "ad hoc is faster by"]
    written = benchmark_tables.table(head, lines)
    return (
        f"**{name.capitalize()}**: {group['queries']} queries, on average "
        f"{group['sentences']:.0f} sentences of {group['item_tokens']:,.0f} tokens in ten items. "
        f"With the query's embedding, compressing takes {group['total_to_query']:.2f} x that "
        f"embedding alone.\n\n{written}"
    )


def _times(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} x" if value >= 10 else f"{value:.2f} x"
