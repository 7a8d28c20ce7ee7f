from __future__ import annotations

import json
from pathlib import Path

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.datasets import jsonl
from canopy_rag.datasets.flashrag import load
from canopy_rag.datasets.flashrag import write as write_flashrag

CORPUS = [
    {"id": "0", "contents": '"Evan Łódź"\nEvan was a lobbyist. He died.\n\nHe is missed.'},
    {"id": 1, "contents": "No title here"},
]
ASKED = {"id": "test_0", "question": "Who was Evan?", "golden_answers": ["a lobbyist"]}


def test_contents_are_a_title_and_a_text(write, tmp_path: Path, splitter) -> None:
    write("corpus.jsonl", CORPUS)
    write("test.jsonl", [ASKED | {"metadata": {}, "choices": ["a", "b"]}])
    loaded = load(tmp_path, splitter)
    titled, bare = loaded.items()
    assert (titled.title, bare.title) == ("Evan Łódź", "")
    assert (len(titled.nodes), titled.nodes[0].stop) == (
        5,
        len("Evan was a lobbyist. He died.") + 15,
    )
    (question,) = loaded.questions
    assert (question.answers, question.options) == (("a lobbyist",), ("a", "b"))
    assert loaded.notes == (
        "questions without gold can be judged by their answers, not by their evidence (1)",
    )


def test_what_is_written_is_read_back_with_its_gold(
    write_files, tmp_path: Path, splitter, shown
) -> None:
    loaded = jsonl.load(write_files, splitter)
    paths = write_flashrag(loaded, tmp_path / "out")
    assert [path.name for path in paths] == ["jsonl.jsonl", "jsonl_corpus.jsonl"]
    again = load(tmp_path / "out", splitter)
    before, after = loaded.questions[0], again.questions[0]
    assert shown(again, after) == ["Łódź", "Year: 1951; Sold: 5"]
    assert (after.id, after.text, after.answers) == (before.id, before.text, before.answers)
    assert (after.kind, after.contexts, after.options) == ("hard", before.contexts, ("a", "b"))
    assert (after.scale, after.follow_ups) == ("million", ("And?",))
    assert [span.hop for span in after.gold] == [0, None]
    assert [item.title for item in again.items()] == ["Two lines", "Sales"]


def test_what_is_written_has_the_fields_of_the_format(
    write_files, tmp_path: Path, splitter
) -> None:
    questions, corpus = write_flashrag(jsonl.load(write_files, splitter), tmp_path / "out")
    first = json.loads(questions.read_text("utf-8").splitlines()[0])
    assert {"id", "question", "golden_answers", "metadata", "choices"} == set(first)
    table = json.loads(corpus.read_text("utf-8").splitlines()[1])
    assert table["contents"] == '"Sales"\nYear: 1950; Sold: 4\nYear: 1951; Sold: 5'


@pytest.fixture
def write_files(write, tmp_path: Path) -> Path:
    """A folder of our own format with a text, a table and an image."""
    rows = {"header": ["Year", "Sold"], "rows": [["1950", "4"], ["1951", "5"]]}
    write(
        "in/data.jsonl",
        [
            {"id": "t", "title": "Two\nlines", "text": "Ann is\nin Łódź. So."},
            {"id": "s", "title": "Sales", "table": rows},
            {"id": "i", "image": {"path": "a.png", "width": 1, "height": 1}},
            {
                "id": "q",
                "question": "Where?",
                "answers": ["Łódź"],
                "kind": "hard",
                "options": ["a", "b"],
                "scale": "million",
                "follow_ups": ["And?"],
                "gold": [
                    {"item": "t", "quote": "Łódź", "hop": 0},
                    {"item": "s", "quote": "1951"},
                    {"item": "i"},
                ],
            },
        ],
    )
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ({"id": "9", "start": 0, "stop": 1}, "its gold names an item that is not there"),
        ({"id": "0", "start": 0, "stop": 999}, "its gold lies outside the item"),
    ],
)
def test_gold_that_points_nowhere_omits_the_question(
    write, tmp_path: Path, splitter, gold, reason: str
) -> None:
    write("corpus.jsonl", CORPUS)
    write("test.jsonl", [ASKED | {"metadata": {"canopy": {"gold": [gold]}}}])
    assert load(tmp_path, splitter).why_omitted() == {reason: 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": 1, "text": "a"}, r"line 1\): needs 'question' or 'contents'"),
        ({"id": 1, "question": "?"}, r"line 1\): the field 'golden_answers' is missing"),
    ],
)
def test_a_line_of_another_form_is_named(write, tmp_path: Path, splitter, line, message) -> None:
    write("test.jsonl", [line])
    with pytest.raises(DataError, match=message):
        load(tmp_path, splitter)
