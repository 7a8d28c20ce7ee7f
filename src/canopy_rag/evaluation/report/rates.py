"""Tables behind Figures 8 to 10: rates over all questions in domain, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from canopy_rag.evaluation.report.sheets import Cell, Sheet, cell

if TYPE_CHECKING:
    from canopy_rag.evaluation.report.tables import Summary

GROUP = "in_domain"
_TEXT = "text"
"""The modality of which the paper states shares."""


def rates(runs: Sequence[Summary], methods: Sequence[str]) -> list[Sheet]:
    """Return decision accuracy by encoder, and what refinement and follow-ups do by method.

    Args:
        runs: With their numbers.
        methods: Those of which the paper reports refinement.
    """
    return [decisions(runs), refinement(runs, methods)]


def decisions(runs: Sequence[Summary]) -> Sheet:
    """Return decision accuracy (P11, Figure 8) of each benchmark, and of all instances together."""
    names = list(dict.fromkeys(name for run in runs for name in run.benchmarks(GROUP)))
    sheet = Sheet(
        number="decisions",
        title="Decision accuracy (Figure 8)",
        columns=("run", "encoder", *names, "all instances"),
    )
    for run in runs:
        there = run.benchmarks(GROUP)
        for role, overall in run.metrics["pooled_decisions"].get(GROUP, {}).items():
            found = {name: each["decision_accuracy"].get(role) for name, each in there.items()}
            cells = [
                cell(run.where(name, role), "decision_accuracy", found[name])
                if found.get(name)
                else None
                for name in names
            ]
            where = run.where(run.scope(GROUP), role)
            sheet.add([run.run, role], [*cells, cell(where, "decision_accuracy", overall)])
    return sheet


def refinement(runs: Sequence[Summary], methods: Sequence[str]) -> Sheet:
    """Return held follow-up hits, items kept whole and text nodes kept and dropped (P5, P13)."""
    sheet = Sheet(
        number="refinement",
        title="Refinement and follow-ups (Figures 9 and 10)",
        columns=(
            "run", "method", "held", "gold items whole", "other items whole", "text nodes kept",
            "text nodes dropped",
        ),
        note="Over all questions in domain: held, of the hits of later rounds; whole, of the items "
        "that refinement may split; kept and dropped, of the text nodes that it comes to.",
    )  # fmt: skip
    for run in runs:
        for method in methods:
            pooled = run.metrics["pooled"].get(GROUP, {}).get(method)
            if pooled is None:
                continue
            where = run.where(run.scope(GROUP), method)
            whole = pooled["kept_whole"]
            sheet.add(
                [run.run, method],
                [
                    cell(where, "held_share", pooled["held_share"]),
                    *(cell(where, kind, whole[kind]) for kind in ("gold", "non_gold")),
                    *_text_nodes(run, method),
                ],
            )
    return sheet


def _text_nodes(run: Summary, method: str) -> list[Cell | None]:
    """Return the shares of text nodes kept and dropped, over the benchmarks' nodes together."""
    counts: list[Mapping[str, Any]] = [
        each["methods"][method]["outcomes"][_TEXT]
        for each in run.benchmarks(GROUP).values()
        if _TEXT in each["methods"][method]["outcomes"]
    ]
    total = sum(each["n"] for each in counts)
    if not total:
        return [None, None]
    scope = run.scope(GROUP)
    where = run.where(_TEXT if scope == "all" else f"{_TEXT} of {scope}", method)
    return [
        cell(
            where,
            name,
            {"value": sum(each[name] * each["n"] for each in counts) / total, "n": total},
        )
        for name in ("kept", "dropped")
    ]
