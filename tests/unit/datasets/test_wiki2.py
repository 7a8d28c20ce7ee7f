from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import TextPayload
from canopy_rag.datasets.wiki2 import load


def record(**changes: Any) -> dict[str, Any]:
    return {
        "_id": "w1",
        "type": "bridge_comparison",
        "question": "Which film has the director born first?",
        "context": [
            ["Alpha Film", ["Alpha Film is a 1950 film.", "It was directed by Ann."]],
            ["Ann", ["Ann (born 1901) directed."]],
        ],
        "supporting_facts": [["Alpha Film", 1], ["Ann", 0]],
        "evidences": [],
        "answer": "Alpha Film",
        "answer_id": "Q1",
    } | changes


def test_sentences_are_joined_by_a_space(write, tmp_path: Path, splitter, shown) -> None:
    write("dev.json", [record()])
    loaded = load(tmp_path, splitter)
    (question,) = loaded.questions
    assert shown(loaded, question) == ["It was directed by Ann.", "Ann (born 1901) directed."]
    payload = next(loaded.items()).payload
    assert isinstance(payload, TextPayload)
    assert payload.text == "Alpha Film is a 1950 film. It was directed by Ann."


def test_lists_may_be_json_texts(write, tmp_path: Path, splitter, shown) -> None:
    packed = {name: json.dumps(record()[name]) for name in ("context", "supporting_facts")}
    write("dev.json", [record(**packed)])
    loaded = load(tmp_path, splitter)
    assert shown(loaded, loaded.questions[0]) == [
        "It was directed by Ann.",
        "Ann (born 1901) directed.",
    ]


def test_the_pool_joins_without_repeating_a_paragraph(write, tmp_path: Path, splitter) -> None:
    write("dev.json", [record()])
    pool = [
        {"title": "Ann", "text": "Ann (born 1901) directed."},
        {"title": "Beta", "text": "Beta is long. It has two sentences."},
        {"title": "Beta", "text": " "},
    ]
    write("2wikimultihopqa_corpus.json", pool)
    items = list(load(tmp_path, splitter).items())
    assert [item.title for item in items] == ["Alpha Film", "Ann", "Beta"]
    assert len(items[-1].nodes) == 3


def test_aliases_of_the_answer_are_accepted_where_their_file_is(
    write, tmp_path: Path, splitter
) -> None:
    write("dev.json", [record(), record(_id="w2", answer_id=None)])
    assert load(tmp_path, splitter).notes == (
        "id_aliases.json is missing: only the answer itself is accepted",
    )
    write(
        "id_aliases.json",
        '{"Q_id": "Q1", "aliases": ["Alpha", "Alpha Film"], "demonyms": []}\n'
        '{"Q_id": "Q2", "aliases": ["Else"], "demonyms": ["Elsish"]}\n',
    )
    loaded = load(tmp_path, splitter)
    assert [question.answers for question in loaded.questions] == [
        ("Alpha Film", "Alpha"),
        ("Alpha Film",),
    ]
    assert loaded.notes == ()


def test_a_pool_alone_is_no_benchmark(write, tmp_path: Path, splitter) -> None:
    write("2wikimultihopqa_corpus.json", [])
    with pytest.raises(DataError, match=r"dev\.json, train\.json"):
        load(tmp_path, splitter)
