from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import Item
from canopy_rag.datasets._tatqa_header import header_of, n_header_rows
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.checking import check
from canopy_rag.datasets.tatqa import BENCHMARK, NO_GOLD
from canopy_rag.text import DefaultSplitter

TABLE = [
    ["", "Years Ended", ""],
    ["", "2019", "2018"],
    ["Fixed Price", "$  1,452.4", "$  1,146.2"],
    ["Other", "44.1", "56.7"],
]
PARAGRAPHS = [
    "Note 3. Sales",
    "The following table shows sales by contract type:",
    "Sales grew. Other sales fell by 12.6 in 2019. They may grow again.",
]


def asked(uid: str, answer: Any, answer_type: str = "span", **fields: Any) -> dict[str, Any]:
    return {
        "uid": uid,
        "order": 1,
        "question": f"What of {uid}?",
        "answer": answer,
        "derivation": "",
        "answer_type": answer_type,
        "answer_from": "table-text",
        "rel_paragraphs": ["3"],
        "req_comparison": False,
        "scale": "million",
        **fields,
    }


def page(*questions: dict[str, Any], uid: str = "t", table: Any = TABLE) -> dict[str, Any]:
    paragraphs = [
        {"uid": f"{uid}-p{order}", "order": order, "text": text}
        for order, text in enumerate(PARAGRAPHS, start=1)
    ]
    return {
        "table": {"uid": uid, "table": table},
        "paragraphs": paragraphs,
        "questions": list(questions),
    }


def write(folder: Path, *pages: Any, name: str = "dataset_tagop/tatqa_dataset_dev.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(pages)), encoding="utf-8")
    return folder


def load(folder: Path) -> Loaded:
    return BENCHMARK.load(folder, DefaultSplitter())


def gold_texts(loaded: Loaded) -> list[list[str]]:
    """Return what each question's gold says: a cell, or words of a paragraph."""
    items: dict[str, Item] = {item.id: item for item in loaded.items()}
    found: list[list[str]] = []
    for question in loaded.questions:
        texts = []
        for span in question.gold:
            payload = items[span.item_id].payload
            start, stop = int(span.start), int(span.stop)
            if hasattr(payload, "rows"):
                texts += [row[span.column or 0] for row in payload.rows[start:stop]]
            else:
                texts.append(payload.text[start:stop])
        found.append(texts)
    return found


def test_cells_of_the_file_become_rows_below_the_header(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, page(asked("q", ["44.1"], mapping={"table": [[3, 1], [3, 2]]}))))
    assert [(span.start, span.stop) for span in loaded.questions[0].gold] == [(1, 2), (1, 2)]
    assert gold_texts(loaded) == [["44.1", "56.7"]]


def test_spans_of_the_file_become_characters_of_their_paragraph(tmp_path: Path) -> None:
    start = PARAGRAPHS[2].index("Other sales")
    mapping = {"table": [], "paragraph": {"3": [[start, start + 16]]}}
    loaded = load(write(tmp_path, page(asked("q", ["x"], mapping=mapping))))
    assert gold_texts(loaded) == [["Other sales fell"]]


def test_the_test_parts_mappings_are_read(tmp_path: Path) -> None:
    mappings = [{"table": [2, 1]}, {"paragraph_3": [0, 10]}]
    folder = write(
        tmp_path,
        page(asked("q", ["x"], mappings=mappings)),
        name="dataset_raw/tatqa_dataset_test_gold.json",
    )
    assert gold_texts(load(folder)) == [["$  1,452.4", "Sales grew"]]


def test_a_year_in_the_header_is_gold_without_a_row(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, page(asked("q", ["2019"], mapping={"table": [[1, 1]]}))))
    (span,) = loaded.questions[0].gold
    assert (span.start, span.stop, span.column) == (0, 0, 1)
    assert "1 questions ask for what stands in a table's header" in loaded.notes[0]
    assert not check(loaded).problems


def test_a_page_is_a_table_and_its_paragraphs(tmp_path: Path) -> None:
    table, heading, announcing, text = load(write(tmp_path, page())).items()
    assert table.payload.header == ("", "Years Ended 2019", "2018")
    assert table.payload.caption == PARAGRAPHS[1]
    assert len(table.payload.rows) == 2
    assert [item.title for item in (table, heading, announcing, text)] == [
        "Note 3. Sales",
        "",
        "Note 3. Sales",
        "Note 3. Sales",
    ]
    assert text.payload.text == PARAGRAPHS[2]
    assert len([node for node in text.nodes if not node.children]) == 3


def test_a_long_first_paragraph_is_no_title(tmp_path: Path) -> None:
    long = page()
    long["paragraphs"][0]["text"] = "Sales " * 30
    assert {item.title for item in load(write(tmp_path, long)).items()} == {""}


def test_answers_are_as_the_official_metric_reads_them(tmp_path: Path) -> None:
    mapping = {"table": [[2, 1]]}
    questions = [
        asked("a", ["44.1"], mapping=mapping),
        asked("b", ["x", "y"], "multi-span", mapping=mapping),
        asked("c", -12.5, "arithmetic", mapping=mapping),
        asked("d", "2", "count", mapping=mapping),
    ]
    loaded = load(write(tmp_path, page(*questions)))
    assert [question.answers for question in loaded.questions] == [
        ("44.1",),
        ("x", "y"),
        ("-12.5",),
        ("2",),
    ]
    assert [question.kind for question in loaded.questions] == [
        "span",
        "multi-span",
        "arithmetic",
        "count",
    ]
    assert {(question.scale, question.contexts) for question in loaded.questions} == {
        ("million", ("t",))
    }


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (asked("span in a cell", ["44.1"]), ["44.1"]),
        (asked("span in a paragraph", ["12.6"]), ["12.6"]),
        (asked("words", ["other:"]), ["Other", "Other"]),
        (
            asked("formula", 1402.3, "arithmetic", derivation="(1,452.4-44.1)"),
            ["$  1,452.4", "44.1"],
        ),
        (
            asked("count", "2", "count", derivation="Fixed Price##other"),
            ["Fixed Price", "Other", "Other"],
        ),
        (asked("text only", ["44.1", "12.6"], answer_from="text"), ["12.6"]),
    ],
    ids=lambda value: value["uid"] if isinstance(value, dict) else "",
)
def test_without_a_mapping_answers_and_operands_are_searched(
    tmp_path: Path, question: dict[str, Any], expected: list[str]
) -> None:
    folder = write(tmp_path, page(question), name="dataset_raw/tatqa_dataset_dev.json")
    loaded = load(folder)
    assert gold_texts(loaded) == [expected]
    assert "1 questions come from a file without gold places" in loaded.notes[0]


def test_the_file_with_gold_goes_before_the_one_without(tmp_path: Path) -> None:
    write(tmp_path, page(asked("q", ["44.1"])), name="dataset_raw/tatqa_dataset_dev.json")
    write(tmp_path, page(asked("q", ["44.1"], mapping={"table": [[2, 2]]})))
    loaded = load(tmp_path)
    assert gold_texts(loaded) == [["$  1,146.2"]]
    assert loaded.n_total == 1
    assert len(list(loaded.items())) == 4


@pytest.mark.parametrize(
    "mapping",
    [{"table": [[9, 0]]}, {"paragraph": {"9": [[0, 2]]}}, {"paragraph": {"3": [[5, 999]]}}],
)
def test_gold_that_points_nowhere_is_an_omission(tmp_path: Path, mapping: dict[str, Any]) -> None:
    loaded = load(write(tmp_path, page(asked("q", ["x"], mapping=mapping))))
    assert loaded.why_omitted() == {NO_GOLD: 1}


def test_a_repeated_id_is_counted(tmp_path: Path) -> None:
    question = asked("q", ["x"], mapping={"table": [[2, 1]]})
    loaded = load(write(tmp_path, page(question, question)))
    assert (len(loaded.questions), loaded.n_total) == (1, 2)


def test_a_question_without_answer_is_omitted(tmp_path: Path) -> None:
    question = asked("q", None, mapping={"table": [[2, 1]]})
    del question["answer"]
    assert len(load(write(tmp_path, page(question))).omitted) == 1


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (page(asked("q", ["x"], mapping={"table": [[1]]})), "two whole numbers"),
        (page(asked("q", ["x"], mapping={"paragraph": {"x": [[1, 2]]}})), "no number"),
        (page(asked("q", "many", "count", mapping={"table": [[2, 1]]})), "must be a number"),
        (page(asked("q", ["x"], mappings=[1])), "must be an object"),
        (page(table=[["a", 1]]), "rows of texts"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, broken: Any, reason: str) -> None:
    with pytest.raises(DataError, match=rf"tatqa_dataset_dev\.json \(record 2.*{reason}"):
        load(write(tmp_path, page(uid="fine"), broken))


def test_a_missing_field_is_named_with_file_and_record(tmp_path: Path) -> None:
    broken = page(asked("q", ["x"], mapping={"table": [[2, 1]]}))
    del broken["questions"][0]["question"]
    with pytest.raises(DataError, match=r"\(record 1, questions 1\).*'question' is missing"):
        load(write(tmp_path, broken))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, page()) / "dataset_tagop/tatqa_dataset_dev.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"tatqa_dataset_dev\.json.*too early"):
        load(tmp_path)


def test_an_empty_folder_lists_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dataset_tagop/tatqa_dataset_dev\.json"):
        load(tmp_path)


VALUES = ["Sales", "$1,496.5", "(12.3)%"]


@pytest.mark.parametrize(
    ("rows", "n_header"),
    [
        ([["", "2019", "2018"], VALUES], 1),
        ([["", "2019 (1)", "2018 (2)"], VALUES], 1),
        ([["", "Years Ended", ""], ["", "2019", "2018"], ["", "(in millions)", ""], VALUES], 3),
        ([["($ in millions)", "", ""], ["At December 31:", "2019", "2018"], VALUES], 2),
        ([["", "June 30,", ""], ["(in thousands)", "2019", "2018"], VALUES], 2),
        ([["In 2019", "Actual", "Plan"], ["", "US$'000", "£m"], VALUES], 2),
        ([["As of", "2019", "2018"], ["Assets", "", ""], VALUES], 1),
        ([["", "2019", "2018"], ["Dividend yield", "None", "None"]], 1),
        ([["", "2019", "2018"], ["", "Revenues:", ""], VALUES], 1),
        ([["Name", "Age", "Title"], ["Ann", "47", "CEO"]], 1),
        ([["", "2019", "2018"], ["Loss", "—", "-"]], 1),
        ([VALUES, VALUES], 0),
        ([["", "2019", "2018"]], 0),
        ([], 0),
        ([[]], 0),
    ],
)
def test_header_rows_end_where_values_or_row_names_begin(
    rows: list[list[str]], n_header: int
) -> None:
    assert n_header_rows(rows) == n_header


def test_header_rows_join_by_column() -> None:
    assert header_of([["(m)", "", "Year"], ["", "2019", "2018"]]) == ("(m)", "2019", "Year 2018")
    assert header_of([]) == ()


@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_sample_has_its_questions_and_items() -> None:
    loaded = load(Path(os.environ["CANOPY_DATA"]) / "tatqa")
    assert (len(loaded.questions), loaded.n_total) == (1668, 1668)
    checked = check(loaded)
    assert checked.problems == ()
    assert checked.n_items == {"table": 278, "text": 1356}
