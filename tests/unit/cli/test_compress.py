from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (
    "Apples are picked in October. Pears are picked in September. The gate is locked at night. "
    "Two hives stand beside the pond. Honey is sold on Sundays. The pond freezes in January. "
    "Children may climb the old plum tree."
)


def _line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def _objects(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_line_gives_one_evidence_object_in_order(run) -> None:
    stdin = _line(query="apples", documents=[TEXT]) + _line(
        query="honey", documents=[TEXT, "Bees."]
    )
    done = run("compress", "--json", "--encoder", "hashing", "--select", "paper", stdin=stdin)
    assert done.code == 0
    first, second = _objects(done.out)
    assert first["items"][0]["query"] == "apples"
    assert [item["rank"] for item in second["items"]] == [1, 2]
    assert 0 < first["tokens"] < first["tokens_full"]
    assert first["tokens_are"] == "estimated"


def test_a_bad_line_gives_an_error_in_its_place_and_1_at_the_end(run) -> None:
    stdin = (
        _line(query="apples", documents=[TEXT]) + "no json\n\n" + _line(query="x", documents=[TEXT])
    )
    done = run("compress", "--json", "--encoder", "hashing", "--select", "paper", stdin=stdin)
    assert done.code == 1
    first, second, third = _objects(done.out)
    assert first["items"]
    assert second["error"]["line"] == 2
    assert second["error"]["type"] == "DataError"
    assert third["items"]
    assert "line 2" in done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "documents"),
        ('{"query": "a"}', "documents"),
        ('{"query": "a", "documents": "b"}', "documents"),
        ('{"documents": ["a"]}', "--query"),
        ('{"query": " ", "documents": ["a"]}', "--query"),
        ('{"query": "a", "documents": ["b"], "qwery": 1}', "qwery"),
        ('{"query": "a", "documents": [7]}', "int"),
        ('{"query": "a", "documents": ["b"]', "JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_told(run, line: str, said: str) -> None:
    done = run("compress", "--json", "--encoder", "hashing", stdin=f"{line}\n")
    assert done.code == 1
    (only,) = _objects(done.out)
    assert said in only["error"]["message"]
    assert "line 1" in done.err


def test_a_line_that_is_not_utf_8_is_told(run) -> None:
    done = run("compress", "--json", "--encoder", "hashing", stdin=b'{"query": "caf\xe9"}\n')
    assert done.code == 1
    assert "UTF-8" in _objects(done.out)[0]["error"]["message"]


def test_the_query_of_the_line_goes_before_the_flag(run) -> None:
    stdin = _line(documents=[TEXT]) + _line(query="honey", documents=[TEXT])
    done = run("compress", "--json", "--encoder", "hashing", "--query", "apples", stdin=stdin)
    assert [each["items"][0]["query"] for each in _objects(done.out)] == ["apples", "honey"]


def test_a_table_and_a_title_are_taken_as_documents(run) -> None:
    table = {"header": ["name", "born"], "rows": [["Ada", "1815"], ["Charles", "1791"]]}
    documents = [
        {"id": "people", "modality": "table", "title": "People", "table": table},
        {"id": "note", "title": "A note", "text": TEXT},
    ]
    stdin = _line(query="Ada", documents=documents)
    done = run("compress", "--json", "--encoder", "hashing", "--select", "paper", stdin=stdin)
    items = done.json["items"]
    assert [(item["id"], item["modality"]) for item in items] == [
        ("people", "table"),
        ("note", "text"),
    ]
    assert items[0]["fragments"][0]["unit"] == "row"


def test_k_keeps_the_most_similar_documents_in_their_order(run) -> None:
    documents = ["Nothing here. At all.", "Apples fall. Apples rot.", "Apples are picked here."]
    stdin = _line(query="apples", documents=documents)
    done = run("compress", "--json", "--encoder", "hashing", "--k", "2", stdin=stdin)
    texts = [item["fragments"][0]["text"] for item in done.json["items"]]
    assert texts == [documents[1], documents[2]]


def test_a_budget_is_kept(run) -> None:
    stdin = _line(query="apples", documents=[TEXT])
    done = run("compress", "--json", "--encoder", "hashing", "--budget", "6", stdin=stdin)
    assert 0 < done.json["tokens"] <= 6


def test_files_are_documents_and_people_get_the_text(run, folder: Path) -> None:
    done = run("compress", "--encoder", "hashing", "--query", "hives", str(folder / "notes.md"))
    assert done.code == 0
    assert "hives" in done.out
    assert "tokens" in done.err


def test_a_missing_file_fails_by_name(run) -> None:
    done = run("compress", "--encoder", "hashing", "--query", "a", "gone.md")
    assert done.code == 1
    assert "gone.md" in done.err


def test_a_line_is_answered_before_the_next_one_comes() -> None:
    code = "from canopy_rag.cli import main; main()"
    command = [sys.executable, "-c", code, "compress", "--json", "--encoder", "hashing"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for query in ("apples", "honey"):
            process.stdin.write(_line(query=query, documents=[TEXT]))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["items"][0]["query"] == query
        process.stdin.close()
        assert process.wait() == 0
