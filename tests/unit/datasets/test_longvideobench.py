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
from canopy_rag.datasets.longvideobench import (
    BENCHMARK,
    NO_DURATION,
    NO_MOMENT,
    NO_RATE,
    NO_VIDEO,
    read_subtitles,
)
from canopy_rag.text import DefaultSplitter


def asked(number: int = 0, *, position: Any = (105,), **fields: Any) -> dict[str, Any]:
    return {
        "video_id": "vé",
        "question": "What happens when the light turns on?",
        "question_wo_referring_query": "What happens?",
        "candidates": ["nothing", "a dog barks", "rain"],
        "correct_choice": 1,
        "position": list(position) if isinstance(position, tuple) else position,
        "topic_category": "NP-News-Programs",
        "question_category": "S2E",
        "level": "L1-Perception",
        "id": f"vé_{number}",
        "video_path": "v.mkv",
        "subtitle_path": "v_en.json",
        "duration_group": 15,
        "starting_timestamp_for_subtitles": 0,
        "duration": 25.0,
        "view_count": 3,
        **fields,
    }


def write(folder: Path, *questions: Any) -> Path:
    (folder / "lvb_val.json").write_text(json.dumps(list(questions)), encoding="utf-8")
    return folder


def load(folder: Path) -> Loaded:
    return BENCHMARK.load(folder, DefaultSplitter())


@pytest.fixture
def folder(tmp_path: Path, make_clip: Callable[..., Path]) -> Path:
    """A folder whose video has 10 frames per second and lasts 25 seconds."""
    (tmp_path / "videos").mkdir()
    make_clip("videos/v.mkv", [(40, 12.0), (200, 13.0)])
    return tmp_path


def test_frame_positions_become_moments_by_the_videos_frame_rate(folder: Path) -> None:
    loaded = load(write(folder, asked(position=(105, 3))))
    (question,) = loaded.questions
    assert [span.start for span in question.gold] == pytest.approx([0.3, 10.5])
    assert [span.stop for span in question.gold] == pytest.approx([0.4, 10.6])
    assert question.answers == ("B",)
    assert question.options == ("nothing", "a dog barks", "rain")
    assert (question.kind, question.contexts) == ("S2E", ("vé",))
    assert not check(loaded).problems


def test_positions_after_the_end_point_nowhere(folder: Path) -> None:
    loaded = load(write(folder, asked(0, position=(61388250, 3)), asked(1, position=(61388250,))))
    assert [len(question.gold) for question in loaded.questions] == [1]
    assert loaded.why_omitted() == {NO_MOMENT: 1}


def test_without_the_video_a_question_is_omitted_and_the_video_an_item(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, asked(0), asked(1), asked(2, duration=0, video_id="w")))
    assert loaded.why_omitted() == {NO_RATE: 2, NO_DURATION: 1}
    (item,) = loaded.items()
    assert [(s.start, s.stop) for s in item.payload.segments] == [(0, 10), (10, 20), (20, 25)]
    assert loaded.notes == ("1 of 1 videos have no subtitles",)


def test_a_broken_video_is_named_and_its_questions_omitted(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "v.mkv").write_bytes(b"no video at all")
    loaded = load(write(tmp_path, asked()))
    assert loaded.why_omitted() == {NO_VIDEO: 1}
    assert loaded.notes[0].startswith("v.mkv")


def test_subtitles_of_both_forms_are_put_into_their_segments(tmp_path: Path) -> None:
    (tmp_path / "subtitles").mkdir()
    first = [
        {"timestamp": [100.0, 102.5], "text": "welcome\nback"},
        {"timestamp": [90.0, 95.0], "text": "before the cut"},
        {"timestamp": [118.0, None], "text": "until the end"},
    ]
    second = [{"start": "00:00:11.000", "end": "00:00:12,500", "line": "hello"}]
    (tmp_path / "subtitles" / "v_en.json").write_text(json.dumps(first))
    (tmp_path / "subtitles" / "w_en.json").write_text(json.dumps(second))
    cut = asked(0, starting_timestamp_for_subtitles=98.5)
    other = asked(1, video_id="w", subtitle_path="w_en.json")
    loaded = load(write(tmp_path, cut, other))
    texts = [[s.subtitles for s in item.payload.segments] for item in loaded.items()]
    assert texts == [["welcome back", "", "until the end"], ["", "hello", ""]]
    assert loaded.notes == ()


@pytest.mark.parametrize(
    ("cue", "reason"),
    [
        ({"timestamp": ["x", 1], "text": "a"}, "'timestamp' must be"),
        ({"timestamp": [0, 1]}, "'text' is missing"),
        ({"start": "now", "end": "00:00:01", "line": "a"}, "'start' must be a time"),
    ],
)
def test_a_malformed_cue_is_named(tmp_path: Path, cue: dict[str, Any], reason: str) -> None:
    path = tmp_path / "v_en.json"
    path.write_text(json.dumps([cue]))
    with pytest.raises(DataError, match=rf"v_en\.json \(record 1\).*{reason}"):
        read_subtitles(path, 0.0, 10.0)


def test_a_question_without_the_right_choice_is_omitted(tmp_path: Path) -> None:
    question = asked()
    del question["correct_choice"]
    loaded = load(write(tmp_path, question))
    assert (loaded.n_total, len(loaded.omitted)) == (1, 1)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (asked(correct_choice=3), "'correct_choice' is 3, but there are 3 candidates"),
        (asked(position="105"), "'position' must be a list"),
        (asked(candidates=[1, 2]), "'candidates' must hold texts"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, question: Any, reason: str) -> None:
    with pytest.raises(DataError, match=rf"lvb_val\.json \(record 1\).*{reason}"):
        load(write(tmp_path, question))


def test_a_position_that_is_no_frame_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"record 1.*frame numbers, got 1\.5"):
        load(write(folder, asked(position=(1.5,))))


def test_a_repeated_id_is_counted(folder: Path) -> None:
    loaded = load(write(folder, asked(), asked()))
    assert (len(loaded.questions), loaded.n_total) == (1, 2)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, asked()) / "lvb_val.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"lvb_val\.json \(record 1"):
        load(tmp_path)


def test_an_empty_folder_lists_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lvb_val\.json"):
        load(tmp_path)


@pytest.mark.skipif("CANOPY_DATA" not in os.environ, reason="CANOPY_DATA names no folder of data")
def test_the_sample_has_its_questions_and_videos() -> None:
    loaded = load(Path(os.environ["CANOPY_DATA"]) / "longvideobench")
    assert loaded.n_total == 303
    assert loaded.why_omitted() == {NO_RATE: 303}
    assert len({item.title for item in loaded.items()}) == 185
    assert len(BENCHMARK.kinds) == 17
