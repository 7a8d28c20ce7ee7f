"""The tables of docs/benchmarks.md, made from benchmarks/results/*.json alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
BUDGET_ROWS = (
    "parent margin",
    "parent margin, filled",
    "similarity",
    "similarity, filled",
    "tail",
    "tail, filled",
    "best leaves",
    "whole items",
)
TEXTS = "HotpotQA and MuSiQue"
LOOP_GROUPS = (TEXTS, "OTT-QA")


def tables() -> dict[str, str]:
    """Return the name of each table, and its Markdown."""
    made: dict[str, Callable[[], str]] = {
        "budget": budget,
        "loop": loop,
        "loop-equal": loop_equal,
        "loop-union": loop_union,
        "loop-budget": loop_budget,
        "loop-local": loop_local,
        "throughput": throughput,
        "search": search,
        "runner": runner,
        "methods": methods,
    }
    return {name: table() for name, table in made.items()}


def read(name: str) -> dict[str, Any]:
    """Return a committed result."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return result


def budget() -> str:
    """Return recall by what goes first, for each group and budget."""
    result = read("budget")
    parts = []
    for group, rows in result["parts"]["test"].items():
        found = {(row["select"], row["way"], row["budget"]): row for row in rows}
        budgets = sorted({row["budget"] for row in rows if row["budget"]})
        n = rows[0]["recall"]["n"]
        lines = []
        for select in ("paper", "set", "no refinement"):
            free = found[select, "no limit", None]
            lines.append([select, f"no limit: {free['tokens']:.0f} tokens", _bold(free["recall"])])
            lines[-1] += [""] * (len(budgets) - 1)
            for way in BUDGET_ROWS:
                own = [found.get((select, way, each)) for each in budgets]
                if all(own):
                    lines.append([select, way, *(_against(row) for row in own if row)])
        parts.append(f"**{group}**, n = {n}\n\n{table(['select', 'order', *budgets], lines)}")
    return "\n\n".join([_measured(result), *parts])


def loop() -> str:
    """Return what each critic gathers without a limit."""
    result = read("loop")
    parts = [_measured(result)]
    for group in (*LOOP_GROUPS, "MuSiQue"):
        own = result["parts"]["test"][group]
        lines = [
            [
                _select(row),
                _name(row),
                _interval(row["items"]),
                _interval(row["leaves"]),
                f"{row['tokens']:.0f}",
                f"{_mean_rounds(row):.2f}",
                _interval(row["held"]) if "held" in row else "",
                ", ".join(f"{name} {n}" for name, n in row["stop"].items()),
            ]
            for row in own["systems"]
            if not _budget(row) and (group != "MuSiQue" or "hops" in row["system"])
        ]
        head = ["select", "system", "gold items", "gold leaves", "tokens", "rounds", "held"]
        told = table([*head, "ended by"], lines)
        parts.append(f"**{group}**, n = {own['n']}\n\n{told}")
    return "\n\n".join(parts)


def loop_equal() -> str:
    """Return the critic without a model against one round at equal tokens."""
    lines = [
        [
            part,
            group,
            str(own["n"]),
            _select(row),
            _budget(row) or "none",
            _name(row),
            f"{row['tokens']:.0f}",
            f"{row['k']:g}",
            _signed(row["items"]),
            _signed(row["leaves"]),
        ]
        for part, groups in read("loop")["parts"].items()
        for group, own in groups.items()
        for row in own["at_equal_tokens"]
        if row["system"].startswith("rules")
        and (_select(row) == "set" or not _budget(row))
        and (part == "test" or ("keep;" in row["system"] and not _budget(row)))
    ]
    head = ["part", "benchmark", "n", "select", "budget", "critic", "tokens", "k of one round"]
    return table([*head, "gold items", "gold leaves"], lines)


def loop_union() -> str:
    """Return what `union` changes against `keep`."""
    lines = [
        [
            group,
            str(own["n"]),
            _select(row),
            _budget(row) or "none",
            _name(row).replace(", union", ""),
            _signed(row["items"]),
            _signed(row["leaves"]),
            _signed(row["tokens"], 0),
        ]
        for group, own in read("loop")["parts"]["test"].items()
        for row in own["union_to_keep"]
        if group in LOOP_GROUPS
    ]
    head = ["benchmark", "n", "select", "budget", "critic", "gold items", "gold leaves", "tokens"]
    return table(head, lines)


def loop_budget() -> str:
    """Return all systems at the same budget."""
    lines = [
        [
            group,
            str(own["n"]),
            _select(row),
            _name(row),
            _interval(row["items"]),
            _interval(row["leaves"]),
            _signed(row["leaves_to_one_round"]) if "leaves_to_one_round" in row else "",
            f"{row['tokens']:.0f}",
        ]
        for group, own in read("loop")["parts"]["test"].items()
        for row in own["systems"]
        if group in LOOP_GROUPS and _budget(row)
    ]
    head = ["benchmark", "n", "select", "system", "gold items", "gold leaves"]
    return table([*head, "leaves less k=10", "tokens"], lines)


def _name(row: dict[str, Any]) -> str:
    return str(row["system"]).partition(";")[0]


def _select(row: dict[str, Any]) -> str:
    return str(row["system"]).partition("select=")[2].partition(",")[0]


def _budget(row: dict[str, Any]) -> str:
    return str(row["system"]).partition("budget ")[2]


def loop_local() -> str:
    """Return what the packaged model does as critic."""
    own = read("loop").get("local")
    if own is None:
        return "Not measured."
    lines = [
        [row["system"], _interval(row["items"]), _interval(row["leaves"]), f"{row['tokens']:.0f}"]
        for row in own["systems"]
    ]
    facts = (
        f"{own['model']} on n = {own['n']} test questions, of which "
        f"{own['n_lacking_gold_after_one_round']} lack gold items after one round. It was asked "
        f"{own['calls']} times, {own['seconds_per_call']:.1f} s each on one thread of a machine "
        f"that did other work, and said {own['said_sufficient']} times that the evidence suffices; "
        f"{own['no_verdict']} times it gave no verdict."
    )
    return f"{facts}\n\n{table(['system', 'gold items', 'gold leaves', 'tokens'], lines)}"


def throughput() -> str:
    """Return the loop against the bare SDK."""
    result = read("throughput")
    lines = [
        [
            name,
            f"{row['median_s']:.2f}",
            f"{row['least_s']:.2f}",
            f"{row['most_s']:.2f}",
            f"{row['cpu_ms_per_call']:.2f}",
            str(row["peak_in_flight"]),
        ]
        for name, row in result["rows"].items()
    ]
    verdict = "within" if result["ratio"] <= result["ratio_limit"] else "**above**"
    head = ["", "median s", "least s", "most s", "CPU ms per call", "most in flight"]
    return (
        f"{table(head, lines)}\n\nRatio of the medians {result['ratio']:.2f}, {verdict} the limit "
        f"of {result['ratio_limit']}; {result['repeats']} runs of each in turns, at best "
        f"{result['least_possible_s']:.2f} s; openai {result['openai']}, {machine(result)}."
    )


def search() -> str:
    """Return the stages of a search."""
    result = read("search")
    lines = [[name, f"{value:.2f}"] for name, value in result["ms"].items()]
    return (
        f"{table(['stage', 'median ms'], lines)}\n\n{result['items']:,} items of "
        f"{result['nodes_per_item']} nodes, k = {result['k']}, {result['queries']} queries. A "
        f"whole search takes {result['search_to_embedding']} x the embedding of its query (limit "
        f"{result['search_to_embedding_limit']:g}), refinement {result['refine_share']:.1%} of it "
        f"(limit {result['refine_share_limit']:.0%}); {machine(result)}."
    )


def runner() -> str:
    """Return memory and time of each start of the runner."""
    if not (RESULTS / "runner.json").exists():
        return "Not run yet."
    result = read("runner")
    lines = [
        [
            f"{each['from']:,} to {each['to']:,}",
            f"{each['seconds']:,.0f}",
            *(f"{each[f'rss_mb_{at}']:.0f}" for at in ("before", "first", "middle", "last")),
        ]
        for each in result["starts"]
    ]
    head = ["answers", "s", "MB before", "MB at first", "MB halfway", "MB at last"]
    return (
        f"{table(head, lines)}\n\n{result['n']:,} questions, {result['kills']} kills: "
        f"{result['lost']} predictions lost, {result['doubled']} doubled; "
        f"{result['bytes_per_prediction']:,} bytes a prediction, `metrics.json` of all in "
        f"{result['metrics_s']:.0f} s; {machine(result)}"
    )


def methods() -> str:
    """Return quality and tokens of every method, for each run and benchmark."""
    if not (RESULTS / "methods.json").exists():
        return "Not run yet."
    result = read("methods")
    parts = []
    for name, run in result["runs"].items():
        for benchmark, each in run["benchmarks"].items():
            lines = []
            for method, own in each["methods"].items():
                seconds, recall = own["amortized_latency_s"], own["gold_leaf_recall"]
                lines.append(
                    [
                        f"`{method}`",
                        _interval(own["f1"]),
                        f"{own['evidence_tokens']['value']:,.0f}",
                        f"{own['llm_calls']['value']:.2f}",
                        "" if seconds is None else f"{seconds['value']:.3f}",
                        "" if recall is None else _interval(recall),
                    ]
                )
            head = ["method", "F1", "tokens", "calls", "s a question", "gold leaves kept"]
            title = f"**{name}: {benchmark}**, {each['n']} questions, reader `{run['reader']}`"
            parts.append(f"{title}\n\n{table(head, lines)}")
    return "\n\n".join([*parts, f"{result['pool']}; {result['interval']}; {machine(result)}"])


def table(head: Sequence[Any], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [[str(cell) for cell in head], ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _measured(result: dict[str, Any]) -> str:
    pool = ", ".join(f"{n:,} of {name}" for name, n in result["pool"].items())
    return (
        f"One pool of {sum(result['pool'].values()):,} items ({pool}); encoder "
        f"{result['encoder']}; tokens by {result['tokens']}; {machine(result)}."
    )


def machine(result: dict[str, Any]) -> str:
    """Return where it was measured, and how busy that was."""
    told = [result["machine"], f"Python {result['python']}"]
    told += [f"{name} {result[name]}" for name in ("load", "nice") if result.get(name) is not None]
    return ", ".join(told)


def _mean_rounds(row: dict[str, Any]) -> float:
    counts = {int(name): n for name, n in row["rounds"].items()}
    return sum(rounds * n for rounds, n in counts.items()) / sum(counts.values())


def _bold(value: dict[str, Any]) -> str:
    return f"**{value['value']:.3f}**"


def _interval(value: dict[str, Any]) -> str:
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def _signed(value: dict[str, Any], digits: int = 3) -> str:
    told = [f"{value[key]:+.{digits}f}".replace("-", "−") for key in ("value", "low", "high")]
    return f"{told[0]} [{told[1]}, {told[2]}]"


def _against(row: dict[str, Any]) -> str:
    """Return a recall with its interval, under it the difference to what ships."""
    own = _interval(row["recall"])
    return f"{own}<br>{_signed(row['to_shipped'])}" if "to_shipped" in row else own
