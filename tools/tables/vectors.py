"""What each way to store vectors costs in bytes and in quality."""

from __future__ import annotations

from typing import Any

import benchmark_tables

FIGURES = ("items_retrieved", "recall_set", "decision_accuracy")


def table() -> str:
    """Return the ways with bytes and differences, and the bytes of whole indices."""
    result = benchmark_tables.read("vectors")
    ways: dict[str, Any] = result["ways"]
    reference, default = next(iter(ways)), ways[result["default"]]
    lines = [_line(name, way, name == result["default"]) for name, way in ways.items()]
    head = [
        "rows of nodes, items",
        "times the text",
        "passages",
        "tables",
        "gold items in ten",
        "gold leaves kept",
        "decisions",
        "of tables alone",
    ]
    n_questions = ways[reference]["test"]["all"]["n"]
    value = ways[reference]["test"]["all"]["value"]
    n_items = result["items"]["all"]["items"]
    found, kept, right = (f"{100 * value[figure]:.1f} %" for figure in FIGURES)
    told = (
        f"{n_items:,} items; {n_questions:,} test questions. Points against {reference}, with "
        f"which {found} of the gold items are in ten, {kept} of the gold leaves are kept by `set`, "
        f"and {right} of the decisions are right; in brackets 95 %, paired bootstrap by question; "
        "bold where 0 is outside. Unless it says otherwise, vectors of items are float16. Tokens "
        "of leaves, which the lexical term needs, are "
        f"{default['times_text']['all']['tokens']:.2f} times the text more."
    )
    return "\n\n".join([told, benchmark_tables.table(head, lines), _on_disk(result)])


def _line(name: str, way: dict[str, Any], is_default: bool) -> list[str]:
    times = [way["times_text"][key]["vectors"] for key in ("all", "text", "table")]
    test = way["test"]
    return [
        f"**{name}**" if is_default else name,
        *(f"{each:.2f}" for each in times),
        *(_points(test["all"][figure]) for figure in FIGURES),
        _points(test["tables"]["decision_accuracy"]),
    ]


def _on_disk(result: dict[str, Any]) -> str:
    own = result["on_disk"]
    sizes = ", ".join(
        f"{own[name] / own['text_bytes']:.1f} with `{name}`" for name in result["settings"]
    )
    return (
        f"A whole index of {own['items']:,} of these items, with payloads, trees, tokens and the "
        f"indices of the engine, has this many times the bytes of their text: {sizes}."
    )


def _points(value: dict[str, float]) -> str:
    text = "{value:+.1f} ({low:+.1f} to {high:+.1f})".format(
        **{key: 100 * value[key] + 0.0 for key in ("value", "low", "high")}
    ).replace("-0.0", "+0.0")
    return text if value["low"] <= 0 <= value["high"] else f"**{text}**"
