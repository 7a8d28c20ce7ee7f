"""Which fragments should go first when evidence is over its budget?

Each question's ten nearest items are refined, and the evidence is held to a number of tokens by
different orders of removal, with and without filling what is left of the budget by single leaves:

- `parent margin`: the smallest margin over the parent goes first, as decision D8 was written;
- `similarity`: the least similar goes first, what `cap="margin"` does;
- `blend`: the same by root + (fragment - root) / 2, as `select="set"` compares leaves;
- `tail`: the latest retrieved goes first, the paper's rule (P9) and `cap="tail"`.

For comparison, without refinement: the most similar leaves of all ten items, and whole items by
rank. Orders that do not ship live here. Writes `benchmarks/results/budget.json`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import samples
from samples import Asked, Samples

from canopy_rag.config import SelectConfig
from canopy_rag.core.budget import fit
from canopy_rag.core.evidence import Evidence, Meter, Shown
from canopy_rag.core.select import Select
from canopy_rag.core.trees import leaves
from canopy_rag.evaluation.bootstrap import difference_interval, mean_interval
from canopy_rag.pipeline.compressor import Explained, add_round, explain
from canopy_rag.pipeline.retrieve import Retriever

K = 10
BUDGETS = (64, 128, 256, 512)
GROUPS = {"NQ": ("nq",), "HotpotQA and MuSiQue": ("hotpotqa", "musique"), "OTT-QA": ("ottqa",)}
SELECTS: tuple[Select, ...] = ("paper", "set")
FILL_TRIES = 16
"""Leaves tried, as the library does."""
SHIPPED = "similarity, filled"
Fragment = tuple[int, int]
"""Position of an entry, and one of its nodes."""
Rank = Callable[[Evidence], list[Fragment]]
"""Gives all fragments of evidence, the first to go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one way keeps for one question."""

    recall: float
    """Share of all gold leaves; those of items that were not retrieved count as lost."""
    tokens: int


def fragments(evidence: Evidence) -> list[Fragment]:
    return [(at, node) for at, entry in enumerate(evidence.entries) for node in entry.kept]


def by_value(value: Callable[[Shown, int], float]) -> Rank:
    """Return the order of a value, least first; of equals the later goes first."""

    def order(evidence: Evidence) -> list[Fragment]:
        return sorted(
            fragments(evidence),
            key=lambda each: (value(evidence.entries[each[0]], each[1]), -each[0], -each[1]),
        )

    return order


def similarity(entry: Shown, node: int) -> float:
    return entry.value(node)


def blend(entry: Shown, node: int) -> float:
    return (entry.value(0) + entry.value(node)) / 2


def parent_margin(entry: Shown, node: int) -> float:
    """Return the margin over the parent; a whole item, which has none, stays longest."""
    parent = entry.parent_value(node)
    return np.inf if parent is None else entry.value(node) - parent


def tail(evidence: Evidence) -> list[Fragment]:
    return fragments(evidence)[::-1]


ORDERS: dict[str, tuple[Rank, Callable[[Shown, int], float] | None]] = {
    "parent margin": (by_value(parent_margin), similarity),
    "similarity": (by_value(similarity), similarity),
    "blend": (by_value(blend), blend),
    "tail": (tail, None),
}
"""Name -> order of removal, and the value of leaves that fill; None: the cut fragment's leaves."""


def showing(evidence: Evidence, chosen: Sequence[Fragment]) -> Evidence:
    """Return the evidence with the chosen nodes alone."""
    kept: dict[int, list[int]] = {}
    for at, node in chosen:
        kept.setdefault(at, []).append(node)
    entries = tuple(
        replace(entry, kept=tuple(sorted(kept[at])))
        for at, entry in enumerate(evidence.entries)
        if at in kept
    )
    return replace(evidence, entries=entries)


def leaves_of(evidence: Evidence, chosen: Sequence[Fragment]) -> list[Fragment]:
    return [
        (at, leaf) for at, node in chosen for leaf in leaves(evidence.entries[at].item.nodes, node)
    ]


def n_to_remove(evidence: Evidence, order: Sequence[Fragment], budget: int) -> int:
    """Return how many leading fragments of `order` go, by bisection and then a walk."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        fits = showing(evidence, order[middle:]).tokens <= budget
        low, high = (low, middle) if fits else (middle + 1, high)
    while low < len(order) and showing(evidence, order[low:]).tokens > budget:
        low += 1
    return low


def hold(evidence: Evidence, name: str, budget: int) -> tuple[Evidence, Evidence]:
    """Return the evidence within the budget, without and with filling."""
    if evidence.tokens <= budget:
        return evidence, evidence
    rank, value = ORDERS[name]
    order = rank(evidence)
    n_removed = n_to_remove(evidence, order, budget)
    chosen = list(order[n_removed:])
    bare = showing(evidence, chosen) if chosen else last_resort(evidence, budget)
    if value is None:
        fillers = leaves_of(evidence, order[n_removed - 1 : n_removed])
    else:
        fillers = leaves_of(evidence, order[:n_removed])
        fillers.sort(key=lambda each: (-value(evidence.entries[each[0]], each[1]), each))
        fillers = fillers[:FILL_TRIES]
    for leaf in fillers:
        if showing(evidence, [*chosen, leaf]).tokens <= budget:
            chosen.append(leaf)
        elif value is None:
            break
    filled = showing(evidence, chosen) if chosen else last_resort(evidence, budget)
    return bare, filled


def last_resort(evidence: Evidence, budget: int) -> Evidence:
    """Return the most similar leaf that fits; if none does, the best one as the library cuts it."""
    found = leaves_of(evidence, fragments(evidence))
    found.sort(key=lambda each: (-evidence.entries[each[0]].value(each[1]), each))
    for leaf in found[:FILL_TRIES]:
        alone = showing(evidence, [leaf])
        if alone.tokens <= budget:
            return alone
    return fit(showing(evidence, found[:1]), budget)


def unrefined(explained: Sequence[Explained], query: str, meter: Meter) -> Evidence:
    settings = SelectConfig(budget=1_000_000, when="needed")
    return add_round(Evidence(meter=meter), explained, query, settings)


def measure_question(asked: Asked, pooled: Samples, meter: Meter) -> dict[tuple[str, ...], Kept]:
    """Return what each way keeps: (budget, select, way) -> kept."""
    found = Retriever(encoder=pooled.encoder, store=pooled.store).retrieve(asked.question.text, K)
    kept: dict[tuple[str, ...], Kept] = {}

    def note(evidence: Evidence, *key: str) -> None:
        kept[key] = Kept(recall=recall(asked, evidence), tokens=evidence.tokens)

    for select in SELECTS:
        explained = explain(found.found, found.node_query, select)
        settings = SelectConfig(select=select)
        evidence = add_round(Evidence(meter=meter), explained, asked.question.text, settings)
        note(evidence, "none", select, "no limit")
        for budget in BUDGETS:
            for name in ORDERS:
                bare, filled = hold(evidence, name, budget)
                note(bare, str(budget), select, name)
                note(filled, str(budget), select, f"{name}, filled")
                check(evidence, filled, name, budget)
    whole = unrefined(explained, asked.question.text, meter)
    split = showing(whole, leaves_of(whole, fragments(whole)))
    note(whole, "none", "no refinement", "no limit")
    for budget in BUDGETS:
        note(hold(split, "similarity", budget)[1], str(budget), "no refinement", "best leaves")
        note(hold(whole, "tail", budget)[1], str(budget), "no refinement", "whole items")
    return kept


def check(evidence: Evidence, ours: Evidence, name: str, budget: int) -> None:
    """Stop if the library holds evidence otherwise by the orders that it has."""
    if name not in ("similarity", "tail"):
        return
    theirs = fit(evidence, budget, "margin" if name == "similarity" else "tail")
    shown = [[(each.item.id, each.kept) for each in one.entries] for one in (ours, theirs)]
    if not theirs.fallbacks and shown[0] != shown[1]:
        raise AssertionError(f"`cap` no longer does what is measured here as {name}")


def recall(asked: Asked, evidence: Evidence) -> float:
    n_kept = sum(
        leaf in asked.gold.get(entry.item.id, ())
        for entry in evidence.entries
        if entry.cut is None
        for node in entry.kept
        for leaf in leaves(entry.item.nodes, node)
    )
    return n_kept / sum(map(len, asked.gold.values()))


def rows(measured: Sequence[dict[tuple[str, ...], Kept]]) -> list[dict[str, Any]]:
    """Return one row per budget, selection and way, with the difference to what ships."""
    made = []
    for key in measured[0]:
        budget, select, way = key
        own = [each[key] for each in measured]
        reference = (budget, select if select in SELECTS else SELECTS[0], SHIPPED)
        row: dict[str, Any] = {
            "budget": None if budget == "none" else int(budget),
            "select": select,
            "way": way,
            "tokens": round(float(np.mean([each.tokens for each in own])), 1),
            "recall": samples.rounded(mean_interval([each.recall for each in own])),
        }
        if reference in measured[0] and key != reference:
            shipped = [each[reference].recall for each in measured]
            difference = difference_interval([each.recall for each in own], shipped)
            row["to_shipped"] = samples.rounded(difference)
        made.append(row)
    return made


def main() -> None:
    arguments = samples.parser(__doc__).parse_args()
    data = samples.require(arguments.data, *samples.BENCHMARKS)
    started = time.perf_counter()
    pooled = samples.read(data)
    meter = Meter(count=pooled.encoder.count_tokens)
    result: dict[str, Any] = {
        "what": "gold-leaf recall of evidence held to a budget, by what is removed first; "
        "recall is over all gold leaves, those of items not retrieved are lost; "
        "to_shipped is the paired difference to `similarity, filled` of the same budget and "
        "selection (without refinement: of `paper`)",
        "encoder": pooled.encoder.fingerprint.model,
        "tokens": "the encoder's tokenizer",
        "k": K,
        "pool": pooled.sizes(),
        "interval": "95 %, bootstrap over questions, 10,000 resamples, seed 0",
        **samples.machine(),
        "parts": {},
    }
    for part in samples.PARTS:
        result["parts"][part] = {}
        for group, names in GROUPS.items():
            asked = pooled.part(part, names)
            measured = [measure_question(each, pooled, meter) for each in asked]
            pooled.encoder.check(asked[0].question.text)
            result["parts"][part][group] = rows(measured)
            print(f"{part}, {group}: {len(asked)} questions", flush=True)
            show(result["parts"][part][group])
    result["seconds"] = round(time.perf_counter() - started)
    samples.write("budget", result)


def show(made: Sequence[dict[str, Any]]) -> None:
    for row in made:
        value = row["recall"]
        difference = row.get("to_shipped")
        text = (
            f"{difference['value']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]"
            if difference
            else ""
        )
        print(
            f"  {row['budget'] or '-':>4} {row['select']:14}{row['way']:24}"
            f"{value['value']:.3f} {row['tokens']:7.1f}  {text}"
        )


if __name__ == "__main__":
    main()
