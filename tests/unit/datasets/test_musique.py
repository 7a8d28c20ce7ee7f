from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.datasets.musique import load

TRAIN, FULL = "musique_ans_v1.0_train.jsonl", "musique_full_v1.0_train.jsonl"


def record(**changes: Any) -> dict[str, Any]:
    return {
        "id": "3hop1__1_2_3",
        "question": "Who rules the city where the singer of Alpha was born?",
        "answer": "Mayor Bo",
        "answer_aliases": ["Bo", "Mayor Bo"],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Alpha", "paragraph_text": "Alpha. Ann sang it; ANN won.", "x": 1},
            {"idx": 1, "title": "Ann", "paragraph_text": "Annika was born in Łódź.", "x": 1},
            {"idx": 2, "title": "Łódź", "paragraph_text": "It has a mayor.\nMayor  Bo it is."},
            {"idx": 3, "title": "Blank", "paragraph_text": " "},
        ],
        "question_decomposition": [
            {"id": 1, "question": "Alpha >> singer", "answer": "Ann", "paragraph_support_idx": 0},
            {
                "id": 2,
                "question": "Where was #1 born?",
                "answer": "Lodz",
                "paragraph_support_idx": 1,
            },
            {
                "id": 3,
                "question": "Who rules #2, the town of #1?",
                "answer": "mayor bo",
                "paragraph_support_idx": 2,
            },
        ],
    } | changes


def test_gold_is_where_the_answers_of_hops_stand(write, tmp_path: Path, splitter, shown) -> None:
    write(TRAIN, [record()])
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert shown(loaded, question) == ["Ann", "ANN", "Mayor  Bo"]
    assert [span.hop for span in question.gold] == [0, 0, 2]
    assert question.contexts == ("Alpha", "Łódź")
    assert question.answers == ("Mayor Bo", "Bo")
    assert question.kind == "3hop1"
    assert len(list(loaded.items())) == 3


def test_the_decomposition_gives_the_queries_of_the_later_rounds(
    write, tmp_path: Path, splitter
) -> None:
    write(TRAIN, [record()])
    assert load(tmp_path, splitter).questions[0].follow_ups == (
        "Where was Ann born?",
        "Who rules Lodz, the town of Ann?",
    )


def test_a_question_without_a_literal_hop_is_omitted(write, tmp_path: Path, splitter) -> None:
    hops = [
        {"id": 1, "question": "?", "answer": "Zed", "paragraph_support_idx": 0},
        {"id": 2, "question": "?", "answer": "Ann", "paragraph_support_idx": None},
        {"id": 3, "question": "?", "answer": "Ann", "paragraph_support_idx": 7},
    ]
    write(TRAIN, [record(question_decomposition=hops)])
    loaded = load(tmp_path, splitter)
    assert loaded.questions == ()
    assert loaded.why_omitted() == {"no hop's answer stands in its paragraph": 1}


def test_unanswerable_twins_are_omitted_and_counted(write, tmp_path: Path, splitter) -> None:
    write(FULL, [record(), record(answerable=False)])
    loaded = load(tmp_path, splitter)
    assert (len(loaded.questions), loaded.n_total) == (1, 2)
    assert loaded.why_omitted() == {"it is not answerable from its paragraphs": 1}


def test_a_missing_field_is_named_with_its_place(write, tmp_path: Path, splitter) -> None:
    broken = record()
    del broken["question_decomposition"][1]["answer"]
    write(TRAIN, [record(id="2hop__a"), broken])
    message = rf"{TRAIN} \(line 2, question_decomposition 2\): the field 'answer' is missing"
    with pytest.raises(DataError, match=message):
        load(tmp_path, splitter)


def test_a_folder_without_its_files_lists_what_is_expected(tmp_path: Path, splitter) -> None:
    with pytest.raises(DataError, match=rf"no file of musique.*{TRAIN}"):
        load(tmp_path, splitter)
