from __future__ import annotations

import json


def test_search_prints_the_evidence_object_and_nothing_else(run, index: str) -> None:
    done = run("search", "hives beside the pond", "--index", index, "--json")
    assert done.code == 0
    assert done.json["items"][0]["modality"] == "text"
    fragment = done.json["items"][0]["fragments"][0]
    assert fragment["source"]["uri"] == "notes.md"
    assert "hives" in fragment["text"]


def test_people_get_titles_places_reasons_and_totals(run, index: str) -> None:
    done = run("search", "when was Ada born in mathematics", "--index", index, "--select", "paper")
    assert done.code == 0
    assert "people.csv" in done.out
    assert "[1] row 1\n       Ada | 1815 | mathematics\n" in done.out
    assert "name | born | field" in done.out
    assert "leaves, similarity" in done.out
    assert "tokens" in done.out.splitlines()[-1]


def test_the_settings_of_a_search_are_taken(run, index: str) -> None:
    done = run("search", "hives", "--index", index, "--json", "--k", "1", "--budget", "5")
    assert len(done.json["items"]) == 1
    assert 0 < done.json["tokens"] <= 5


def test_the_index_may_be_named_by_the_environment(run, index: str, monkeypatch) -> None:
    monkeypatch.setenv("CANOPY_INDEX", index)
    assert run("search", "hives", "--json").json["items"]


def test_ask_prints_the_answer_object_and_nothing_else(run, index: str) -> None:
    done = run("ask", "Where do the hives stand?", "--index", index, "--json")
    assert done.code == 0
    assert done.json["question"] == "Where do the hives stand?"
    assert done.json["usage"]["llm_calls"] == 0
    assert done.json["stop"] == "no_critic"
    numbers = {n["n"] for item in done.json["evidence"]["items"] for n in item["fragments"]}
    assert {each["fragment"] for each in done.json["citations"]} <= numbers


def test_people_get_the_answer_first_and_are_told_that_no_model_was_asked(run, index: str) -> None:
    done = run("ask", "Where do the hives stand?", "--index", index)
    assert done.code == 0
    assert done.out.startswith("No language model was asked.")
    assert "notes.md" in done.out
    assert "round 1: 'Where do the hives stand?'" in done.out
    assert "--llm local" in done.err


def test_a_streamed_answer_comes_in_events(run, index: str) -> None:
    done = run("ask", "Where do the hives stand?", "--index", index, "--json", "--stream")
    events = [json.loads(line) for line in done.out.splitlines()]
    names = [event["event"] for event in events]
    assert names[0] == "evidence"
    assert names[-1] == "answer"
    assert set(names[1:-1]) == {"token"}
    text = "".join(event["data"] for event in events if event["event"] == "token")
    assert text == events[-1]["data"]["text"]


def test_people_see_a_streamed_answer_with_its_sources(run, index: str) -> None:
    done = run("ask", "Where do the hives stand?", "--index", index, "--stream")
    assert "No language model was asked." in done.out
    assert "notes.md" in done.out


def test_a_chat_server_that_is_not_there_fails_by_its_address(run, index: str) -> None:
    done = run("ask", "Where?", "--index", index, "--llm", "http://127.0.0.1:9/v1", "--json")
    assert done.code == 1
    assert done.out == ""
    assert "127.0.0.1:9" in done.err


def test_an_empty_question_fails(run, index: str) -> None:
    assert run("ask", " ", "--index", index).code == 1


def test_explain_prints_every_node_of_every_hit(run, index: str) -> None:
    done = run("explain", "hives", "--index", index, "--json")
    assert done.code == 0
    first = done.json[0]
    assert set(first) == {"item_id", "title", "modality", "similarity", "rank", "nodes"}
    assert [node["index"] for node in first["nodes"]] == list(range(len(first["nodes"])))
    assert set(first["nodes"][0]) == {
        "index",
        "parent",
        "start",
        "stop",
        "similarity",
        "outcome",
        "text",
    }
    assert {node["outcome"] for node in first["nodes"]} <= {"keep", "split", "drop", None}
    assert any(node["outcome"] == "keep" for node in first["nodes"])


def test_explain_draws_trees_without_colours_for_a_file(run, index: str) -> None:
    done = run("explain", "hives", "--index", index, columns=80)
    assert "\x1b" not in done.out
    assert "keep" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_explain_takes_one_item(run, index: str) -> None:
    hits = run("explain", "hives", "--index", index, "--json").json
    wanted = hits[-1]["item_id"]
    only = run("explain", "hives", "--index", index, "--json", "--item", wanted).json
    assert [each["item_id"] for each in only] == [wanted]
    done = run("explain", "hives", "--index", index, "--item", "unknown")
    assert done.code == 1
    assert "unknown" in done.err


def test_info_tells_what_the_index_holds(run, index: str) -> None:
    about = run("info", "--index", index, "--json").json
    assert about["embedded"]["image"] == "text"
    assert about["items"] == {"total": 2, "text": 1, "table": 1, "image": 0, "video": 0}
    assert about["encoder"] == "hashing"
    done = run("info", "--index", index)
    assert "hashing" in done.out


def test_a_query_in_a_language_that_the_encoder_does_not_know_is_warned_of(
    run, index: str, monkeypatch
) -> None:
    monkeypatch.setattr(
        "canopy_rag.testing.hashing.HashingEncoder.languages", frozenset({"en"}), raising=True
    )
    done = run("search", "今天天气很好。", "--index", index, "--json")
    assert done.json["items"]
    assert "warning: the encoder 'hashing' was trained for English" in done.err
    assert run("search", "今天天气很好。", "--index", index, "--quiet").err == ""
    assert "warning" not in run("search", "hives", "--index", index).err


def test_an_empty_index_is_told(run, tmp_path) -> None:
    (tmp_path / "none").mkdir()
    assert run("index", str(tmp_path / "none"), "--encoder", "hashing").code == 0
    for command in ("search", "explain"):
        done = run(command, "hives")
        assert (done.code, done.out) == (0, "Nothing was found: the index is empty.\n")
    assert run("search", "hives", "--json").json["items"] == []
    assert run("explain", "hives", "--json").json == []
    assert run("info").code == 0
