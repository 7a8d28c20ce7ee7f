from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.checking import check
from canopy_rag.datasets.ottqa import BENCHMARK, NO_NODE, NO_TABLE, has_clear_rows
from canopy_rag.text import DefaultSplitter

TABLE_ID = 'Côte_d\'Ivoire,_"Les_Éléphants"_0'
TABLE = {
    "url": "https://en.wikipedia.org/wiki/X",
    "title": "Les Éléphants",
    "header": [["Year", []], ["Player", []]],
    "data": [
        [["1990", []], ["Ann Alpha", ["/wiki/Ann_Alpha"]]],
        [["1992", []], ["Bob", ["/wiki/Bob_(player)"]]],
        [["1994", []], ["Ann Alpha", ["/wiki/Ann_Alpha"]]],
    ],
    "section_title": "Squad -- Forwards",
    "section_text": "",
    "uid": TABLE_ID,
    "intro": "",
}
PASSAGES = {
    "/wiki/Ann_Alpha": "Ann Alpha ( born 3 May 1970 ) is a player . She lives in Zürich .",
    "/wiki/Bob_(player)": "Bob was born in 1970 . Bob sings .",
}
PASSAGE_NODE = ["Bob", [1, 1], "/wiki/Bob_(player)", "passage"]


def asked(question_id: str, answer: str, *nodes: Any, table_id: str = TABLE_ID) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "question": f"Question {question_id} ?",
        "table_id": table_id,
        "answer-text": answer,
        "question_postag": "",
        "answer-node": list(nodes),
    }


def layout(*questions: dict[str, Any], tables: dict[str, Any] | None = None) -> dict[str, str]:
    files = {"released_data/dev.traced.json": json.dumps(list(questions))}
    for name, table in ({TABLE_ID: TABLE} if tables is None else tables).items():
        files[f"data/traindev_tables_tok/{name}.json"] = json.dumps(table)
        files[f"data/traindev_request_tok/{name}.json"] = json.dumps(PASSAGES)
    return files


def unpacked(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def packed(folder: Path, files: dict[str, str]) -> Path:
    with tarfile.open(folder / "dev.tar.xz", "w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return folder


def load(folder: Path) -> Loaded:
    return BENCHMARK.load(folder, DefaultSplitter())


def items_of(loaded: Loaded) -> dict[str, Item]:
    return {item.id: item for item in loaded.items()}


def test_an_answer_in_a_passage_makes_the_linking_row_and_the_answer_gold(tmp_path: Path) -> None:
    loaded = load(unpacked(tmp_path, layout(asked("q", "1970", PASSAGE_NODE))))
    (question,) = loaded.questions
    items = items_of(loaded)
    row, answer = question.gold
    assert (row.start, row.stop, row.column, row.hop) == (1, 2, 1, 0)
    assert items[row.item_id].payload.rows[1] == ("1992", "Bob")
    passage = items[answer.item_id].payload.text
    assert passage[int(answer.start) : int(answer.stop)] == "1970"
    assert (answer.column, answer.hop) == (None, 1)
    assert question.kind == "passage"
    assert question.contexts == (TABLE_ID, "/wiki/Bob_(player)")


def test_an_answer_in_a_cell_makes_its_row_gold(tmp_path: Path) -> None:
    node = ["Ann Alpha", [2, 1], None, "table"]
    (question,) = load(unpacked(tmp_path, layout(asked("q", "Ann Alpha", node)))).questions
    (gold,) = question.gold
    assert (gold.start, gold.stop, gold.column, gold.hop) == (2, 3, 1, None)
    assert question.kind == "table"


def test_nodes_of_both_sources_make_the_kind_both(tmp_path: Path) -> None:
    nodes = (["Bob", [1, 1], None, "table"], PASSAGE_NODE)
    (question,) = load(unpacked(tmp_path, layout(asked("q", "Bob", *nodes)))).questions
    assert question.kind == "both"


def test_a_table_keeps_its_header_title_and_headings(tmp_path: Path) -> None:
    loaded = load(unpacked(tmp_path, layout(asked("q", "1970", PASSAGE_NODE))))
    (table,) = [item for item in loaded.items() if item.modality == "table"]
    assert table.title == "Les Éléphants"
    assert table.section == ("Squad", "Forwards")
    assert table.payload.header == ("Year", "Player")


def test_tokenised_passages_split_into_their_sentences(tmp_path: Path) -> None:
    loaded = load(unpacked(tmp_path, layout(asked("q", "1970", PASSAGE_NODE))))
    ann = next(item for item in loaded.items() if item.title == "Ann Alpha")
    ends = [node for node in ann.nodes if not node.children]
    assert [ann.payload.text[int(n.start) : int(n.stop)] for n in ends] == [
        "Ann Alpha ( born 3 May 1970 ) is a player .",
        "She lives in Zürich .",
    ]


def test_a_passage_of_several_tables_is_one_item(tmp_path: Path) -> None:
    tables = {TABLE_ID: TABLE, "Other_1": TABLE}
    questions = [asked("a", "1970", PASSAGE_NODE)]
    questions.append(asked("b", "1970", PASSAGE_NODE, table_id="Other_1"))
    loaded = load(unpacked(tmp_path, layout(*questions, tables=tables)))
    assert sorted(item.modality for item in loaded.items()) == ["table", "table", "text", "text"]
    assert not check(loaded).problems


def test_tables_of_the_part_without_a_question_are_items_too(tmp_path: Path) -> None:
    files = layout(asked("q", "1970", PASSAGE_NODE), tables={TABLE_ID: TABLE, "Other_1": TABLE})
    ids = {"train": [], "dev": ["Other_1", TABLE_ID, "Gone_2"], "test": []}
    files["released_data/train_dev_test_table_ids.json"] = json.dumps(ids)
    loaded = load(unpacked(tmp_path, files))
    assert sum(item.modality == "table" for item in loaded.items()) == 2
    assert loaded.notes == ("1 tables have no file, such as 'Gone_2'",)


def test_an_archive_is_read_like_a_folder(tmp_path: Path) -> None:
    files = layout(asked("q", "1970", PASSAGE_NODE))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    left, right = load(packed(tmp_path / "a", files)), load(unpacked(tmp_path / "b", files))
    assert left.questions == right.questions
    assert list(left.items()) == list(right.items())


def test_questions_of_an_archive_are_not_counted_again_in_the_folder(tmp_path: Path) -> None:
    first, second = asked("a", "1970", PASSAGE_NODE), asked("b", "1970", PASSAGE_NODE)
    packed(tmp_path, layout(first, second))
    loaded = load(unpacked(tmp_path, layout(first)))
    assert loaded.n_total == 2
    assert [question.id for question in loaded.questions] == ["a", "b"]
    assert "another file" in loaded.notes[-1]


def test_a_question_without_its_table_is_omitted(tmp_path: Path) -> None:
    strange = asked("q", "1970", PASSAGE_NODE, table_id="../../dev")
    loaded = load(unpacked(tmp_path, layout(strange)))
    assert loaded.why_omitted() == {NO_TABLE: 1}


@pytest.mark.parametrize(
    "node",
    [
        ["Bob", [9, 1], "/wiki/Bob_(player)", "passage"],
        ["Bob", [1, 9], None, "table"],
        ["Bob", [-1, 0], None, "table"],
        ["Bob", [1, 1], "/wiki/Nobody", "passage"],
        ["Ann Alpha", [0, 1], None, "table"],
    ],
)
def test_a_node_that_points_nowhere_is_no_gold(tmp_path: Path, node: list[Any]) -> None:
    loaded = load(unpacked(tmp_path, layout(asked("q", "1970", node))))
    assert loaded.why_omitted() == {NO_NODE: 1}
    loaded = load(unpacked(tmp_path, layout(asked("q", "1970", node, PASSAGE_NODE))))
    assert len(loaded.questions[0].gold) == 2


def test_rows_are_clear_while_few_are_gold(tmp_path: Path) -> None:
    nodes = [["Ann Alpha", [row, 1], "/wiki/Ann_Alpha", "passage"] for row in (0, 2)]
    two = asked("two", "1970", *nodes)
    three = asked("three", "1970", *nodes, PASSAGE_NODE)
    questions = load(unpacked(tmp_path, layout(two, three))).questions
    assert [has_clear_rows(question) for question in questions] == [True, False]
    assert has_clear_rows(questions[1], most=3)


def test_an_empty_folder_lists_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"released_data/dev\.traced\.json"):
        load(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        load(tmp_path / "nowhere")


def test_a_missing_field_is_named_with_file_and_record(tmp_path: Path) -> None:
    question = asked("q", "1970", PASSAGE_NODE)
    del question["answer-text"]
    with pytest.raises(DataError, match=r"dev\.traced\.json \(record 1\).*'answer-text'"):
        load(unpacked(tmp_path, layout(question)))


def test_a_malformed_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"record 1.*answer-node"):
        load(unpacked(tmp_path, layout(asked("q", "1970", ["Bob", 1, None, "table"]))))


def test_a_malformed_cell_is_named_with_its_file(tmp_path: Path) -> None:
    table = {**TABLE, "data": [["1990", "Ann"]]}
    files = layout(asked("q", "1970", PASSAGE_NODE), tables={TABLE_ID: table})
    with pytest.raises(DataError, match=r"Ivoire.*each cell must be"):
        load(unpacked(tmp_path, files))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    files = layout(asked("q", "1970", PASSAGE_NODE))
    name = "released_data/dev.traced.json"
    with pytest.raises(DataError, match=r"dev\.traced\.json \(record 1"):
        load(unpacked(tmp_path, {**files, name: files[name][:-30]}))


def test_truncated_json_in_an_archive_is_named_with_the_archive(tmp_path: Path) -> None:
    files = layout(asked("q", "1970", PASSAGE_NODE))
    name = "released_data/dev.traced.json"
    with pytest.raises(DataError, match=r"dev\.tar\.xz, released_data/dev\.traced\.json"):
        load(packed(tmp_path, {**files, name: files[name][:-30]}))


@pytest.mark.parametrize(("text", "reason"), [("{}", "JSON array"), ("[1]", "record 1")])
def test_an_archive_with_something_else_is_named(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load(packed(tmp_path, {"released_data/dev.traced.json": text}))


def test_a_table_file_with_something_else_is_named(tmp_path: Path) -> None:
    files = layout(asked("q", "1970", PASSAGE_NODE), tables={TABLE_ID: []})
    with pytest.raises(DataError, match=r"Ivoire.*must be a JSON object"):
        load(unpacked(tmp_path, files))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    packed(tmp_path, layout(asked("q", "1970", PASSAGE_NODE)))
    path = tmp_path / "dev.tar.xz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"dev\.tar\.xz: the archive is incomplete or damaged"):
        load(tmp_path)


def test_a_repeated_id_is_counted(tmp_path: Path) -> None:
    question = asked("q", "1970", PASSAGE_NODE)
    loaded = load(unpacked(tmp_path, layout(question, question)))
    assert (len(loaded.questions), loaded.n_total) == (1, 2)
    assert len(loaded.omitted) == 1


def test_a_table_without_its_passages_is_still_an_item(tmp_path: Path) -> None:
    files = layout(asked("q", "1992", ["1992", [1, 0], None, "table"]))
    del files[f"data/traindev_request_tok/{TABLE_ID}.json"]
    loaded = load(unpacked(tmp_path, files))
    assert len(loaded.questions) == len(list(loaded.items())) == 1
    assert loaded.notes == (f"1 tables have no passages, such as {TABLE_ID!r}",)


@pytest.mark.slow
@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_sample_has_its_questions_and_items() -> None:
    loaded = load(Path(os.environ["CANOPY_DATA"]) / "ottqa")
    assert (len(loaded.questions), loaded.n_total) == (1649, 1649)
    checked = check(loaded)
    assert checked.problems == ()
    assert checked.n_items == {"table": 592, "text": 13457}
