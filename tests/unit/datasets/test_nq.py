from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.datasets import nq
from canopy_rag.datasets.nq import load

DEV, POOL, ORACLE = "biencoder-nq-dev.json", "psgs_w100.tsv", "nq-open-oracle.jsonl.gz"
INFO, OPEN = "nq-test_gold_info.json", "NQ-open.dev.jsonl"
ANN = "Alpha was made by Ann. Later on Ben sold Alpha. Ann, it is said, was sad."


def context(
    number: int, title: str, text: str, score: float = 10, **changes: Any
) -> dict[str, Any]:
    return {
        "title": title,
        "text": text,
        "score": score,
        "title_score": int(score == 1000),
        "passage_id": str(number),
    } | changes


def retrieved(question: str = "who made alpha", **changes: Any) -> dict[str, Any]:
    return {
        "dataset": "nq_dev_psgs_w100",
        "question": question,
        "answers": ["Ann"],
        "positive_ctxs": [context(2, "Other", "Ann again."), context(1, "Alpha", ANN, 1000)],
        "negative_ctxs": [context(3, "Negative", "Nothing here.")],
        "hard_negative_ctxs": [context(3, "Negative", "Nothing here."), context(4, "Hard", "No.")],
    } | changes


def oracle(question: str = "who sold alpha", answer: str = "Ben") -> dict[str, Any]:
    gold = {"title": "Alpha", "text": ANN, "hasanswer": True, "isgold": True}
    return {"question": question, "answers": [answer], "ctxs": [gold]}


def pool(*rows: tuple[int, str, str]) -> str:
    lines = [f'{number}\t"{text}"\t{title}' for number, text, title in rows]
    return "\n".join(["id\ttext\ttitle", *lines]) + "\n"


def test_gold_is_every_place_of_an_answer_in_the_annotated_passage(
    write, tmp_path: Path, splitter, shown
) -> None:
    write(DEV, [retrieved()])
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert shown(loaded, question) == ["Ann", "Ann"]
    assert question.contexts == ("Alpha",)
    assert [item.source.uri for item in loaded.items()] == ["nq/2", "nq/1", "nq/3", "nq/4"]


def test_the_id_of_a_passage_may_have_either_name(write, tmp_path: Path, splitter) -> None:
    other = context(1, "Alpha", ANN, 1000)
    other["psg_id"] = other.pop("passage_id")
    write("a/" + DEV, [retrieved()])
    write("b/" + DEV, [retrieved(positive_ctxs=[other])])
    golds = [load(tmp_path / name, splitter).questions[0].gold for name in "ab"]
    assert golds[0] == golds[1]


def test_all_passages_of_the_pool_are_items_and_gold_is_located_in_its_text(
    write, tmp_path: Path, splitter, shown
) -> None:
    write(
        DEV,
        [retrieved(), retrieved("who made gamma", positive_ctxs=[context(9, "G", "Ann", 1000)])],
    )
    write(POOL + ".gz", pool((7, "Seven.", "Seven"), (1, "So: Ann made Alpha.", "Alpha")))
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert [item.source.uri for item in loaded.items()] == ["nq/7", "nq/1"]
    assert shown(loaded, question) == ["Ann"]
    assert question.gold[0].start == 4
    assert loaded.why_omitted() == {"its gold passage is not in psgs_w100.tsv": 1}


def test_the_pool_is_read_as_a_stream_anew_at_each_call(write, tmp_path: Path, splitter) -> None:
    write(DEV, [retrieved()])
    path = write(POOL, pool((1, ANN, "Alpha"), (2, "Two.", "Two")))
    loaded = load(tmp_path, splitter)
    assert len(list(loaded.items())) == len(list(loaded.items())) == 2
    path.write_text(path.read_text("utf-8") + "broken\n", encoding="utf-8")
    items = loaded.items()
    assert [next(items).source.uri, next(items).source.uri] == ["nq/1", "nq/2"]
    with pytest.raises(DataError, match=r"line 4\): has 1 fields"):
        next(items)


def test_a_gold_page_and_paragraph_lead_to_the_passage_most_like_it(
    write, tmp_path: Path, splitter, shown
) -> None:
    info = {
        "question": "Who made Alpha?",
        "question_tokens": "who made alpha",
        "title": "Alpha",
        "context": "It was Ann who made Alpha in the spring .",
        "example_id": 1,
        "short_answers": ["Ann"],
    }
    write(INFO, {"data": [info, info | {"question": "who else", "title": "Nowhere"}]})
    rows = [(1, "Ann is here, too.", "Alpha"), (2, "In the spring Ann made Alpha.", "Alpha")]
    rows += [(3, "It was in the spring; somebody made Alpha.", "Alpha"), (4, "Ann", "Beta")]
    write(POOL, pool(*rows))
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert shown(loaded, question) == ["Ann"]
    item = next(each for each in loaded.items() if each.id == question.gold[0].item_id)
    assert item.source.uri == "nq/2"
    assert loaded.why_omitted() == {"its gold passage is not in psgs_w100.tsv": 1}


def test_gold_pages_without_the_pool_are_told(write, tmp_path: Path, splitter) -> None:
    write(INFO, {"data": []})
    assert load(tmp_path, splitter).notes == (f"{INFO} is not used: it needs psgs_w100.tsv",)


def test_an_oracle_passage_has_an_id_by_its_words(write, tmp_path: Path, splitter, shown) -> None:
    write(ORACLE, [oracle(), oracle("who was sad", "ann")])
    loaded = load(tmp_path, splitter)
    assert [shown(loaded, question) for question in loaded.questions] == [["Ben"], ["Ann", "Ann"]]
    (item,) = loaded.items()
    assert item.source.uri.startswith("nq/Alpha#")


def test_questions_with_answers_only_are_counted_unless_their_gold_is_known(
    write, tmp_path: Path, splitter
) -> None:
    write(ORACLE, [oracle()])
    answers = ["who sold alpha", "Who sold  Alpha?", "who made the moon"]
    write(OPEN, [{"question": text, "answer": ["x"]} for text in answers])
    loaded = load(tmp_path, splitter)
    assert (len(loaded.questions), loaded.n_total) == (1, 2)
    assert loaded.why_omitted() == {"no gold passage in the folder": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"positive_ctxs": [context(1, "Alpha", ANN, 999)]}, nq.NO_ANNOTATED),
        ({"positive_ctxs": []}, nq.NO_ANNOTATED),
        ({"answers": ["An"]}, nq.NOT_LITERAL),
        ({"answers": []}, nq.NOT_LITERAL),
    ],
)
def test_a_question_without_located_gold_is_omitted(
    write, tmp_path: Path, splitter, changes, reason: str
) -> None:
    write(DEV, [retrieved(), retrieved("another", **changes)])
    loaded = load(tmp_path, splitter)
    assert len(loaded.questions) == 1
    assert loaded.why_omitted() == {reason: 1}


def test_the_same_question_twice_in_a_file_is_omitted(write, tmp_path: Path, splitter) -> None:
    write(DEV, [retrieved(), retrieved("Who made  Alpha?")])
    assert load(tmp_path, splitter).why_omitted() == {"its id came before in the same file": 1}


def test_a_missing_field_is_named_with_its_place(write, tmp_path: Path, splitter) -> None:
    broken = context(1, "Alpha", ANN, 1000)
    del broken["text"]
    write(DEV, [retrieved(positive_ctxs=[broken])])
    message = rf"{DEV} \(record 1, positive_ctxs 1\): the field 'text' is missing"
    with pytest.raises(DataError, match=message):
        load(tmp_path, splitter)
    write(ORACLE, [oracle() | {"ctxs": []}])
    (tmp_path / DEV).unlink()
    with pytest.raises(DataError, match=r"line 1\): needs exactly one entry of 'ctxs'"):
        load(tmp_path, splitter)


def test_a_pool_alone_is_no_benchmark(write, tmp_path: Path, splitter) -> None:
    write(POOL, pool())
    with pytest.raises(DataError, match=rf"no file of nq.*{DEV}"):
        load(tmp_path, splitter)
