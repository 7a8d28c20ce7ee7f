"""`canopy train`, and the guide "Train on your own questions" as it is written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from canopy_rag.encoders import locate

GUIDE = (Path(__file__).resolve().parents[3] / "docs/training.md").read_text("utf-8")
BLOCK = re.compile(r"^```bash *([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
METALS = ("brass", "iron", "oak", "silver", "pine", "copper")


def questions(n: int) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for number in range(n):
        metal = METALS[number % len(METALS)]
        text = (
            f"House {number} has many lamps. The lamp in hall {number} is made of {metal}. "
            "It was bought in 1863. Nobody knows who paid for it."
        )
        gold = [{"item": f"p{number}", "quote": metal}]
        asked = f"What is the lamp in hall {number} made of?"
        lines.append({"id": f"p{number}", "title": f"House {number}", "text": text})
        lines.append({"id": f"q{number}", "question": asked, "answers": [metal], "gold": gold})
    return lines


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "work" / "questions.jsonl", questions(20))


def train(run, own, *options, encoder="hashing"):
    return run("train", "--benchmark", f"jsonl={own}", "--encoder", encoder, *options)


def test_json_alone_is_on_stdout_and_the_folder_says_the_same(run, own):
    done = train(run, own, "--kind", "map", "--out", "tuned", "--json")
    assert done.code == 0, done.err
    body = done.json
    assert body.pop("out") == "tuned"
    assert body == json.loads(Path("tuned/adapter.json").read_text())
    assert (body["kind"], body["base"]["model"], body["mode"]) == ("map", "hashing", "late")
    accuracy = body["results"]["decision_accuracy"]
    assert accuracy["after"] >= accuracy["before"]


def test_people_are_told_what_it_is_worth_and_how_to_use_it(run, own):
    done = train(run, own, "--kind", "map", "--out", "tuned")
    assert done.code == 0, done.err
    assert "decision accuracy on validation" in done.out
    assert "--encoder hashing+tuned" in done.out
    assert "questions to learn from" in done.err


def test_flags_change_the_preset(run, own):
    options = ["--preset", "map", "--epochs", "3", "--learning-rate", "0.01", "--sides", "both"]
    done = train(run, own, *options, "--out", "tuned", "--json")
    assert done.code == 0, done.err
    config = done.json["config"]
    assert (config["epochs"], config["learning_rate"], config["sides"]) == (3, 0.01, "both")
    assert config["batch"] == 64


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--kind", "map", "--split", "test"], 2, "test part"),
        (["--kind", "map", "--limit", "0"], 2, "--limit"),
        (["--kind", "map", "--epochs", "0"], 2, "epochs"),
        (["--kind", "map", "--out", "."], 2, "not empty"),
        (["--kind", "lora"], 2, "--kind map"),
        (["--kind", "lora", "--index", "somewhere"], 2, "--index is for maps"),
        (["--kind", "map", "--across", "0.5"], 2, "kind lora"),
        (["--kind", "map", "--lexical"], 2, "kind lora"),
        (["--kind", "map", "--neighbours", "0"], 2, "neighbours"),
        (["--preset", "huge"], 2, "huge"),
    ],
)
def test_wrong_usage_says_what_is_right(run, own, options, code, message):
    out = [] if "--out" in options else ["--out", "tuned"]
    done = train(run, own, *out, *options)
    assert done.code == code
    assert message in done.err
    assert not Path("tuned").exists()


@pytest.mark.parametrize("options", [["--across", "0.5"], ["--lexical"]])
def test_what_needs_a_trunk_read_late_says_so(run, own, options):
    late = ["--preset", "minilm", "--across", "0", "--no-lexical", *options]
    for encoder, mode in (("qwen3-vl:tiny", []), ("minilm", ["--mode", "node"])):
        done = train(run, own, "--out", "tuned", *late, *mode, encoder=encoder)
        assert done.code == 2
        assert "reads an item once" in done.err
    assert not Path("tuned").exists()


def test_an_adapter_is_trained_on_an_encoder_without_one(run, own):
    done = train(run, own, "--kind", "map", "--out", "tuned", encoder="minilm+elsewhere")
    assert done.code == 2
    assert "without one" in done.err


def test_a_question_that_cannot_be_used_is_named_and_nothing_is_written(run, tmp_path):
    gold = [{"item": "p0", "start": 5, "stop": 99_999}]
    bad = {"id": "q bad", "question": "?", "answers": ["a"], "gold": gold}
    own = write(tmp_path / "own.jsonl", [*questions(10), bad])
    done = train(run, own, "--kind", "map", "--out", "tuned")
    assert done.code == 1
    assert "'q bad'" in done.err
    assert "outside the item" in done.err
    assert not Path("tuned").exists()


def test_a_map_is_learned_from_an_index_as_it_is(run, own, monkeypatch):
    from canopy_rag.testing.hashing import HashingEncoder

    plain = own.with_name("items.jsonl")
    write(plain, [line for line in questions(20) if "text" in line])
    assert run("index", str(plain), "--index", "idx", "--encoder", "hashing").code == 0
    write(Path("over.jsonl"), [line for line in questions(20) if "question" in line])
    monkeypatch.setattr(HashingEncoder, "encode_items", None)
    done = run(
        *("train", "-b", "jsonl=over.jsonl", "--index", "idx"),
        *("--kind", "map", "--out", "tuned", "--json"),
    )
    assert done.code == 0, done.err
    assert done.json["base"]["model"] == "hashing"
    assert done.json["results"]["train"]["instances"] > 10
    wrong = {"id": "q", "question": "?", "answers": ["a"], "gold": [{"item": "gone"}]}
    write(Path("wrong.jsonl"), [wrong])
    done = run(
        *("train", "-b", "jsonl=wrong.jsonl", "--index", "idx", "--kind", "map", "--out", "no")
    )
    assert done.code == 1
    assert "'q': its gold names an item that is not there" in done.err


@pytest.mark.slow
@pytest.mark.skipif(
    not locate.PACKED.is_file() and locate.package_checkpoint() is None,
    reason=f"the embedded encoder's weights are not here; run: {locate.INSTALL}",
)
def test_the_guide_does_what_it_says(run):
    try:
        import peft  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        has_extra = False
    else:
        has_extra = True
    examples = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    document, question = map(json.loads, examples)
    Path("own").mkdir()
    lines = [*questions(16), document, question]
    write(Path("own/documents.jsonl"), [line for line in lines if "text" in line])
    write(Path("own/questions.jsonl"), [line for line in lines if "question" in line])
    n_run = 0
    for mark, text in BLOCK.findall(GUIDE):
        if mark == "no-run" or (mark == "needs-train" and not has_extra):
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "canopy"
            done = run(*arguments)
            assert done.code == 0, f"{line}: {done.err}"
            n_run += 1
    assert n_run == (9 if has_extra else 6)
    assert Path("tuned-index/adapter.json").is_file()
    found = run("search", question["question"], "--index", "plain", "--encoder", "minilm+tuned-map")
    assert "brass" in found.out
