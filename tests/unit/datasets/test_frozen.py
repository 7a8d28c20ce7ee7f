from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from canopy_rag.core.questions import Question
from canopy_rag.datasets import frozen as settled
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.frozen import (
    Frozen,
    FrozenQuestion,
    frozen,
    frozen_names,
    parts_of,
    standard_split,
)
from canopy_rag.datasets.instances import gold_items, instances_digest
from canopy_rag.datasets.registry import NAMES, benchmark, load
from canopy_rag.datasets.splits import PARTS, Sizes

NON_COMMERCIAL_OR_UNKNOWN = {"lvbench", "longvideobench", "mmqa"}


def question(number: int, text: str = "?") -> Question:
    return Question(id=f"q{number}", text=text, answers=("!",), kind="", gold=())


def loaded(*questions: Question) -> Loaded:
    return Loaded(name="nq", questions=questions, items=lambda: iter(()))


@pytest.fixture
def _three_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Frozen(
        name="nq",
        made="by hand",
        sha256=settled.questions_digest(question(n) for n in range(3)),
        questions={
            f"q{n}": FrozenQuestion(part=part, n_instances=1, instances="0")
            for n, part in enumerate(PARTS)
        },
    )
    monkeypatch.setattr(settled, "frozen", {"nq": made}.get)


@pytest.mark.parametrize("name", frozen_names())
def test_a_frozen_file_is_whole(name: str) -> None:
    made = frozen(name)
    assert made is not None
    assert made.name == name
    assert name in NAMES
    assert set(made.parts.values()) <= set(PARTS)
    assert all(
        each.n_instances >= 0 and len(each.instances) == 10 for each in made.questions.values()
    )
    if len(made.questions) > 2:
        assert all(Counter(made.parts.values())[part] >= 9 for part in PARTS)


def test_no_list_of_a_benchmark_that_may_not_be_passed_on_is_shipped() -> None:
    assert set(frozen_names()).isdisjoint(NON_COMMERCIAL_OR_UNKNOWN)
    known = {"nq", "hotpotqa", "ottqa", "tatqa", "musique", "2wikimultihopqa"}
    assert set(frozen_names()) == known
    assert frozen("jsonl") is None


@pytest.mark.usefixtures("_three_frozen")
def test_frozen_questions_keep_their_part_whatever_the_sizes() -> None:
    made = standard_split(
        loaded(*map(question, range(3))), sizes=Sizes(train=0.0, validation=0.0, test=1.0)
    )
    assert (made.train, made.validation, made.test) == (("q0",), ("q1",), ("q2",))
    assert made.how == "frozen"


@pytest.mark.usefixtures("_three_frozen")
def test_other_questions_are_split_by_the_rule_and_that_is_said() -> None:
    made = standard_split(loaded(*map(question, range(40))))
    assert ("q0" in made.train, "q1" in made.validation, "q2" in made.test) == (True, True, True)
    assert made.how == "3 questions frozen, the others by the seeded rule, seed 0"
    assert standard_split(loaded(question(8))).how == "seeded rule, seed 0"


@pytest.mark.usefixtures("_three_frozen")
def test_another_seed_or_a_reproduction_leaves_the_frozen_parts_aside() -> None:
    one = loaded(question(2))
    assert standard_split(one, seed=4).how == "seeded rule, seed 4"
    made = standard_split(one, use_frozen=False, sizes=Sizes(train=1.0, validation=0, test=0))
    assert made.train == ("q2",)


@pytest.mark.usefixtures("_three_frozen")
def test_frozen_ids_with_other_words_are_told() -> None:
    changed = [question(0), question(1), question(2, "Something else?")]
    assert "read differently" in standard_split(loaded(*changed)).how


@pytest.mark.parametrize("name", frozen_names())
def test_the_decision_instances_are_those_that_were_frozen(name: str, data: Path, splitter) -> None:
    folder = data / name
    if not folder.is_dir():
        pytest.skip(f"CANOPY_DATA has no folder {name}")
    benchmark, made = load(name, folder, splitter), frozen(name)
    assert made is not None
    assert standard_split(benchmark).how == "frozen"
    known = [each for each in benchmark.questions if each.id in made.questions]
    assert settled.questions_digest(known) == made.sha256
    items = gold_items(benchmark, known)
    differing = [
        each.id
        for each in known
        if instances_digest(each, items)
        != (made.questions[each.id].n_instances, made.questions[each.id].instances)
    ]
    assert differing == []


@pytest.mark.parametrize("name", frozen_names())
def test_no_gold_item_is_on_two_sides(name: str, data: Path, splitter) -> None:
    folder = data / name
    if not folder.is_dir():
        pytest.skip(f"CANOPY_DATA has no folder {name}")
    benchmark = load(name, folder, splitter)
    made = standard_split(benchmark)
    sides: dict[str, set[str]] = {}
    for part in PARTS:
        ids = set(made.ids(part))
        for each in benchmark.questions:
            if each.id in ids:
                for span in each.gold:
                    sides.setdefault(span.item_id, set()).add(part)
    assert [item_id for item_id, parts in sides.items() if len(parts) > 1] == []


def test_a_digest_of_questions_ignores_their_order_but_no_word() -> None:
    one, two = question(1, "a"), question(2, "b")
    digest = settled.questions_digest([one, two])
    assert digest == settled.questions_digest([two, one])
    assert digest != settled.questions_digest([one, replace(two, text="c")])


def test_the_papers_portions_put_test_first_and_train_nothing_out_of_domain() -> None:
    many = loaded(*(question(number, f"{number}?") for number in range(2_500)))
    sizes = {
        name: [len(parts_of(many, benchmark(name), "paper").ids(part)) for part in PARTS]
        for name in ("nq", "lvbench", "tatqa")
    }
    assert sizes == {"nq": [1000, 0, 1000], "lvbench": [162, 0, 500], "tatqa": [0, 0, 1000]}
    split = parts_of(many, benchmark("nq"), "paper")
    assert set(split.train).isdisjoint(split.test)
