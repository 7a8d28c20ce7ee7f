"""Case studies as in the paper's Tables 13 and 14: rounds, and what was kept of each item.

Which questions are shown is a rule, not a choice: those on which Canopy gains most over Vanilla RAG
among the questions with several rounds, and the one on which it loses most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from canopy_rag.evaluation.folder import PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import read
from canopy_rag.evaluation.report.tables import CANOPY
from canopy_rag.evaluation.results import Results
from canopy_rag.evaluation.summary import quality

VANILLA = "vanilla"
N_GAINS = 2
_RULE = (
    "Chosen by rule: the largest gains of Canopy over Vanilla RAG, among equals most rounds and "
    "then fewest tokens first; then the largest loss."
)


class Case(NamedTuple):
    """A question to show."""

    benchmark: str
    question: str
    gain: float


def cases(folder: RunFolder, results: Results) -> str:
    """Return the case studies of a run as Markdown; empty without both methods.

    Args:
        folder: Of the run.
        results: Its numbers.
    """
    chosen = choose(results)
    if not chosen:
        return ""
    wanted = {(case.benchmark, case.question) for case in chosen}
    records = {
        (record["benchmark"], record["question"], record["method"]): record
        for record in read(folder / PREDICTIONS)
        if record["method"] in (CANOPY, VANILLA)
        and (record["benchmark"], record["question"]) in wanted
    }
    parts = [f"## Case studies: {results.name}", "", _RULE, ""]
    for case in chosen:
        own, other = (
            records[case.benchmark, case.question, method] for method in (CANOPY, VANILLA)
        )
        parts += [*_case(case, own, other), ""]
    return "\n".join(parts)


def choose(results: Results) -> list[Case]:
    """Return the questions to show: gains first, then a loss."""
    found: list[tuple[float, float, float, Case]] = []
    for benchmark in results.benchmarks:
        own = results.tables.get((benchmark, CANOPY))
        other = results.tables.get((benchmark, VANILLA))
        if own is None or other is None:
            continue
        figure = quality(results, benchmark)
        theirs = dict(zip(other.ids, other.column(figure).tolist(), strict=True))
        columns = (own.column(name).tolist() for name in (figure, "rounds", "evidence_tokens"))
        for question, score, rounds, tokens in zip(own.ids, *columns, strict=True):
            if question in theirs and np.isfinite(theirs[question]):
                gain = score - theirs[question]
                found.append((-gain, -rounds, tokens, Case(benchmark, question, gain)))
    found.sort()
    gains = [case for *_, case in found if case.gain > 0][:N_GAINS]
    losses = [case for *_, case in reversed(found) if case.gain < 0][:1]
    return gains + losses or [case for *_, case in found][:1]


def _case(case: Case, own: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    rounds = own["rounds"]
    question = rounds[0]["query"] if rounds else case.question
    lines = [
        f"### {_plain(question)}",
        "",
        f"{case.benchmark}, {own['kind'] or 'question'} `{case.question}`. "
        f"Accepted: {_plain('; '.join(own['answers']))}.",
        "",
    ]
    for number, each in enumerate(rounds, 1):
        lines.append(f"**Round {number}**: {_plain(each['query'])}")
        lines += ["", *_shown([item for item in own["shown"] if item["round"] == number]), ""]
        if each["sufficient"] is not None:
            verdict = (
                "enough" if each["sufficient"] else f"missing; next: {each['follow_up'] or '-'}"
            )
            lines += [f"Critic: {_plain(verdict)}.", ""]
    for name, record in (("Canopy", own), ("Vanilla RAG", other)):
        evidence, scores = record["evidence"], record["scores"]
        score = scores.get("f1", scores.get("accuracy"))
        lines.append(
            f"- {name}: {_plain(record['text']) or '(nothing)'} ({score:.2f}), "
            f"{evidence['tokens']:,} tokens of {evidence['tokens_full']:,}, "
            f"{record['usage']['llm_calls']} calls"
        )
    return lines


def _shown(items: Sequence[Mapping[str, Any]]) -> list[str]:
    if not items:
        return ["Nothing new is shown."]
    lines = ["| item | kept | text |", "| --- | --- | --- |"]
    for item in items:
        kept = f"{item['leaves_kept']} of {item['leaves']}"
        title = f"{_plain(item['title'])} ({item['modality']})"
        lines.append(f"| {_cell(title)} | {kept} | {_cell(_plain(item['text']))} |")
    return lines


def _plain(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
