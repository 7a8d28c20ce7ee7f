"""What the files of a run say, as numbers: one column per figure, one row per question.

Predictions are read as a stream and only their numbers are kept, so that a run of any length fits.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import DataError
from canopy_rag.evaluation.folder import BATCHES, DECISIONS, FAILURES, PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import read
from canopy_rag.evaluation.latency import Batch

Numbers = NDArray[np.float64]
NONE = float("nan")
MOST_SIMILARITIES = 200_000
"""Root-relative similarities that are kept per modality and kind, for the plot; the first ones."""


class Table:
    """The predictions of one method on one benchmark, as columns; NaN where there is no figure."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.kinds: list[str] = []
        self.routes: list[str] = []
        """Modalities of round 1, joined by `+`; empty where nothing was routed."""
        self.exact = True
        """Whether all tokens are the reader's own."""
        self.stops: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.outcomes: dict[str, list[int]] = {}
        """Visited nodes kept, split, dropped by modality (P13)."""
        self.root_relative: dict[str, dict[str, list[float]]] = {}
        self.seconds: Counter[str] = Counter()
        """By stage, added up over questions."""
        self._columns: dict[str, array[float]] = defaultdict(lambda: array("d"))

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> Numbers:
        """Return a figure of all questions, shape `(n,)`; NaN where one has none."""
        own = self._columns.get(name)
        return np.full(len(self), NONE) if own is None else np.frombuffer(own, np.float64).copy()

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one prediction."""
        self.ids.append(record["question"])
        self.kinds.append(record["kind"])
        rounds = record["rounds"]
        self.routes.append("+".join(rounds[0]["routed"]) if rounds else "")
        self.stops[record["stop"]] += 1
        self.fallbacks.update(record["fallbacks"])
        self.exact = self.exact and record["evidence"]["tokens_are"] == "exact"
        self.seconds.update(record["usage"]["seconds"])
        for modality, counts in record["outcomes"].items():
            own = self.outcomes.setdefault(modality, [0, 0, 0])
            own[:] = map(sum, zip(own, counts, strict=True))
        self._add_similarities(record["root_relative"])
        figures = _figures(record)
        for name, value in figures.items():
            column = self._columns[name]
            column.extend([NONE] * (len(self) - 1 - len(column)))
            column.append(NONE if value is None else value)
        for name, column in self._columns.items():
            if name not in figures:
                column.append(NONE)

    def sort(self) -> None:
        """Put the questions into the order of their ids.

        A run that was interrupted has them in another order than one that was not; sums of floats
        and resampling depend on it.
        """
        order = sorted(range(len(self)), key=self.ids.__getitem__)
        for name in ("ids", "kinds", "routes"):
            own = getattr(self, name)
            setattr(self, name, [own[row] for row in order])
        for name, column in self._columns.items():
            self._columns[name] = array("d", [column[row] for row in order])

    def _add_similarities(self, found: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        for modality, parts in found.items():
            own = self.root_relative.setdefault(modality, {"gold": [], "other": []})
            for part, values in parts.items():
                own[part].extend(values[: MOST_SIMILARITIES - len(own[part])])


def _figures(record: Mapping[str, Any]) -> dict[str, float | None]:
    evidence, usage, whole = record["evidence"], record["usage"], record["kept_whole"]
    return {
        **record["scores"],
        "evidence_tokens": evidence["tokens"],
        "evidence_tokens_full": evidence["tokens_full"],
        "llm_calls": usage["llm_calls"],
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "cost": usage["cost"],
        "rounds": len(record["rounds"]),
        "follow_up_hits": record["follow_up_hits"]["n"],
        "held_hits": record["follow_up_hits"]["held"],
        "hop_coverage": record["hop_coverage"],
        "gold_leaf_recall": record["gold_leaf_recall"],
        "whole_gold": whole["gold"][0],
        "refined_gold": whole["gold"][1],
        "whole_non_gold": whole["non_gold"][0],
        "refined_non_gold": whole["non_gold"][1],
    }


@dataclass(slots=True, kw_only=True)
class Decided:
    """Decision instances of a benchmark's questions, and how many are right (P11)."""

    right: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All numbers of one run."""

    name: str
    config: Mapping[str, Any]
    """The fixed part of `config.json`."""
    tables: Mapping[tuple[str, str], Table]
    """By benchmark and method, in the order of the settings."""
    batches: tuple[Batch, ...]
    decided: Mapping[tuple[str, str], Decided]
    """By benchmark and encoder, `f0` or `f_theta`."""
    failed: Mapping[tuple[str, str], int]
    """Questions without an answer, by benchmark and method."""

    @property
    def benchmarks(self) -> list[str]:
        """Names, in the order of the settings."""
        return list(dict.fromkeys(benchmark for benchmark, _ in self.tables))

    @property
    def methods(self) -> list[str]:
        """Names, in the order of the settings."""
        return list(dict.fromkeys(method for _, method in self.tables))

    def of(self, group: str) -> list[str]:
        """Return the benchmarks of a group."""
        about = self.config["benchmarks"]
        return [name for name in self.benchmarks if about[name]["group"] == group]

    def metric(self, benchmark: str) -> str:
        """Return the official metric of a benchmark."""
        found: str = self.config["benchmarks"][benchmark]["metric"]
        return found


def load(folder: RunFolder, name: str = "") -> Results:
    """Read the files of a run.

    Args:
        folder: The run's.
        name: What it is called; empty: as its folder.

    Raises:
        DataError: If it is no run, or a line is damaged.
    """
    config = folder.config()
    if config is None:
        raise DataError(f"{folder.path} holds no run: there is no config.json in it")
    fixed = config["fixed"]
    tables: dict[tuple[str, str], Table] = {
        (benchmark, method): Table()
        for benchmark in fixed["benchmarks"]
        for method in _methods(config)
    }
    answered: set[tuple[str, str, str]] = set()
    failures = {_name(record) for record in read(folder / FAILURES)}
    for record in read(folder / PREDICTIONS):
        tables.setdefault((record["benchmark"], record["method"]), Table()).add(record)
        if failures and _name(record) in failures:
            answered.add(_name(record))
    for table in tables.values():
        table.sort()
    decided: dict[tuple[str, str], Decided] = defaultdict(Decided)
    for record in sorted(read(folder / DECISIONS), key=lambda each: str(each["question"])):
        own = decided[record["benchmark"], record["encoder"]]
        own.right.append(record["right"])
        own.total.append(record["total"])
    return Results(
        name=name or folder.path.name,
        config=fixed,
        tables={key: table for key, table in tables.items() if len(table)},
        batches=tuple(_batches(folder)),
        decided=dict(decided),
        failed=Counter((benchmark, method) for benchmark, method, _ in failures - answered),
    )


def _methods(config: Mapping[str, Any]) -> list[str]:
    return [name for each in config["environments"] for name in each.get("methods", ())]


def _name(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["benchmark"], record["method"], record["question"]


def _batches(folder: RunFolder) -> Iterator[Batch]:
    for record in read(folder / BATCHES):
        yield Batch(**record)


def shared(first: Table, second: Table, name: str) -> tuple[Numbers, Numbers]:
    """Return a figure of two methods on the questions that have it of both, in one order."""
    one, other = first.column(name), second.column(name)
    if first.ids != second.ids:
        rows = {question: row for row, question in enumerate(second.ids)}
        both = [(row, rows[question]) for row, question in enumerate(first.ids) if question in rows]
        pairs = np.array(both, np.intp).reshape(-1, 2)
        one, other = one[pairs[:, 0]], other[pairs[:, 1]]
    known = np.isfinite(one) & np.isfinite(other)
    return one[known], other[known]
