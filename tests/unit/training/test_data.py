import json
from dataclasses import replace

import pytest

from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.frozen import standard_split
from canopy_rag.datasets.registry import benchmark, load
from canopy_rag.text import DefaultSplitter
from canopy_rag.training.data import (
    Source,
    portion,
    read_source,
    require_examples,
    without_long_items,
)

PARTS = ("train", "validation")


def read(path, **options):
    return read_source(benchmark("jsonl"), path, DefaultSplitter(), parts=PARTS, **options)


def question(item_id, start, stop, name="q"):
    return Question(
        id=name,
        text="?",
        answers=("a",),
        kind="",
        gold=(GoldSpan(item_id=item_id, start=start, stop=stop),),
    )


def as_source(source, *questions):
    loaded = Loaded(name="made", questions=questions, items=lambda: iter(()))
    return Source(loaded=loaded, parts={"train": questions}, items=source.items)


def test_the_parts_are_those_that_everything_uses(write_own):
    path = write_own()
    source = read(path)
    split = standard_split(load("jsonl", path, DefaultSplitter()))
    for part in PARTS:
        assert {each.id for each in source.parts[part]} == set(split.ids(part))


def test_nobody_trains_on_the_test_part(write_own):
    with pytest.raises(ConfigError, match="test part"):
        read_source(benchmark("jsonl"), write_own(), DefaultSplitter(), parts=("train", "test"))


def test_a_limit_takes_the_same_questions_each_time(write_own):
    path = write_own()
    first, again = read(path, limit=3), read(path, limit=3)
    assert [each.id for each in first.parts["train"]] == [each.id for each in again.parts["train"]]
    assert len(first.parts["train"]) == 3


def test_what_is_learned_is_counted_and_hashed(source, learned):
    counts = learned.counts()
    assert counts["questions"] == len(source.parts["train"])
    # Two halves of two sentences each; the second sentence is gold: the root and one half decide.
    assert counts["instances"] == 2 * counts["items"] == learned.n_instances
    assert counts["pairs"] == 2 * counts["instances"]
    assert counts["instances_by_benchmark"] == {"jsonl": learned.n_instances}
    assert list(learned.digests) == ["jsonl:train"]


def test_another_question_gives_another_hash(write_own):
    first = portion([read(write_own())], "train")
    path = write_own()
    path.write_text(path.read_text().replace("made of?", "made from?"))
    assert portion([read(path)], "train").digests != first.digests


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ([{"item": "p0", "start": 0, "stop": 9_999}], "outside the item"),
        ([{"item": "nothing"}], "not there"),
        ([{"item": "p0", "quote": "platinum"}], "not in the item"),
        ([], "no gold"),
    ],
)
def test_own_data_that_cannot_be_used_is_named(write_own, gold, reason):
    extra = [{"id": "bad one", "question": "?", "answers": ["a"], "gold": gold}]
    with pytest.raises(DataError, match=f"'bad one'.*{reason}"):
        read(write_own(extra=extra))


def test_many_bad_questions_are_counted(write_own):
    extra = [{"id": f"bad {n}", "question": "?", "answers": ["a"], "gold": []} for n in range(9)]
    with pytest.raises(DataError, match="and 4 more"):
        read(write_own(extra=extra))


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 4), (0, 100_000), (8, 4)], ids=["before", "after", "backwards"]
)
def test_a_span_outside_its_item_is_named(source, start, stop):
    item_id = next(iter(source.items))
    with pytest.raises(DataError, match=f"made: question 'q'.*outside the item {item_id!r}"):
        portion([as_source(source, question(item_id, start, stop))], "train")


def test_gold_in_an_item_that_is_not_there_is_named(source):
    with pytest.raises(DataError, match=r"question 'q'.*'nowhere', which is not there"):
        portion([as_source(source, question("nowhere", 0, 1))], "train")


def test_items_without_a_decision_are_counted(write_own):
    extra = [
        {"id": "one", "text": "A single sentence."},
        {"id": "q one", "question": "?", "answers": ["a"], "gold": [{"item": "one"}]},
    ]
    source = read(write_own(extra=extra))
    found = [portion([source], part).counts()["items_without_a_decision"] for part in PARTS]
    in_test = "q one" in standard_split(source.loaded).test
    assert sum(found) == (0 if in_test else 1)


def test_nothing_to_learn_is_an_error(tmp_path):
    path = tmp_path / "own.jsonl"
    lines = []
    for n in range(8):
        lines.append({"id": f"p{n}", "text": "A single sentence."})
        lines.append(
            {"id": f"q{n}", "question": "?", "answers": ["a"], "gold": [{"item": f"p{n}"}]}
        )
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError, match="no decision to learn from"):
        require_examples(portion([read(path)], "train"))


def test_long_items_are_left_out_and_counted(learned):
    long = learned.examples[0].item.id
    kept, n = without_long_items(learned, 10, lambda item: 11 if item.id == long else 10)
    assert n == 1
    assert long not in {each.item.id for each in kept.examples}
    assert without_long_items(learned, None, lambda item: 10**9) == (learned, 0)


def test_an_item_without_a_decision_is_kept_where_items_are_compared(source):
    from canopy_rag.testing.encoder_contract import text_item

    single = replace(text_item("single", ["One sentence alone."]), id="single")
    whole = source.parts["train"][0]
    asked = question("single", 0, 4, name="asks for one")
    both = replace(asked, id="both", gold=(*asked.gold, *whole.gold))
    made = as_source(replace(source, items={**source.items, "single": single}), asked, both)
    assert [each.question_id for each in portion([made], "train").examples] == ["both"]
    kept = portion([made], "train", undecided=True)
    found = {(each.question_id, each.item.id): each for each in kept.examples}
    other = whole.gold[0].item_id
    assert set(found) == {("asks for one", "single"), ("both", "single"), ("both", other)}
    alone = found["asks for one", "single"]
    assert (alone.instances, alone.nodes, alone.gold) == ((), (), frozenset({0}))
    assert found["both", other].gold_items == {"single", other}
    assert kept.counts()["items_without_a_decision"] == 2
    assert kept.counts()["items"] == 1
    assert kept.n_instances == portion([made], "train").n_instances
