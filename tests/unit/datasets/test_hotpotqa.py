from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item, TextPayload
from canopy_rag.datasets.hotpotqa import load

DEV, WIKI = "hotpot_dev_distractor_v1.json", "hotpot_dev_fullwiki_v1.json"


def record(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "_id": f"q{number}",
        "question": "Where was Ánna, singer of Alpha, born?",
        "answer": "Łódź",
        "type": "bridge",
        "level": "hard",
        "context": [
            ["Alpha (song)", ["Alpha is a song.", " It is sung by Ánna.", " ", " It sold well."]],
            ["Ánna", ["Ánna was born in Łódź."]],
            ["Ánna", ["Another page.", " It is of the same title."]],
            ["Empty", []],
        ],
        "supporting_facts": [["Alpha (song)", 1], ["Ánna", 0]],
    } | changes


def text_of(item: Item) -> str:
    assert isinstance(item.payload, TextPayload)
    return item.payload.text


def test_supporting_facts_become_the_intervals_of_their_sentences(
    write, tmp_path: Path, splitter, shown
) -> None:
    write(DEV, [record()])
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert shown(loaded, question) == ["It is sung by Ánna.", "Ánna was born in Łódź."]
    assert (question.answers, question.kind) == (("Łódź",), "bridge")
    assert question.contexts == ("Alpha (song)", "Ánna")
    assert (loaded.n_total, loaded.omitted) == (1, ())


def test_leaves_are_the_sentences_of_the_file(write, tmp_path: Path, splitter) -> None:
    write(DEV, [record()])
    items = list(load(tmp_path, splitter).items())
    assert [item.title for item in items] == ["Alpha (song)", "Ánna", "Ánna"]
    song = items[0]
    assert text_of(song) == "Alpha is a song. It is sung by Ánna.  It sold well."
    cut = [
        text_of(song)[int(song.nodes[leaf].start) : int(song.nodes[leaf].stop)]
        for leaf in leaves(song.nodes)
    ]
    assert cut == ["Alpha is a song.", "It is sung by Ánna.", "It sold well."]
    assert {item.corpus for item in items} == {"hotpotqa"}
    assert all(item.source.uri.startswith(f"hotpotqa/{item.title}#") for item in items)


def test_a_paragraph_of_several_questions_is_one_item(write, tmp_path: Path, splitter) -> None:
    write(DEV, [record(1), record(2)])
    loaded = load(tmp_path, splitter)
    assert len(list(loaded.items())) == 3
    assert loaded.questions[0].gold == loaded.questions[1].gold


def test_an_items_id_does_not_depend_on_the_rest_of_the_file(
    write, tmp_path: Path, splitter
) -> None:
    write("a/" + DEV, [record(1, context=[["Beta", ["B."]]], supporting_facts=[["Beta", 0]])])
    write("b/" + DEV, [record(1), record(2, context=[["Beta", ["B."]]])])
    ids = {item.title: item.id for item in load(tmp_path / "b", splitter).items()}
    assert [item.id for item in load(tmp_path / "a", splitter).items()] == [ids["Beta"]]


def test_facts_that_point_nowhere_are_passed_over_and_a_question_without_any_is_omitted(
    write, tmp_path: Path, splitter, shown
) -> None:
    good, none = (
        ["Ánna", 0],
        [["Alpha (song)", 9], ["Ánna", -1], ["Nobody", 0], ["Alpha (song)", 2]],
    )
    write(DEV, [record(1, supporting_facts=[*none, good]), record(2, supporting_facts=none)])
    loaded = load(tmp_path, splitter)
    assert [shown(loaded, question) for question in loaded.questions] == [
        ["Ánna was born in Łódź."]
    ]
    assert loaded.why_omitted() == {
        "no supporting fact points at a sentence of its paragraphs": 1,
    }
    assert (loaded.omitted[0].id, loaded.n_total) == ("q2", 2)


def test_a_fact_finds_the_paragraph_of_that_title_that_has_the_sentence(
    write, tmp_path: Path, splitter, shown
) -> None:
    write(DEV, [record(supporting_facts=[["Ánna", 1]])])
    loaded = load(tmp_path, splitter)
    assert shown(loaded, loaded.questions[0]) == ["It is of the same title."]


def test_an_id_that_comes_twice_in_a_file_is_omitted(write, tmp_path: Path, splitter) -> None:
    write(DEV, [record(1), record(1, question="Another?")])
    loaded = load(tmp_path, splitter)
    assert [question.text for question in loaded.questions] == [record()["question"]]
    assert loaded.why_omitted() == {"its id came before in the same file": 1}
    assert loaded.n_total == 2


def test_the_same_questions_in_another_form_are_not_counted_again(
    write, tmp_path: Path, splitter
) -> None:
    write(DEV, [record(1)])
    write(WIKI, [record(1, context=[["Beta", ["B."]]])])
    loaded = load(tmp_path, splitter)
    assert (len(loaded.questions), loaded.n_total, loaded.omitted) == (1, 1, ())
    assert any(WIKI in note and "not counted again (1)" in note for note in loaded.notes)
    assert "Beta" in {item.title for item in loaded.items()}


@pytest.mark.parametrize("field", ["_id", "question", "answer", "type", "context"])
def test_a_missing_field_is_named_with_file_and_record(
    write, tmp_path: Path, splitter, field: str
) -> None:
    broken = record(2)
    del broken[field]
    write(DEV, [record(1), broken])
    with pytest.raises(DataError, match=rf"{DEV} \(record 2\): the field '{field}' is missing"):
        load(tmp_path, splitter)


@pytest.mark.parametrize(
    "changes",
    [{"context": [["Ánna", "no list"]]}, {"supporting_facts": [["Ánna"]]}, {"context": "["}],
)
def test_a_field_of_another_shape_is_named(write, tmp_path: Path, splitter, changes) -> None:
    write(DEV, [record(**changes)])
    with pytest.raises(DataError, match=rf"record 1\).*'{next(iter(changes))}'"):
        load(tmp_path, splitter)


def test_a_truncated_file_is_told(write, tmp_path: Path, splitter) -> None:
    path = write(DEV, [record(1), record(2)])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=rf"{DEV} \(record 2, character \d+\).*incomplete"):
        load(tmp_path, splitter)


def test_a_folder_without_its_files_lists_what_is_expected(tmp_path: Path, splitter) -> None:
    with pytest.raises(DataError, match=rf"no file of hotpotqa.*{DEV}.*{WIKI}.*hotpot_train"):
        load(tmp_path, splitter)
