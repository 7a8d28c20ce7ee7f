from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.checking import check
from canopy_rag.datasets.mmqa import (
    BENCHMARK,
    NO_CELL,
    NO_IMAGE,
    NO_SUPPORT,
    NO_TABLE,
    NO_TEXT,
    RARE,
)
from canopy_rag.text import DefaultSplitter

TEXT = "Größe zählt. Alpha Film is a 1950 film. Ann Alpha directed it in 1950."
TABLE = {
    "title": "Ann Alpha",
    "url": "u",
    "id": "tab1",
    "table": {
        "table_name": "Filmography",
        "header": [{"column_name": "Year", "metadata": {}}, {"column_name": "Title"}],
        "table_rows": [
            [{"text": "1950", "links": []}, {"text": "Alpha Film", "links": []}],
            [{"text": "1952", "links": []}, {"text": "Beta Film", "links": []}],
        ],
    },
}
TEXTS = [
    {"title": "Alpha Film", "url": "u", "id": "té1", "text": TEXT},
    {"title": "Distractor", "url": "u", "id": "t2", "text": "Nothing here."},
    {"title": "Nobody asks", "url": "u", "id": "t3", "text": "Nor here."},
]
IMAGES = [
    {"title": "Poster", "url": "u", "id": "i1", "path": "i1.png"},
    {"title": "Gone", "url": "u", "id": "i2", "path": "i2.png"},
    {"title": "Broken", "url": "u", "id": "i3", "path": "i3.svg"},
]


def answer(text: Any, **fields: Any) -> dict[str, Any]:
    return {
        "answer": text,
        "type": "string",
        "modality": "text",
        "text_instances": [],
        "table_indices": [],
        "image_instances": [],
        **fields,
    }


def asked(
    qid: str,
    answers: list[dict[str, Any]],
    support: list[tuple[str, str]],
    *,
    kind: str = "TextQ",
    intermediate: list[list[dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    return {
        "qid": qid,
        "question": f"What of {qid}?",
        "answers": answers,
        "metadata": {
            "type": kind,
            "modalities": ["text"],
            "image_doc_ids": ["i1", "i2", "i3"],
            "text_doc_ids": ["té1", "t2"],
            "table_id": "tab1",
            "intermediate_answers": intermediate or [],
        },
        "supporting_context": [{"doc_id": doc, "doc_part": part} for doc, part in support],
    }


def lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def write(folder: Path, *questions: dict[str, Any], without: tuple[str, ...] = ()) -> Path:
    data = folder / "dataset"
    data.mkdir(parents=True, exist_ok=True)
    (data / "MMQA_dev.jsonl").write_text(lines(list(questions)), encoding="utf-8")
    for name, records in (("tables", [TABLE]), ("texts", TEXTS), ("images", IMAGES)):
        if name not in without:
            with gzip.open(data / f"MMQA_{name}.jsonl.gz", "wt", encoding="utf-8") as file:
                file.write(lines(records))
    if "pictures" not in without:
        image = pytest.importorskip("PIL.Image")
        (folder / "final_dataset_images").mkdir()
        image.new("RGB", (40, 30)).save(folder / "final_dataset_images" / "i1.png")
        (folder / "final_dataset_images" / "i3.svg").write_text("<svg/>")
    return folder


def load(folder: Path) -> Loaded:
    return BENCHMARK.load(folder, DefaultSplitter())


def gold_texts(loaded: Loaded) -> list[str]:
    """Return what the first question's gold says."""
    items: dict[str, Item] = {item.id: item for item in loaded.items()}
    texts = []
    for span in loaded.questions[0].gold:
        item = items[span.item_id]
        start, stop = int(span.start), int(span.stop)
        if item.modality == "table":
            texts += [row[span.column or 0] for row in item.payload.rows[start:stop]]
        elif item.modality == "text":
            texts.append(item.payload.text[start:stop])
        else:
            texts.append(item.title)
    return texts


def test_cells_of_final_and_intermediate_answers_are_gold(tmp_path: Path) -> None:
    bridge = answer("Alpha Film", table_indices=[[0, 1]], modality="table")
    final = answer("1952", table_indices=[[1, 0]], modality="table")
    question = asked("q", [final], [("tab1", "table")], kind="TableQ", intermediate=[[bridge]])
    loaded = load(write(tmp_path, question, without=("pictures",)))
    assert gold_texts(loaded) == ["1952", "Alpha Film"]
    assert loaded.questions[0].contexts == ("tab1",)


@pytest.mark.parametrize("offset", [TEXT.index("1950"), TEXT.encode().index(b"1950"), 3])
def test_an_answer_is_found_by_characters_bytes_or_words(tmp_path: Path, offset: int) -> None:
    place = {"doc_id": "té1", "part": "text", "start_byte": offset, "text": "1950"}
    question = asked("q", [answer("1950", text_instances=[place])], [("té1", "text")])
    loaded = load(write(tmp_path, question, without=("pictures",)))
    first = TEXT.index("1950")
    spans = [int(span.start) for span in loaded.questions[0].gold]
    assert spans == ([first] if offset != 3 else [first, TEXT.rindex("1950")])
    assert set(gold_texts(loaded)) == {"1950"}


def test_a_text_without_a_marked_place_is_searched_for_the_answers(tmp_path: Path) -> None:
    bridge = answer("Ann Alpha")
    question = asked("q", [answer("1899")], [("té1", "text")], intermediate=[[bridge]])
    assert gold_texts(load(write(tmp_path, question, without=("pictures",)))) == ["Ann Alpha"]


def test_yes_and_no_have_a_text_but_no_place_in_it(tmp_path: Path) -> None:
    place = {"doc_id": "té1", "part": "text"}
    yes = answer("yes", type="yesno", text_instances=[place])
    loaded = load(write(tmp_path, asked("q", [yes], [("té1", "text")]), without=("pictures",)))
    (span,) = loaded.questions[0].gold
    assert (span.start, span.stop) == (0, 0)
    assert not check(loaded).problems


def test_an_image_is_gold_as_a_whole(tmp_path: Path) -> None:
    question = asked("q", [answer("red", modality="image")], [("i1", "image")], kind="ImageQ")
    loaded = load(write(tmp_path, question))
    (span,) = loaded.questions[0].gold
    assert (span.start, span.stop) == (0, 1)
    image = next(item for item in loaded.items() if item.modality == "image")
    assert (image.title, image.payload.width, image.payload.height) == ("Poster", 40, 30)
    assert Path(image.payload.media).is_file()


def test_items_are_the_documents_that_questions_name(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, asked("q", [answer("1950")], [("té1", "text")])))
    assert [item.title for item in loaded.items()] == [
        "Ann Alpha",
        "Alpha Film",
        "Distractor",
        "Poster",
    ]
    table = next(loaded.items())
    assert table.section == ("Filmography",)
    assert table.payload.header == ("Year", "Title")
    assert "1 image files are not in final_dataset_images" in loaded.notes
    assert "1 images cannot be read, such as i3.svg" in loaded.notes[1]


def test_all_answers_of_a_list_are_one_reference(tmp_path: Path) -> None:
    question = asked("q", [answer("1950"), answer(7, type="number")], [("té1", "text")])
    assert load(write(tmp_path, question, without=("pictures",))).questions[0].answers == (
        "1950",
        "7",
    )


@pytest.mark.parametrize(
    ("question", "without", "reason"),
    [
        (asked("q", [answer("x")], [("tab1", "table")]), ("tables",), NO_TABLE),
        (asked("q", [answer("x")], [("té1", "text")]), ("texts",), NO_TEXT),
        (asked("q", [answer("x")], [("i1", "image")]), ("images",), NO_IMAGE),
        (asked("q", [answer("x")], [("i2", "image")]), (), NO_IMAGE),
        (asked("q", [answer("x")], [("i3", "image")]), (), NO_IMAGE),
        (asked("q", [answer("x")], []), (), NO_SUPPORT),
        (asked("q", [answer("x", table_indices=[[9, 0]])], [("tab1", "table")]), (), NO_CELL),
        (
            asked("q", [answer("x")], [("té1", "text")], kind="Intersect(ImageListQ,TextQ)"),
            (),
            RARE,
        ),
    ],
)
def test_a_question_that_cannot_be_used_is_omitted(
    tmp_path: Path, question: dict[str, Any], without: tuple[str, ...], reason: str
) -> None:
    loaded = load(write(tmp_path, question, without=without))
    assert loaded.why_omitted() == {reason: 1}
    assert loaded.n_total == 1


def test_files_that_are_missing_are_noted(tmp_path: Path) -> None:
    question = asked("q", [answer("x")], [("té1", "text")])
    loaded = load(write(tmp_path, question, without=("tables", "texts", "pictures")))
    assert [note.partition(" ")[0] for note in loaded.notes] == [
        "MMQA_tables.jsonl",
        "MMQA_texts.jsonl",
        "3",
    ]
    assert list(loaded.items()) == []


def test_a_repeated_id_is_counted(tmp_path: Path) -> None:
    question = asked("q", [answer("1950")], [("té1", "text")])
    loaded = load(write(tmp_path, question, question, without=("pictures",)))
    assert (len(loaded.questions), loaded.n_total) == (1, 2)


def test_the_dataset_folder_itself_can_be_given(tmp_path: Path) -> None:
    write(tmp_path, asked("q", [answer("1950")], [("té1", "text")]), without=("pictures",))
    assert len(load(tmp_path / "dataset").questions) == 1


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (answer(["1950"]), "text or a number"),
        (answer("1950", table_indices=[1]), r"\[row, column\]"),
        (answer("x", text_instances=[{"doc_id": "té1", "text": "x"}]), "'start_byte' is missing"),
    ],
)
def test_a_malformed_answer_is_named_with_file_and_line(
    tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    fine = asked("a", [answer("1950")], [("té1", "text")])
    question = asked("q", [broken], [("té1", "text")])
    with pytest.raises(DataError, match=rf"MMQA_dev\.jsonl \(line 2, answers 1.*{reason}"):
        load(write(tmp_path, fine, question, without=("pictures",)))


def test_a_malformed_table_is_named(tmp_path: Path) -> None:
    write(tmp_path, asked("q", [answer("x")], [("tab1", "table")]), without=("tables", "pictures"))
    broken = {**TABLE, "table": {**TABLE["table"], "table_rows": [["1950"]]}}
    (tmp_path / "dataset" / "MMQA_tables.jsonl").write_text(json.dumps(broken))
    with pytest.raises(DataError, match=r"MMQA_tables\.jsonl \(line 1, table\).*'table_rows'"):
        load(tmp_path)


def test_a_truncated_line_is_named(tmp_path: Path) -> None:
    write(tmp_path, asked("q", [answer("x")], [("té1", "text")]), without=("pictures",))
    path = tmp_path / "dataset" / "MMQA_dev.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"MMQA_dev\.jsonl \(line 1"):
        load(tmp_path)


def test_an_empty_folder_lists_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dataset/MMQA_dev\.jsonl"):
        load(tmp_path)


@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_sample_has_its_questions_of_sixteen_types() -> None:
    loaded = load(Path(os.environ["CANOPY_DATA"]) / "mmqa")
    assert loaded.n_total == 2441
    assert loaded.why_omitted()[RARE] == 18
    assert len(BENCHMARK.kinds) == 14
