from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.questions import Question
from canopy_rag.datasets.splits import PAPER, PARTS, Sizes, Split, split


def question(number: int, kind: str = "a", contexts: tuple[str, ...] = ()) -> Question:
    return Question(
        id=f"q{number}", text="?", answers=("!",), kind=kind, gold=(), contexts=contexts
    )


def many(n: int, kinds: str = "aaab") -> list[Question]:
    return [question(number, kinds[number % len(kinds)]) for number in range(n)]


def sizes_of(made: Split) -> list[int]:
    return [len(made.ids(part)) for part in PARTS]


def homes(made: Split) -> dict[str, str]:
    return {each: part for part in (*PARTS, "unused") for each in getattr(made, part)}


def test_every_question_is_in_one_part() -> None:
    questions = many(200)
    made = split(questions)
    assert sorted([*made.train, *made.validation, *made.test]) == sorted(q.id for q in questions)
    assert made.unused == ()
    assert sizes_of(made) == [120, 30, 50]


def test_parts_keep_the_order_of_the_questions() -> None:
    made = split(many(200))
    for part in PARTS:
        numbers = [int(each[1:]) for each in made.ids(part)]
        assert numbers == sorted(numbers)


def test_parts_are_the_same_whatever_the_order_and_another_seed_gives_others() -> None:
    questions = [question(n, "ab"[n % 2], (f"c{n % 70}",)) for n in range(150)]
    shuffled = random.Random(1).sample(questions, len(questions))
    assert homes(split(questions)) == homes(split(shuffled))
    assert homes(split(questions)) != homes(split(questions, seed=1))


def test_parts_are_the_same_in_every_version() -> None:
    # Written down once: what was trained or tested on must not move with Python or platform.
    questions = [question(n, "ab"[n % 2], (f"c{n % 9}",)) for n in range(12)]
    made = split(questions, seed=3)
    assert made.train == ("q0", "q3", "q5", "q6", "q7", "q8", "q9")
    assert made.validation == ("q2", "q11")
    assert made.test == ("q1", "q4", "q10")


def test_each_kind_is_spread_by_the_sizes_to_the_question() -> None:
    questions = many(400, "aaaaaaabbc")
    kinds = {each.id: each.kind for each in questions}
    made = split(questions)
    for part, size in zip(PARTS, (240, 60, 100), strict=True):
        counts = Counter(kinds[each] for each in made.ids(part))
        assert counts == {"a": size * 7 // 10, "b": size * 2 // 10, "c": size // 10}


def test_rare_kinds_do_not_upset_the_sizes() -> None:
    questions = [question(n, f"kind {n % 97}") for n in range(100)]
    assert sizes_of(split(questions)) == [60, 15, 25]


def test_questions_that_share_a_context_are_on_one_side_however_long_the_chain() -> None:
    questions = [question(n, contexts=(f"c{n}", f"c{n + 1}")) for n in range(5)]
    questions += [question(n, contexts=(f"c{n}",)) for n in range(100, 160)]
    questions += [question(n, contexts=(f"c{n - 100}",)) for n in range(200, 260)]
    where = homes(split(questions))
    assert len({where[f"q{n}"] for n in range(5)}) == 1
    assert all(where[f"q{n}"] == where[f"q{n + 100}"] for n in range(100, 160))


def test_groups_come_as_near_to_the_sizes_as_they_allow() -> None:
    questions = [question(n, contexts=(f"page {n // 6}",)) for n in range(600)]
    assert all(
        abs(size - wanted) <= 6
        for size, wanted in zip(sizes_of(split(questions)), (360, 90, 150), strict=True)
    )


def test_a_group_larger_than_a_part_is_still_placed() -> None:
    questions = [question(n, contexts=("all",)) for n in range(10)]
    assert sorted(sizes_of(split(questions))) == [0, 0, 10]


def test_single_questions_are_drawn_not_dealt() -> None:
    # Dealing by turns would put every fourth question into `test`.
    made = split(many(400, "a"))
    order = sorted(int(each[1:]) for each in made.test)
    assert len({after - before for before, after in pairwise(order)}) > 5


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        (7404, [1000, 0, 1000, 5404]),
        (1500, [500, 0, 1000, 0]),
        (662, [0, 0, 662, 0]),
    ],
)
def test_the_papers_portions_are_exact_and_test_comes_first(n: int, wanted: list[int]) -> None:
    made = split(many(n), sizes=PAPER)
    assert [*sizes_of(made), len(made.unused)] == wanted


def test_portions_may_be_numbers_and_shares() -> None:
    made = split(many(662), sizes=Sizes(train=162, validation=0, test=500))
    assert sizes_of(made) == [162, 0, 500]
    assert sizes_of(split(many(100), sizes=Sizes(train=0, validation=0.5, test=10))) == [0, 50, 10]
    assert sizes_of(split([], sizes=PAPER)) == [0, 0, 0]
    assert sum(sizes_of(split(many(7)))) == 7


@pytest.mark.parametrize("sizes", [{"train": -1}, {"test": 1.5}, {"train": 0.7, "test": 0.3}])
def test_sizes_that_cannot_be_are_refused(sizes) -> None:
    with pytest.raises(ConfigError):
        Sizes(**sizes)


def test_frozen_questions_keep_their_part_and_the_sizes_count_them() -> None:
    frozen = {f"q{n}": "test" for n in range(20)} | {"gone": "train"}
    made = split(many(100), frozen=frozen)
    assert {f"q{n}" for n in range(20)} <= set(made.test)
    assert sizes_of(made) == [60, 15, 25]
    assert "20 questions frozen" in made.how
    assert split(many(20), frozen=frozen).how == "frozen"
    assert split(many(20), seed=5).how == "seeded rule, seed 5"


def test_what_is_linked_to_a_question_that_was_trained_on_is_never_tested() -> None:
    questions = [question(1, contexts=("x",)), question(2, contexts=("x", "y"))]
    questions += [question(3, contexts=("y",)), question(4)]
    where = homes(split(questions, frozen={"q1": "test", "q3": "train", "q4": "validation"}))
    assert [where[f"q{n}"] for n in (1, 2, 3, 4)] == ["train", "train", "train", "validation"]
