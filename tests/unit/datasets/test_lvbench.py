from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.checking import check
from canopy_rag.datasets.lvbench import (
    AFTER_END,
    BENCHMARK,
    NO_OPTION,
    NO_TIME,
    NO_VIDEO,
    NOT_REWRITTEN,
    UNLABELLED,
)
from canopy_rag.text import DefaultSplitter

OPTIONS = "\n(A) red\n(B) blue\n(C) green\n(D) none (at all)"


def asked(uid: str, time: str, answer: str = "B", question: str = "What?") -> dict[str, Any]:
    return {
        "uid": uid,
        "question": question + OPTIONS,
        "answer": answer,
        "question_type": ["entity recognition", "reasoning"],
        "time_reference": time,
    }


def video(key: str, *questions: dict[str, Any], minutes: float | None = None) -> dict[str, Any]:
    info = {} if minutes is None else {"video_info": {"duration_minutes": minutes, "fps": 25}}
    return {"key": key, "type": "tv", **info, "qa": list(questions)}


def rewritten(
    index: str, key: str, time: Any, question: str = "What in X?", **fields: Any
) -> dict[str, Any]:
    return {
        "index": index,
        "question": question + OPTIONS,
        "answer": "B",
        "time_reference": time,
        "source": "lvbench",
        "gt_videos": [f"dataset/LVBench/videos/{key}.mp4"],
        "gt_retrieval": "clip",
        **fields,
    }


def write(folder: Path, *videos: Any, rewrites: list[Any] | None = None) -> Path:
    if videos:
        text = "".join(json.dumps(each) + "\n" for each in videos)
        (folder / "video_info.meta.jsonl").write_text(text, encoding="utf-8")
    if rewrites is not None:
        (folder / "lvbench.json").write_text(json.dumps(rewrites), encoding="utf-8")
    return folder


def load(folder: Path) -> Loaded:
    return BENCHMARK.load(folder, DefaultSplitter())


def test_a_question_has_its_options_letter_kind_and_seconds(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("é-1", asked("7", "01:02:03-62:10"), minutes=90)))
    (question,) = loaded.questions
    assert question.text == "What?"
    assert question.options == ("red", "blue", "green", "none (at all)")
    assert question.answers == ("B",)
    assert question.kind == "entity recognition"
    assert question.contexts == ("é-1",)
    (span,) = question.gold
    assert (span.start, span.stop) == (3723.0, 3730.0)
    assert not check(loaded).problems


def test_a_long_video_is_several_items_of_ten_second_segments(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("7", "00:05-00:08"), minutes=20.5)))
    items = list(loaded.items())
    assert [(item.nodes[0].start, item.nodes[0].stop) for item in items] == [
        (0.0, 410.0),
        (410.0, 820.0),
        (820.0, 1230.0),
    ]
    first = items[0].payload.segments[0]
    assert (first.start, first.stop, first.frames) == (0.0, 10.0, (1.0, 3.0, 5.0, 7.0, 9.0))
    assert {item.payload.duration_s for item in items} == {1230.0}


def test_a_time_range_over_the_border_of_items_is_gold_in_both(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("7", "06:45-06:55"), minutes=20.5)))
    spans = loaded.questions[0].gold
    assert [(span.start, span.stop) for span in spans] == [(405.0, 410.0), (410.0, 415.0)]
    assert len({span.item_id for span in spans}) == 2


def test_a_moment_lasts_a_second(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("7", "00:05-00:05"), minutes=1)))
    assert [(span.start, span.stop) for span in loaded.questions[0].gold] == [(5.0, 6.0)]


def test_swapped_ends_of_a_time_reference_are_put_in_order(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("7", "00:50-00:35"), minutes=1)))
    assert [(span.start, span.stop) for span in loaded.questions[0].gold] == [(35.0, 50.0)]


def test_an_unknown_duration_is_taken_from_the_last_reference_and_noted(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("a", "00:05-00:08"), asked("b", "01:00-01:30"))))
    assert [item.payload.duration_s for item in loaded.items()] == [90.0]
    assert "of 1 videos the duration is unknown" in loaded.notes[1]


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (asked("q", "None-None"), NO_TIME),
        (asked("q", "08:17-None"), NO_TIME),
        (asked("q", "02:00-02:10"), AFTER_END),
        (asked("q", "00:05-00:08", answer="E"), NO_OPTION),
        ({**asked("q", "00:05-00:08"), "question": "What?"}, NO_OPTION),
        ({**asked("q", "00:05-00:08"), "question": "What?\n(A) x\n(C) y"}, NO_OPTION),
    ],
)
def test_a_question_that_cannot_be_used_is_omitted(
    tmp_path: Path, question: dict[str, Any], reason: str
) -> None:
    loaded = load(write(tmp_path, video("v", question, minutes=1)))
    assert loaded.why_omitted() == {reason: 1}


def test_rewritten_questions_replace_the_official_ones_with_their_kind(tmp_path: Path) -> None:
    videos = video("v", asked("7", "00:05-00:08"), asked("8", "00:30-00:31"), minutes=1)
    rewrites = [
        rewritten("lvbench_1", "v", [30, 31], "What in late X?"),
        rewritten("lvbench_0", "v", [5, 8]),
        rewritten("lvbench_2", "w", [1, 2]),
    ]
    loaded = load(write(tmp_path, videos, rewrites=rewrites))
    assert [(q.id, q.text, q.kind) for q in loaded.questions] == [
        ("7", "What in X?", "entity recognition"),
        ("8", "What in late X?", "entity recognition"),
        ("lvbench_2", "What in X?", UNLABELLED),
    ]
    assert loaded.n_total == 3


def test_an_official_question_without_a_rewritten_form_is_omitted(tmp_path: Path) -> None:
    videos = video("v", asked("7", "00:05-00:08"), asked("8", "00:30-00:31"), minutes=1)
    loaded = load(write(tmp_path, videos, rewrites=[rewritten("lvbench_0", "v", [30, 31])]))
    assert [question.id for question in loaded.questions] == ["8"]
    assert loaded.why_omitted() == {NOT_REWRITTEN: 1}


def test_rewritten_questions_alone_are_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "dataset" / "query").mkdir(parents=True)
    path = tmp_path / "dataset" / "query" / "lvbench.json"
    path.write_text(json.dumps([rewritten("lvbench_0", "v", [5, 8])]))
    loaded = load(tmp_path)
    assert [question.text for question in loaded.questions] == ["What in X?"]


def test_without_rewritten_questions_a_note_says_what_is_missing(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, video("v", asked("7", "00:05-00:08"), minutes=1)))
    assert "UniversalRAG" in loaded.notes[-1]


def test_a_video_file_tells_its_own_duration_and_size(
    tmp_path: Path, make_clip: Callable[..., Path]
) -> None:
    (tmp_path / "videos").mkdir()
    make_clip("videos/v.mkv", [(40, 12.0), (200, 13.0)])
    loaded = load(write(tmp_path, video("v", asked("7", "00:05-00:08"), minutes=99)))
    (item,) = loaded.items()
    assert item.payload.duration_s == pytest.approx(25.0, abs=0.2)
    assert (item.payload.width, item.payload.height) == (64, 36)
    assert len(item.payload.segments) == 3
    assert Path(item.payload.media).is_file()


def test_questions_about_a_broken_video_are_omitted_and_the_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "v.mp4").write_bytes(b"no video at all")
    loaded = load(write(tmp_path, video("v", asked("7", "00:05-00:08"), minutes=1)))
    assert loaded.why_omitted() == {NO_VIDEO: 1}
    assert loaded.notes[0].startswith("v.mp4")


def test_a_repeated_id_is_counted(tmp_path: Path) -> None:
    twice = video("v", asked("7", "00:05-00:08"), asked("7", "00:05-00:08"), minutes=1)
    loaded = load(write(tmp_path, twice))
    assert (len(loaded.questions), loaded.n_total) == (1, 2)


def test_a_missing_field_is_named_with_file_line_and_question(tmp_path: Path) -> None:
    question = asked("7", "00:05-00:08")
    del question["answer"]
    with pytest.raises(DataError, match=r"video_info\.meta\.jsonl \(line 1, qa 1\).*'answer'"):
        load(write(tmp_path, video("v", question)))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (rewritten("x", "v", "5-8"), "'time_reference' must be a list"),
        (rewritten("x", "v", [5]), r"\[start, stop\]"),
        (rewritten("x", "v", [5, 8], gt_videos=["a", "b"]), "one video"),
    ],
)
def test_a_malformed_rewritten_question_is_named(tmp_path: Path, broken: Any, reason: str) -> None:
    with pytest.raises(DataError, match=rf"lvbench\.json \(record 1\).*{reason}"):
        load(write(tmp_path, rewrites=[broken]))


def test_a_truncated_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, video("v", asked("7", "00:05-00:08"))) / "video_info.meta.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"video_info\.meta\.jsonl \(line 1"):
        load(tmp_path)


def test_an_empty_folder_lists_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"video_info\.meta\.jsonl"):
        load(tmp_path)


@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_samples_have_their_questions() -> None:
    data = Path(os.environ["CANOPY_DATA"])
    own, others = load(data / "lvbench"), load(data / "universalrag")
    assert (len(own.questions), own.n_total) == (354, 354)
    assert (len(others.questions), others.n_total) == (829, 829)
    assert len({question.contexts for question in own.questions}) == 24
    assert len({question.contexts for question in others.questions}) == 94
    assert not check(own).problems
    assert not check(others).problems


@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_sample_has_198_rewritten_questions(tmp_path: Path) -> None:
    data = Path(os.environ["CANOPY_DATA"])
    (tmp_path / "lvbench.json").symlink_to(data / "universalrag/dataset/query/lvbench.json")
    (tmp_path / "data").symlink_to(data / "lvbench/data")
    kinds = [question.kind for question in load(tmp_path).questions]
    assert len(kinds) - kinds.count(UNLABELLED) == 198
