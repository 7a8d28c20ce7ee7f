"""From benchmark folders to tasks: which questions of which part, over which items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from canopy_rag.core.errors import DataError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Benchmark, Loaded
from canopy_rag.datasets.frozen import Portions, parts_of
from canopy_rag.datasets.registry import load
from canopy_rag.datasets.splits import Part
from canopy_rag.evaluation.diagnose import Task


def load_task(
    benchmark: Benchmark,
    folder: Path,
    splitter: SentenceSplitter,
    *,
    part: Part,
    limit: int | None = None,
    max_items: int | None = None,
    portions: Portions = "frozen",
) -> Task:
    """Read one benchmark and take the questions of one part.

    Args:
        benchmark: Which.
        folder: With its official files.
        splitter: Finds sentences where the benchmark does not give them.
        part: `train`, `validation` or `test`, as frozen, else by the seeded rule (P16).
        limit: Most questions, in the order of a hash of their ids; None: all.
        max_items: Most items of the pool besides the gold items; None: all.
        portions: `paper`: the paper's numbers of questions by the seeded rule, whatever was frozen.

    Raises:
        DataError: If the folder has none of the files, or no question is left.
    """
    loaded = load(benchmark.name, folder, splitter)
    chosen = set(parts_of(loaded, benchmark, portions).ids(part))
    questions = [question for question in loaded.questions if question.id in chosen]
    if limit is not None:
        questions = sorted(questions, key=lambda question: _rank(question.id))[:limit]
    if not questions:
        raise DataError(
            f"{benchmark.name}: {folder} has no question in the {part} part "
            f"({len(loaded.questions)} kept of {loaded.n_total})"
        )
    gold = {span.item_id for question in questions for span in question.gold}
    return Task(
        name=benchmark.name,
        group=benchmark.group,
        questions=tuple(questions),
        items=lambda: _pool(loaded, gold, max_items),
        n_kept=len(loaded.questions),
        n_total=loaded.n_total,
    )


def _pool(loaded: Loaded, gold: set[str], max_items: int | None) -> Iterator[Item]:
    n_others = 0
    for item in loaded.items():
        if item.id not in gold:
            if max_items is not None and n_others >= max_items:
                continue
            n_others += 1
        yield item


def _rank(question_id: str) -> str:
    return hashlib.sha256(question_id.encode("utf-8", "surrogateescape")).hexdigest()
