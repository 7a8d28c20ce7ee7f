from __future__ import annotations

import json
from pathlib import Path

import pytest

from canopy_rag.datasets.registry import NAMES


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    lines = [
        {"id": "t", "title": "Alpha", "text": "Ann made it. It sold."},
        {"id": 1, "question": "Who?", "answers": ["Ann"], "kind": "x", "gold": [{"item": "t"}]},
        {"id": 2, "question": "Who?", "answers": ["Ann"], "gold": [{"item": "nowhere"}]},
    ]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return folder


def test_the_list_has_every_benchmark_with_files_and_licence(run) -> None:
    listed = run("datasets", "--json").json["datasets"]
    assert [each["name"] for each in listed] == list(NAMES)
    hotpotqa = next(each for each in listed if each["name"] == "hotpotqa")
    assert hotpotqa["licence"] == "CC BY-SA 4.0"
    assert hotpotqa["group"] == "in_domain"
    assert "hotpot_dev_distractor_v1.json" in [file["path"] for file in hotpotqa["files"]]
    done = run("datasets")
    assert done.code == 0
    assert all(name in done.out for name in NAMES)
    assert "psgs_w100.tsv" in done.out


def test_a_check_counts_what_was_kept_and_why_others_were_not(run, own_data: Path) -> None:
    done = run("datasets", f"jsonl={own_data}", "--json")
    assert done.code == 0
    (report,) = done.json["datasets"]
    assert report["questions"] == {
        "total": 2,
        "kept": 1,
        "omitted": {"its gold names an item that is not there": 1},
        "kinds": {"x": 1},
    }
    assert report["items"] == {"total": 1, "text": 1}
    assert report["nodes"] == 3
    assert sum(report["splits"][part] for part in ("train", "validation", "test")) == 1
    assert report["splits"]["how"] == "seeded rule, seed 0"
    shown = run("datasets", f"jsonl={own_data}", columns=200).out
    assert "1 of 2 questions" in shown
    assert "1: its gold names an item that is not there" in shown


def test_a_quick_check_leaves_the_items_alone(run, own_data: Path) -> None:
    (report,) = run("datasets", f"jsonl={own_data}", "--quick", "--json").json["datasets"]
    assert "items" not in report


def test_items_of_one_id_fail_the_check(run, tmp_path: Path) -> None:
    folder = tmp_path / "rag"
    folder.mkdir()
    lines = [
        {"id": "0", "contents": "T\nText."},
        {"id": "0", "contents": "T\nMore."},
        {"id": "q", "question": "?", "golden_answers": []},
    ]
    (folder / "all.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = run("datasets", f"flashrag={folder}")
    assert done.code == 1
    assert "comes twice" in done.err


@pytest.mark.parametrize(
    ("argument", "code", "message"),
    [
        ("hotpot=x", 2, "Did you mean 'hotpotqa'"),
        ("hotpotqa", 2, "such as hotpotqa=FOLDER"),
        ("hotpotqa=nowhere", 1, "there is no such folder"),
        ("hotpotqa=.", 1, "hotpot_dev_distractor_v1.json"),
    ],
)
def test_wrong_places_are_told(run, argument: str, code: int, message: str) -> None:
    done = run("datasets", argument)
    assert done.code == code
    assert message in done.err
