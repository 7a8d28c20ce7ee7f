"""Whether a benchmark holds what it promises: unique items, and gold that points into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from canopy_rag.datasets.base import Loaded

MAX_IDS = 2_000_000
"""So many items' ids are kept to find one that comes twice; a set of more takes gigabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found among a benchmark's items."""

    n_items: dict[str, int]
    """By modality."""
    n_nodes: int
    problems: tuple[str, ...]
    """What is broken, for people; empty when all is well."""


def check(loaded: Loaded, on_items: Callable[[int], None] | None = None) -> Checked:
    """Stream a benchmark's items and compare them with the gold of its questions.

    Args:
        loaded: The benchmark.
        on_items: Called now and then with the number of items so far.
    """
    missing: dict[str, list[tuple[float, float, str]]] = {}
    for question in loaded.questions:
        for span in question.gold:
            missing.setdefault(span.item_id, []).append((span.start, span.stop, question.id))
    problems: list[str] = []
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    n_nodes = 0
    for number, item in enumerate(loaded.items(), start=1):
        counts[item.modality] += 1
        n_nodes += len(item.nodes)
        if item.id in seen:
            problems.append(f"the item {item.id} ({item.source.uri}) comes twice")
        elif len(seen) < MAX_IDS:
            seen.add(item.id)
        root = item.nodes[0]
        problems += [
            f"question {question_id}: gold [{start:g}, {stop:g}) is not inside item {item.id}"
            for start, stop, question_id in missing.pop(item.id, ())
            if not root.start <= start <= stop <= root.stop
        ]
        if on_items and number % 1000 == 0:
            on_items(number)
    problems += [
        f"question {spans[0][2]}: its gold item {item_id} is not among the items"
        for item_id, spans in missing.items()
    ]
    return Checked(n_items=dict(counts), n_nodes=n_nodes, problems=tuple(problems))
