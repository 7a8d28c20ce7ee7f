"""What is trained on: decision instances of benchmarks' questions, checked, counted and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.preferences import DecisionInstance, decision_instances
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Benchmark, Loaded
from canopy_rag.datasets.frozen import Portions, parts_of
from canopy_rag.datasets.instances import gold_items, instances_digest, question_gold
from canopy_rag.datasets.jsonl import load_over
from canopy_rag.datasets.registry import load
from canopy_rag.datasets.splits import Part

OWN = ("jsonl",)
"""Formats of users' own data, in which a question that cannot be used is a mistake to be told."""
N_NAMED = 5
"""Records that an error names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """A question with one of its gold items and the decisions to be made there."""

    benchmark: str
    question_id: str
    query: str
    item: Item
    instances: tuple[DecisionInstance, ...]
    """None where the item is a single leaf."""
    gold: frozenset[int] = frozenset()
    """The item's gold leaves."""
    gold_items: frozenset[str] = frozenset()
    """Ids of all items with gold of the question; none of them is wrong for it."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that the decisions compare, ascending."""
        compared = {
            node
            for instance in self.instances
            for each in instance.preferences
            for node in (each.preferred, each.other)
        }
        return tuple(sorted(compared))

    @property
    def name(self) -> str:
        """What an error calls it."""
        nodes = ", ".join(str(each.node) for each in self.instances)
        where = f", node {nodes}" if nodes else ""
        return f"question {self.question_id!r}, item {self.item.id!r}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The examples of one part of one or several benchmarks."""

    part: Part
    examples: tuple[Example, ...]
    n_questions: int
    n_unsplit: int
    """Gold items of a single leaf, such as images: there is nothing to decide."""
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Benchmark -> checksum over its questions, trees, gold and instances."""

    @property
    def n_instances(self) -> int:
        """Number of decision instances."""
        return sum(len(each.instances) for each in self.examples)

    def counts(self) -> dict[str, Any]:
        """Return how much there is, as JSON, altogether and by benchmark."""
        names = list(dict.fromkeys(each.benchmark for each in self.examples))
        return {
            "questions": self.n_questions,
            "items": sum(bool(each.instances) for each in self.examples),
            "instances": self.n_instances,
            "pairs": sum(len(one.preferences) for each in self.examples for one in each.instances),
            "items_without_a_decision": self.n_unsplit,
            "instances_by_benchmark": {
                name: sum(len(each.instances) for each in self.examples if each.benchmark == name)
                for name in names
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A benchmark that was read, with the parts of its questions."""

    loaded: Loaded
    parts: Mapping[Part, tuple[Question, ...]]
    items: Mapping[str, Item]
    """The gold items of those parts, by id."""


def read_source(
    benchmark: Benchmark,
    folder: Path,
    splitter: SentenceSplitter,
    *,
    parts: Sequence[Part],
    limit: int | None = None,
    index: Callable[[Sequence[str]], Mapping[str, Item]] | None = None,
    portions: Portions = "frozen",
) -> Source:
    """Read a benchmark and the gold items of some parts of its questions.

    Args:
        benchmark: Which.
        folder: With its files.
        splitter: Finds sentences where the benchmark does not give them.
        parts: As frozen, else by the seeded rule (P16); never `test`.
        limit: Most questions of each part, in the order of a hash of their ids; None: all.
        index: Returns those items of some ids that an index holds; then the gold of own questions
            names items by their ids there.
        portions: Whose numbers of questions the parts have; `paper` for a reproduction.

    Raises:
        ConfigError: If a part is the test part: nobody trains on that.
        DataError: If the folder has none of the files, or naming the questions of a user's own data
            that cannot be used.
    """
    if "test" in parts:
        raise ConfigError("the test part is for testing alone; train on `train`")
    if index is not None and benchmark.name in OWN:
        loaded = load_over(folder, index)
    else:
        loaded = load(benchmark.name, folder, splitter)
    if benchmark.name in OWN:
        check_own(loaded)
    split = parts_of(loaded, benchmark, portions)
    by_id = {question.id: question for question in loaded.questions}
    chosen = {
        part: tuple(by_id[each] for each in sorted(split.ids(part), key=_rank)[:limit])
        for part in parts
    }
    asked = [question for questions in chosen.values() for question in questions]
    return Source(loaded=loaded, parts=chosen, items=gold_items(loaded, asked))


def check_own(loaded: Loaded) -> None:
    """Refuse own data in which questions have no gold or gold that points nowhere.

    Raises:
        DataError: Naming the questions and what is wrong with each.
    """
    wrong = [f"question {each.id!r}: {each.reason}" for each in loaded.omitted]
    wrong += [
        f"question {question.id!r}: it has no gold"
        for question in loaded.questions
        if not question.gold
    ]
    if wrong:
        raise DataError(f"{loaded.name}: {_some(wrong)}. Correct them, or leave them out")


def portion(sources: Sequence[Source], part: Part, *, undecided: bool = False) -> Portion:
    """Return the examples of a part of several benchmarks (P10: pooled).

    Args:
        sources: The benchmarks, read.
        part: Which part.
        undecided: Keep gold items of a single leaf as examples without instances, for a loss that
            compares items too.

    Raises:
        DataError: Naming a question without gold, or whose gold is not there or outside its item.
    """
    examples: list[Example] = []
    digests: dict[str, str] = {}
    n_questions = n_unsplit = 0
    for source in sources:
        lines = []
        for question in source.parts.get(part, ()):
            check_gold(source.loaded.name, question, source.items)
            n_questions += 1
            own = _examples(source, question)
            n_unsplit += sum(not each.instances for each in own)
            examples += [each for each in own if each.instances or (undecided and each.gold)]
            n, digest = instances_digest(question, source.items)
            lines.append(f"{question.id}\t{question.text}\t{n}\t{digest}")
        text = "\n".join(sorted(lines)).encode("utf-8", "surrogatepass")
        digests[f"{source.loaded.name}:{part}"] = hashlib.sha256(text).hexdigest()
    return Portion(
        part=part,
        examples=tuple(examples),
        n_questions=n_questions,
        n_unsplit=n_unsplit,
        digests=digests,
    )


def _examples(source: Source, question: Question) -> list[Example]:
    gold = question_gold(question, source.items)
    return [
        Example(
            benchmark=source.loaded.name,
            question_id=question.id,
            query=question.text,
            item=source.items[item_id],
            instances=tuple(decision_instances(source.items[item_id].nodes, leaves)),
            gold=leaves,
            gold_items=frozenset(gold),
        )
        for item_id, leaves in gold.items()
    ]


def check_gold(benchmark: str, question: Question, items: Mapping[str, Item]) -> None:
    """Check that a question's gold lies in items that are there.

    Raises:
        DataError: Naming benchmark, question and span.
    """
    where = f"{benchmark}: question {question.id!r}"
    if not question.gold:
        raise DataError(f"{where}: it has no gold; training needs to know where the evidence is")
    for span in question.gold:
        item = items.get(span.item_id)
        if item is None:
            raise DataError(
                f"{where}: its gold names the item {span.item_id!r}, which is not there"
            )
        root = item.nodes[0]
        if not root.start <= span.start <= span.stop <= root.stop:
            raise DataError(
                f"{where}: its gold from {span.start:g} to {span.stop:g} lies outside the item "
                f"{item.id!r}, which reaches from {root.start:g} to {root.stop:g}"
            )


def without_long_items(
    given: Portion, max_tokens: int | None, count: Callable[[Item], int]
) -> tuple[Portion, int]:
    """Return a portion without the examples whose item is too long, and how many those are."""
    if max_tokens is None:
        return given, 0
    lengths = {each.item.id: each.item for each in given.examples}
    long = {item_id for item_id, item in lengths.items() if count(item) > max_tokens}
    kept = tuple(each for each in given.examples if each.item.id not in long)
    shorter = Portion(
        part=given.part,
        examples=kept,
        n_questions=given.n_questions,
        n_unsplit=given.n_unsplit,
        digests=given.digests,
    )
    return shorter, len(given.examples) - len(kept)


def require_examples(given: Portion) -> None:
    """Check that there is something to learn.

    Raises:
        DataError: If no gold item can be split, or there is no question.
    """
    if given.examples:
        return
    raise DataError(
        f"the {given.part} part has {given.n_questions:,} questions and no decision to learn from"
        + (
            f": all {given.n_unsplit:,} gold items are of a single leaf or hold no located gold"
            if given.n_unsplit
            else "; is it the right folder?"
        )
    )


def _some(reasons: Sequence[str]) -> str:
    shown = "; ".join(reasons[:N_NAMED])
    left = len(reasons) - N_NAMED
    return f"{shown}; and {left:,} more" if left > 0 else shown


def _rank(question_id: str) -> str:
    return hashlib.sha256(question_id.encode("utf-8", "surrogateescape")).hexdigest()
