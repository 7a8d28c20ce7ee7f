"""A table of a report: Markdown for people, CSV with intervals for everything else."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from canopy_rag.evaluation.report.paper import paper_value

SHARES = frozenset(
    {
        "em",
        "f1",
        "accuracy",
        "quality",
        "no_option",
        "gold_leaf_recall",
        "hop_coverage",
        "held_share",
        "decision_accuracy",
        "kept",
        "split",
        "dropped",
        "gold",
        "non_gold",
    }
)
"""Figures from 0 to 1, written as percentages."""
_DIGITS = {"llm_calls": 2, "rounds": 2, "amortized_latency_s": 3}
COLUMNS = ("run", "reader", "benchmark", "method", "figure", "value", "low", "high", "n", "paper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure with its interval, ours beside the paper's."""

    run: str
    reader: str
    benchmark: str
    method: str
    figure: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None

    @property
    def paper(self) -> float | None:
        """The paper's number; None where its appendices state none."""
        return paper_value(self.benchmark, self.method, self.figure)

    def __str__(self) -> str:
        ours = "" if self.value is None else written(self.figure, self.value)
        paper = self.paper
        return ours if paper is None else f"{ours} (paper {written(self.figure, paper)})".strip()


def written(figure: str, value: float) -> str:
    """Return a figure as people read it.

    >>> written("f1", 0.72149), written("evidence_tokens", 1220.4), written("llm_calls", 3.6)
    ('72.1', '1,220', '3.60')
    """
    if figure in SHARES:
        return f"{value * 100:.1f}"
    return f"{value:,.{_DIGITS.get(figure, 0)}f}"


def cell(where: Mapping[str, str], figure: str, found: Any) -> Cell:
    """Return a cell of what `metrics.json` has: an interval, a number, or nothing.

    Args:
        where: Run, reader, benchmark and method.
        figure: Name of the figure.
        found: What `metrics.json` has of it.
    """
    known = found if isinstance(found, Mapping) else {"value": found}
    return Cell(
        run=where["run"],
        reader=where["reader"],
        benchmark=where["benchmark"],
        method=where["method"],
        figure=figure,
        value=known.get("value"),
        low=known.get("low"),
        high=known.get("high"),
        n=known.get("n"),
    )


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A table.

    Rows have one text per column; `cells` are all its figures, for the CSV.
    """

    number: str
    """As in the paper, or a word."""
    title: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    note: str = ""

    @property
    def name(self) -> str:
        """The name of its files, without ending."""
        return f"table-{self.number}"

    def add(self, head: Sequence[str], cells: Sequence[Cell | None]) -> None:
        """Add a row: its first texts, then figures; None leaves a place empty."""
        self.rows.append([*head, *("" if each is None else str(each) for each in cells)])
        self.cells += [each for each in cells if each is not None]

    def markdown(self) -> str:
        """Return the table as Markdown, its title above and its note below."""
        lines = [f"### Table {self.number}: {self.title}", ""]
        if self.rows:
            lines += [_line(self.columns), _line(["---"] * len(self.columns))]
            lines += [_line(row) for row in self.rows]
        else:
            lines.append("Nothing of it was run.")
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])

    def csv(self) -> str:
        """Return every figure on a line of its own, unrounded, with its interval."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in self.cells:
            writer.writerow(
                "" if value is None else value
                for value in (getattr(each, column) for column in COLUMNS)
            )
        return file.getvalue()


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"
