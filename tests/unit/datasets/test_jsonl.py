from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import ImagePayload, TablePayload, VideoPayload
from canopy_rag.datasets.jsonl import load

TEXT = {"id": "t", "title": "Alpha", "section": ["A"], "text": "Ann made it.\n\nIn Łódź. It sold."}
TABLE = {
    "id": 2,
    "title": "Sales",
    "table": {"header": ["Year", "Sold"], "rows": [["1950", 4], ["1951"], ["1952", None]]},
}


def ask(**changes: Any) -> dict[str, Any]:
    return {"id": "q", "question": "Who?", "answers": ["Ann"], "gold": [{"item": "t"}]} | changes


def reading(write, tmp_path: Path, splitter, *lines: dict[str, Any]):
    write("data.jsonl", [TEXT, TABLE, *lines])
    return load(tmp_path, splitter)


def test_gold_may_be_an_interval_a_quote_or_the_whole_item(
    write, tmp_path: Path, splitter, shown
) -> None:
    gold = [
        {"item": "t", "start": 0, "stop": 3, "hop": 0},
        {"item": "t", "quote": "in łódź"},
        {"item": 2, "quote": "1951", "hop": 1},
        {"item": 2, "start": 0, "stop": 1, "column": 1},
        {"item": "2", "start": 1, "stop": 3},
    ]
    loaded = reading(write, tmp_path, splitter, ask(gold=gold), ask(id="whole"))
    asked, whole = loaded.questions
    assert shown(loaded, asked) == ["Ann", "In Łódź", "1951", "4", "1951; "]
    assert [span.hop for span in asked.gold] == [0, None, 1, None, None]
    assert [span.column for span in asked.gold] == [None, None, 0, 1, None]
    assert shown(loaded, whole) == [TEXT["text"]]


def test_a_question_keeps_all_that_is_said_of_it(write, tmp_path: Path, splitter) -> None:
    said = {
        "kind": "hard",
        "options": ["a", "b"],
        "scale": "million",
        "follow_ups": ["And then?"],
        "contexts": ["page 3"],
    }
    full, bare = reading(write, tmp_path, splitter, ask(**said), ask(id=7)).questions
    assert (full.kind, full.options, full.scale) == ("hard", ("a", "b"), "million")
    assert (full.follow_ups, full.contexts) == (("And then?",), ("page 3",))
    assert (bare.id, bare.kind, bare.contexts) == ("7", "", ("jsonl/t",))


def test_items_of_all_modalities_have_their_trees(write, tmp_path: Path, splitter, shown) -> None:
    image = {"id": "i", "image": {"path": "a/ä.png", "width": 3, "height": 2, "caption": "A cat"}}
    segments = [{"start": 0, "stop": 10, "frames": [5.0]}, {"start": 10, "stop": 12.5}]
    video = {"path": "v.mp4", "duration_s": 12.5, "width": 3, "height": 2, "segments": segments}
    gold = [{"item": "v", "start": 3, "stop": 4}, {"item": "i"}]
    lines = [image, {"id": "v", "video": video}, ask(gold=gold)]
    loaded = reading(write, tmp_path, splitter, *lines)
    items = {item.source.uri: item for item in loaded.items()}
    assert [(item.modality, len(item.nodes)) for item in items.values()] == [
        ("text", 5),
        ("table", 5),
        ("image", 1),
        ("video", 3),
    ]
    assert items["jsonl/t"].section == ("A",)
    table, picture = items["jsonl/2"].payload, items["jsonl/i"].payload
    assert isinstance(table, TablePayload)
    assert table.rows == (("1950", "4"), ("1951", ""), ("1952", ""))
    assert isinstance(picture, ImagePayload)
    assert picture.media == (tmp_path / "a/ä.png").as_posix()
    film = items["jsonl/v"].payload
    assert isinstance(film, VideoPayload)
    assert film.segments[0].frames == (5.0,)
    assert [(span.start, span.stop) for span in loaded.questions[0].gold] == [(3, 4), (0, 1)]


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ({"item": "nowhere"}, "its gold names an item that is not there"),
        ({"item": "t", "start": 5, "stop": 500}, "its gold lies outside the item"),
        ({"item": "t", "start": 5, "stop": 5}, "its gold lies outside the item"),
        ({"item": "t", "start": -1}, "its gold lies outside the item"),
        ({"item": "t", "quote": "Berta"}, "a quote of its gold is not in the item"),
        ({"item": 2, "quote": "195"}, "a quote of its gold is not in the item"),
    ],
)
def test_gold_that_points_nowhere_omits_the_question(
    write, tmp_path: Path, splitter, gold, reason: str
) -> None:
    loaded = reading(write, tmp_path, splitter, ask(gold=[{"item": "t"}, gold]), ask(id="good"))
    assert [question.id for question in loaded.questions] == ["good"]
    assert loaded.why_omitted() == {reason: 1}


def test_questions_without_gold_are_kept_and_noted(write, tmp_path: Path, splitter) -> None:
    loaded = reading(write, tmp_path, splitter, ask(gold=[]), ask(id="n", gold=None), ask(id="g"))
    assert [len(question.gold) for question in loaded.questions] == [0, 0, 1]
    assert loaded.notes == (
        "questions without gold can be judged by their answers, not by their evidence (2)",
    )


def test_a_question_whose_id_came_before_is_omitted(write, tmp_path: Path, splitter) -> None:
    loaded = reading(write, tmp_path, splitter, ask(), ask(question="Another?"))
    assert [question.text for question in loaded.questions] == ["Who?"]
    assert loaded.why_omitted() == {"its id came before in the same file": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (TEXT, r"line 3\): the id 't' came before"),
        ({"id": "x"}, r"line 3\): needs exactly one of text, table, image, video; it has none"),
        ({"id": "x", "text": "a", "table": {}}, "it has 'text' and 'table'"),
        ({"text": "a"}, r"line 3\): the field 'id' is missing"),
        ({"id": "", "text": "a"}, "the field 'id' is empty"),
        ({"id": "x", "text": " "}, "the field 'text' is empty"),
        ({"id": "x", "table": {"rows": ["a"]}}, r"line 3, table\): a row must be a list"),
        ({"id": "x", "table": {"rows": [[{}]]}}, "a cell must be a text or number"),
        ({"id": "x", "table": {"rows": []}}, "the table is empty"),
        ({"id": "x", "image": {"path": "a"}}, r"line 3, image\): the field 'width' is missing"),
        ({"question": "?", "answers": []}, "the field 'id' is missing"),
        ({"id": "x", "question": "?"}, "the field 'answers' is missing"),
        (ask(answers=[4]), "the field 'answers' must hold texts only, got 4"),
        (ask(gold=[{"quote": "Ann"}]), r"line 3, gold 1\): the field 'item' is missing"),
    ],
)
def test_a_line_of_another_form_is_named(write, tmp_path: Path, splitter, line, message) -> None:
    write("data.jsonl", [TEXT, ask(id="first"), line])
    with pytest.raises(DataError, match=message):
        list(load(tmp_path, splitter).items())


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([], "at least one segment"),
        ([{"start": 0, "stop": 0}], "in order, disjoint and not empty"),
        ([{"start": 5, "stop": 9}, {"start": 0, "stop": 5}], "in order, disjoint and not empty"),
    ],
)
def test_a_video_needs_segments_in_order(
    write, tmp_path: Path, splitter, segments, message: str
) -> None:
    video = {"path": "v", "duration_s": 9, "width": 1, "height": 1, "segments": segments}
    write("data.jsonl", [ask(gold=[{"item": "v"}]), {"id": "v", "video": video}])
    with pytest.raises(DataError, match=message):
        load(tmp_path, splitter)


def test_questions_and_items_may_be_in_files_of_their_own_or_one_file_be_named(
    write, tmp_path: Path, splitter
) -> None:
    write("a.jsonl", [ask()])
    write("b.jsonl.gz", [TEXT])
    assert len(load(tmp_path, splitter).questions) == 1
    alone = load(tmp_path / "a.jsonl", splitter)
    assert alone.why_omitted() == {"its gold names an item that is not there": 1}


def test_a_folder_without_questions_is_told(write, tmp_path: Path, splitter) -> None:
    with pytest.raises(DataError, match=r"no file of jsonl.*\*\.jsonl"):
        load(tmp_path, splitter)
    write("data.jsonl", [TEXT])
    with pytest.raises(DataError, match="a line that has 'question'"):
        load(tmp_path, splitter)


def test_the_example_of_the_documentation_is_read(write, tmp_path: Path, splitter, shown) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/datasets.md").read_text("utf-8")
    example = page.partition("```json\n")[2].partition("```")[0]
    write("data.jsonl", example)
    loaded = load(tmp_path, splitter)
    assert shown(loaded, loaded.questions[0]) == ["lit in 1863", "Ann"]
