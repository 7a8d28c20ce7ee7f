"""The paper's tables, from `metrics.json` of one run or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canopy_rag.evaluation.report.paper import IN_DOMAIN
from canopy_rag.evaluation.report.rates import rates
from canopy_rag.evaluation.report.sheets import Cell, Sheet, cell
from canopy_rag.evaluation.summary import BASES

CANOPY, ROUTED = "canopy", "canopy-routed"
ABLATIONS = {
    "2": {
        CANOPY: "Canopy",
        "canopy-norefine": "w/o projection",
        "canopy-oneround": "w/o iteration",
    },
    "8": {
        ROUTED: "Canopy-dagger",
        "canopy-routed:refine=false": "w/o projection",
        "canopy-routed:rounds=1": "w/o iteration",
    },
    "6": {CANOPY: "f_theta", "canopy-f0": "f0"},
}
_TITLES = {
    "2": "Component ablation",
    "8": "Component ablation under modality routing",
    "6": "Node encoder: fine-tuned (f_theta) and frozen (f0)",
}
_SPECIAL = {method for own in ABLATIONS.values() for method in own} - {CANOPY, ROUTED}
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run's `metrics.json`, and what it is called."""

    run: str
    metrics: Mapping[str, Any]
    config: Mapping[str, Any]
    """The fixed part of its settings."""

    def benchmarks(self, group: str | None = None) -> dict[str, Mapping[str, Any]]:
        """Return the results by benchmark."""
        found = self.metrics["benchmarks"]
        return {name: each for name, each in found.items() if group in (None, each["group"])}

    @property
    def methods(self) -> list[str]:
        """All methods, in the order of the run."""
        return list(
            dict.fromkeys(name for each in self.benchmarks().values() for name in each["methods"])
        )

    def where(self, benchmark: str, method: str) -> dict[str, str]:
        """Return what names a cell."""
        return {
            "run": self.run,
            "reader": self.metrics["reader"],
            "benchmark": benchmark,
            "method": method,
        }

    def scope(self, group: str) -> str:
        """Return the name of a figure's benchmark over a group: `all` where it is the paper's."""
        names = self.benchmarks(group)
        return ALL if names.keys() == IN_DOMAIN else "+".join(names)

    def cell(self, benchmark: str, method: str, figure: str) -> Cell | None:
        """Return a figure of a method on a benchmark; None where it was not run."""
        result = self.benchmarks()[benchmark]["methods"].get(method)
        if result is None:
            return None
        return cell(self.where(benchmark, method), figure, result[figure])


def tables(runs: Sequence[Summary]) -> list[Sheet]:
    """Return Tables 1, 2, 5, 6, 8, 11, 12, one of benchmarks outside the paper, and differences."""
    made = [
        compared(runs, "1", "in_domain", "Benchmarks in domain"),
        *(ablation(runs, number) for number in ("2", "6", "8")),
        benchmarks(runs),
        recall(runs),
        compared(runs, "12", "out_of_domain", "Benchmarks out of domain"),
        compared(runs, "extra", "extra", "Benchmarks outside the paper"),
        flat(runs),
        *rates(runs, (CANOPY, ROUTED)),
        behaviour(runs),
        differences(runs),
    ]
    made.sort(key=lambda sheet: (not sheet.number.isdigit(), sheet.number.zfill(2)))
    return [sheet for sheet in made if sheet.rows or sheet.number.isdigit()]


def is_main(method: str) -> bool:
    """Whether a method is compared in Tables 1 and 12; ablations and sweeps have their own."""
    return method not in _SPECIAL and not method.startswith("flat")


def _scores(metric: str) -> tuple[str, ...]:
    return ("accuracy",) if metric == "accuracy" else ("em", "f1")


_SHORT = {
    "em": "EM",
    "f1": "F1",
    "accuracy": "Acc.",
    "evidence_tokens": "#Tok",
    "llm_calls": "calls",
    "amortized_latency_s": "s",
    "gold_leaf_recall": "gold kept",
}


def _grid(
    sheet: Sheet,
    runs: Sequence[Summary],
    group: str | None,
    methods: Sequence[tuple[str, str]],
    figures: Sequence[str],
) -> Sheet:
    """Fill a table with a row per run and method and the figures of each benchmark."""
    names = list(dict.fromkeys(name for run in runs for name in run.benchmarks(group)))
    metrics = {name: each["metric"] for run in runs for name, each in run.benchmarks(group).items()}
    own = {name: (*_scores(metrics[name]), *figures) for name in names}
    heads = ["run", "method"] if len(runs) > 1 else ["method"]
    mean = "in-domain mean" if group is None else "mean"
    sheet.columns = [
        *heads,
        *(f"{name} {_SHORT[figure]}" for name in names for figure in own[name]),
        *(f"{mean} {_SHORT.get(figure, figure)}" for figure in ("quality", "evidence_tokens")),
    ]
    for run in runs:
        there = run.benchmarks(group)
        for method, label in methods:
            if not any(method in each["methods"] for each in there.values()):
                continue
            cells = [
                run.cell(name, method, figure) if name in there else None
                for name in names
                for figure in own[name]
            ]
            head = [run.run, label] if len(runs) > 1 else [label]
            sheet.add(head, [*cells, *_means(run, group, method)])
    return sheet


def _means(run: Summary, group: str | None, method: str) -> list[Cell | None]:
    group = group or "in_domain"
    pooled = run.metrics["pooled"].get(group, {}).get(method)
    if pooled is None:
        return [None, None]
    where = run.where(run.scope(group), method)
    return [cell(where, figure, pooled[figure]) for figure in ("quality", "evidence_tokens")]


def compared(runs: Sequence[Summary], number: str, group: str, title: str) -> Sheet:
    """Return the comparison of all methods on the benchmarks of a group (Tables 1 and 12)."""
    methods = dict.fromkeys(name for run in runs for name in run.methods if is_main(name))
    sheet = Sheet(
        number=number,
        title=title,
        columns=(),
        note="#Tok: evidence tokens of the answer prompt; calls include the answer; s: amortised "
        "latency in seconds per question, vector search left out. The CSV has the 95 % intervals.",
    )
    figures = ("evidence_tokens", "llm_calls", "amortized_latency_s")
    return _grid(sheet, runs, group, [(name, name) for name in methods], figures)


def ablation(runs: Sequence[Summary], number: str) -> Sheet:
    """Return Table 2, 6 or 8: Canopy without one of its parts, in domain."""
    sheet = Sheet(number=number, title=_TITLES[number], columns=())
    figures = ("evidence_tokens", "gold_leaf_recall") if number == "6" else ("evidence_tokens",)
    return _grid(sheet, runs, None, list(ABLATIONS[number].items()), figures)


def flat(runs: Sequence[Summary]) -> Sheet:
    """Return flat leaf selection by the number of leaves, what Figure 7 is drawn of."""
    methods = dict.fromkeys(
        name
        for run in runs
        for name in run.methods
        if name.startswith("flat") or name in (CANOPY, "canopy-norefine")
    )
    sheet = Sheet(number="flat", title="Flat leaf selection (Figure 7)", columns=())
    return _grid(sheet, runs, None, [(name, name) for name in methods], ("evidence_tokens",))


def benchmarks(runs: Sequence[Summary]) -> Sheet:
    """Return Table 5: what each benchmark brings."""
    sheet = Sheet(
        number="5",
        title="Benchmarks",
        columns=("benchmark", "gold in", "in the files", "kept", "asked", "items", "metric"),
    )
    seen: set[str] = set()
    for run in runs:
        for name, about in run.config["benchmarks"].items():
            if name in seen:
                continue
            seen.add(name)
            where = run.where(name, "")
            counts = [
                cell(where, figure, about[figure])
                for figure in ("n_total", "n_kept", "n_questions")
            ]
            items = cell(where, "items", sum(about["items"].values()))
            gold = ", ".join(about["gold_items"])
            metric = " / ".join(_SHORT[score] for score in _scores(about["metric"]))
            texts = [name, gold, *map(str, counts), str(items), metric]
            sheet.rows.append(texts)
            sheet.cells += [*counts, items]
    return sheet


def recall(runs: Sequence[Summary]) -> Sheet:
    """Return Table 11: gold-leaf recall in the full pipeline (P12)."""
    names = list(dict.fromkeys(name for run in runs for name in run.benchmarks()))
    sheet = Sheet(
        number="11",
        title="Gold-leaf recall",
        columns=("run", "method", *names, "in domain"),
        note="Share of the gold leaves that remain, of shown gold items that refinement may split, "
        "in the evidence that the reader answers on; in domain: over all questions alike.",
    )
    for run in runs:
        for method in (CANOPY, ROUTED, "canopy-f0"):
            if method not in run.methods:
                continue
            cells = [
                run.cell(name, method, "gold_leaf_recall") if name in run.benchmarks() else None
                for name in names
            ]
            pooled = run.metrics["pooled"].get("in_domain", {}).get(method)
            mean = pooled and cell(
                run.where(run.scope("in_domain"), method),
                "gold_leaf_recall",
                pooled["gold_leaf_recall"],
            )
            sheet.add([run.run, method], [*cells, mean or None])
    return sheet


def behaviour(runs: Sequence[Summary]) -> Sheet:
    """Return what the rounds do: hits already held, hops found at first, routing, odd replies."""
    sheet = Sheet(
        number="rounds",
        title="Rounds",
        columns=("run", "benchmark", "method", "rounds", "held", "hops in the first ten",
                 "no option letter", "fallbacks", "routed to"),
        note="Held: share of the hits of later rounds that were shown already (paper: 63.3 %, "
        "routed 62.8 %).",
    )  # fmt: skip
    for run in runs:
        for name, result in run.benchmarks().items():
            for method, own in result["methods"].items():
                figures = ("rounds", "held_share", "hop_coverage", "no_option")
                cells = [run.cell(name, method, figure) for figure in figures]
                fallbacks = ", ".join(f"{stage} {n}" for stage, n in own["fallbacks"].items())
                routes = ", ".join(
                    f"{route} {each['share']:.0%}" for route, each in (own["routing"] or {}).items()
                )
                sheet.add([run.run, name, method], cells)
                sheet.rows[-1] += [fallbacks, routes]
    return sheet


def differences(runs: Sequence[Summary]) -> Sheet:
    """Return paired differences of quality and tokens, with intervals (P17)."""
    sheet = Sheet(
        number="differences",
        title="Paired differences",
        columns=("run", "benchmark", "method", "to", "figure", "difference", "95 %"),
        note="Scores in points; the CSV has exact matches too, and tokens to both.",
    )
    for run in runs:
        for each in run.metrics["differences"]:
            where = run.where(each["benchmark"], f"{each['method']} - {each['to']}")
            sheet.cells.append(cell(where, each["figure"], each))
            share = each["figure"] != "evidence_tokens"
            if each["figure"] == "em" or (not share and each["to"] != BASES[0]):
                continue
            scale, digits = (100.0, 1) if share else (1.0, 0)
            value, low, high = (each[name] * scale for name in ("value", "low", "high"))
            sheet.rows.append(
                [
                    run.run,
                    each["benchmark"],
                    each["method"],
                    each["to"],
                    each["figure"],
                    f"{value:+,.{digits}f}",
                    f"{low:+,.{digits}f} to {high:+,.{digits}f}",
                ]
            )
    return sheet
