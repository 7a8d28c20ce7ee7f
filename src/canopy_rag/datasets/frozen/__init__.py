"""Splits and decision instances that were settled once, so that all work is compared on the same.

One file per benchmark, written by `tools/freeze_splits.py`; only of benchmarks whose licence allows
lists of their questions' ids to be passed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from canopy_rag.core.questions import Question
from canopy_rag.datasets.base import Benchmark, Loaded
from canopy_rag.datasets.splits import PAPER, PARTS, Part, Sizes, Split, split

Portions = Literal["frozen", "paper"]
"""Whose numbers of questions the parts have; see `parts_of`."""
SEED = 0
"""The seed of the parts that were frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenQuestion:
    """What was settled of a question."""

    part: Part
    n_instances: int
    """Decision instances in its gold items."""
    instances: str
    """Their hash; see `instances.instances_digest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What was settled of a benchmark."""

    name: str
    made: str
    """From which files, by which rule."""
    sha256: str
    """Over the ids and texts of the questions; see `questions_digest`."""
    questions: Mapping[str, FrozenQuestion]
    """By id."""

    @property
    def parts(self) -> dict[str, Part]:
        """Question id -> part."""
        return {question_id: each.part for question_id, each in self.questions.items()}


def frozen_names() -> tuple[str, ...]:
    """Return the benchmarks whose split is frozen, sorted."""
    folder = resources.files(__name__)
    return tuple(
        sorted(
            entry.name.removesuffix(".json")
            for entry in folder.iterdir()
            if entry.name.endswith(".json")
        )
    )


def frozen(name: str) -> Frozen | None:
    """Return what was settled of a benchmark; None if nothing was."""
    file = resources.files(__name__) / f"{name}.json"
    if not file.is_file():
        return None
    document = json.loads(file.read_text(encoding="utf-8"))
    return Frozen(
        name=document["name"],
        made=document["made"],
        sha256=document["sha256"],
        questions={
            question_id: FrozenQuestion(part=part, n_instances=n, instances=digest)
            for question_id, (part, n, digest) in document["questions"].items()
        },
    )


def parts_of(loaded: Loaded, benchmark: Benchmark, portions: Portions = "frozen") -> Split:
    """Return the parts that training, choices and evaluation use, the same for all of them (P16).

    Args:
        loaded: The benchmark's questions.
        benchmark: Which.
        portions: `frozen`: `standard_split`. `paper`: the paper's numbers of questions by the
            seeded rule, whatever was frozen; out of domain nothing is trained on.
    """
    if portions == "frozen":
        return standard_split(loaded)
    if benchmark.name == "lvbench":
        sizes = Sizes(train=162, validation=0, test=500)
    elif benchmark.group == "out_of_domain":
        sizes = Sizes(train=0, validation=0, test=PAPER.test)
    else:
        sizes = PAPER
    return standard_split(loaded, sizes=sizes, use_frozen=False)


def questions_digest(questions: Iterable[Question]) -> str:
    """Return a hash over the ids and texts of questions, whatever their order."""
    lines = sorted(f"{question.id}\t{question.text}" for question in questions)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def standard_split(
    loaded: Loaded, *, seed: int = SEED, sizes: Sizes | None = None, use_frozen: bool = True
) -> Split:
    """Return the parts of a benchmark's questions that every training and evaluation uses.

    Questions whose part is frozen keep it; the others (those of full official files, of benchmarks
    without a frozen split, of users' data) are split by the seeded rule. `how` says which it was.

    Args:
        loaded: The benchmark.
        seed: Of the seeded rule. Another seed than the frozen one leaves the frozen parts aside.
        sizes: Of the parts, as far as they are not frozen; see `splits.split`.
        use_frozen: False: the seeded rule alone, as for a reproduction of the paper's portions.
    """
    settled = frozen(loaded.name) if use_frozen and seed == SEED else None
    parts = settled.parts if settled else {}
    made = split(loaded.questions, seed=seed, sizes=sizes, frozen=parts)
    if settled is None:
        return made
    known = [question for question in loaded.questions if question.id in parts]
    if len(known) < len(parts) or questions_digest(known) == settled.sha256:
        return made
    return Split(
        **{part: made.ids(part) for part in PARTS},
        unused=made.unused,
        how=f"{made.how}; some questions read differently from those that were frozen",
    )
