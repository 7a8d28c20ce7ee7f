"""What each part of the recipe behind the packaged adapter is worth."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def lines_of(result: dict[str, Any]) -> str:
    """Return one line for each variant, the recipe itself first."""
    lines = []
    for name, own in result["variants"].items():
        less = own.get("less_recipe")
        if less is None:
            figures = [_percent(own["recall"]), _percent(own["items"])]
            figures.append(_percent(own["decisions"]["all"]))
        else:
            figures = [_points(less[each]) for each in ("recall", "items_retrieved", "decisions")]
        lines.append([f"{name}: {own['what']}", f"{own['tokens']:.0f}", *figures])
    head = ["trained", "tokens", "gold leaves kept", "gold items in ten", "decisions"]
    return benchmark_tables.table(head, lines)


def table() -> str:
    """Return the table with how it was measured."""
    result = benchmark_tables.read("ablations")
    asked = ", ".join(f"{n} of {name}" for name, n in result["questions"].items())
    return (
        f"Trained on the first {result['learned']} questions of each. Validation questions: "
        f"{asked}; one pool of {result['items']:,} items; `set`. The first "
        "line in percent, the others in points against it; in brackets 95 %, paired bootstrap by "
        f"question; bold where 0 is outside.\n\n{lines_of(result)}"
    )


def _percent(value: dict[str, float]) -> str:
    return "{value:.1f} ({low:.1f} to {high:.1f})".format(
        **{key: 100 * value[key] for key in ("value", "low", "high")}
    )


def _points(value: dict[str, float]) -> str:
    text = "{value:+.1f} ({low:+.1f} to {high:+.1f})".format(
        **{key: 100 * value[key] for key in ("value", "low", "high")}
    )
    return text if value["low"] <= 0 <= value["high"] else f"**{text}**"
