from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from canopy_rag.core import codec
from canopy_rag.core.errors import IngestError
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, VideoPayload
from canopy_rag.ingest import video, video_scan
from canopy_rag.ingest.options import IngestOptions

pytest.importorskip("av")

MakeClip = Callable[..., Path]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def noting(options: IngestOptions, notes: list[str]) -> IngestOptions:
    return replace(options, note=lambda uri, message: notes.append(f"{uri}: {message}"))


def read(path: Path, options: IngestOptions) -> list[Item]:
    items = list(video.parse(path, f"films/{path.name}", options))
    for item in items:
        check_tree(item.nodes)
        assert codec.loads(Item, codec.dumps(item)) == item
    return items


def payload(item: Item) -> VideoPayload:
    assert isinstance(item.payload, VideoPayload)
    return item.payload


def bounds(item: Item) -> list[tuple[float, float]]:
    return [(segment.start, segment.stop) for segment in payload(item).segments]


def borders(item: Item) -> list[float]:
    return [start for start, _ in bounds(item)] + [bounds(item)[-1][1]]


@pytest.mark.parametrize(
    ("suffix", "encoder"),
    [("mp4", "libx264"), ("mkv", "libx264"), ("webm", "libvpx-vp9"), ("avi", "mpeg4")],
)
def test_scenes_are_the_leaves_and_seconds_their_intervals(
    suffix: str, encoder: str, make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip(f"my_film.{suffix}", [(20, 2.5), (220, 3), (90, 2.5)], codec=encoder)
    (item,) = read(path, noting)
    assert item.title == "my film"
    assert borders(item) == pytest.approx([0, 2.5, 5.5, 8])
    assert [(item.nodes[i].start, item.nodes[i].stop) for i in leaves(item.nodes)] == bounds(item)
    assert payload(item).media == f"films/my_film.{suffix}"
    assert payload(item).duration_s == pytest.approx(8)
    assert (payload(item).width, payload(item).height) == (64, 36)
    assert payload(item).segments[0].frames == (1.25,)
    assert notes == []


def test_a_video_without_cuts_has_segments_of_the_set_length(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    path = make_clip("a.mp4", [(100, 13)])
    (item,) = read(path, replace(options, segment_s=5.0, max_frames=2))
    assert bounds(item) == [(0, 5), (5, 10), (10, 13)]
    assert all(len(segment.frames) <= 2 for segment in payload(item).segments)


def test_a_long_video_becomes_several_items_with_seconds_of_the_file(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    path = make_clip("a.mp4", [(100, 24)])
    items = read(path, replace(options, segment_s=4.0, video_item_s=13.0))
    assert [bounds(item) for item in items] == [
        [(0, 4), (4, 8), (8, 12)],
        [(12, 16), (16, 20), (20, 24)],
    ]
    assert [(item.nodes[0].start, item.nodes[0].stop) for item in items] == [(0, 12), (12, 24)]
    assert [item.source.ordinal for item in items] == [0, 1]
    assert {item.title for item in items} == {"a"}
    assert {payload(item).duration_s for item in items} == {24.0}


def test_key_frames_alone_find_the_scenes_of_a_long_video(
    make_clip: MakeClip, options: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_clip("a.mp4", [(20, 3), (220, 3), (90, 3)])
    complete = read(path, options)
    monkeypatch.setattr(video_scan, "FULL_SCAN_S", 5.0)
    skips: list[bool] = []
    scan_pass = video_scan._pass

    def spy(*args: object, key_frames: bool) -> video_scan.Scan:
        found = scan_pass(*args, key_frames=key_frames)
        skips.append(len(found.times) < 90)
        return found

    monkeypatch.setattr(video_scan, "_pass", spy)
    assert read(path, options) == complete
    assert skips == [True]


def test_subtitles_of_the_sidecar_fall_into_their_scenes(
    make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip("a.mp4", [(20, 3), (220, 3)], subtitles=())
    path.with_name("a.en.srt").write_text(
        "1\n00:00:00,500 --> 00:00:02,000\n<i>first</i>\n\n"
        "2\n00:00:01,000 --> 00:00:05,500\nlong\n\n3\n00:00:02,500 --> 00:00:03,200\nlast\n",
        encoding="utf-8",
    )
    (item,) = read(path, noting)
    assert [segment.subtitles for segment in payload(item).segments] == ["first\nlast", "long"]
    assert [file.name for file in video.sidecars(path)] == ["a.en.srt"]
    assert notes == []


def test_embedded_subtitles_are_read_when_there_is_no_sidecar(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    cues = [(0.5, 1.5, "Hello, you"), (3.5, 4.5, "{\\i1}Second{\\i0}\\Nline")]
    path = make_clip("a.mkv", [(20, 3), (220, 3)], subtitles=cues)
    (item,) = read(path, options)
    texts = [segment.subtitles for segment in payload(item).segments]
    assert texts == ["Hello, you", "Second line"]
    path.with_name("a.vtt").write_text(
        "WEBVTT\n\n00:01.000 --> 00:02.000\noutside\n", encoding="utf-8"
    )
    (item,) = read(path, options)
    assert [segment.subtitles for segment in payload(item).segments] == ["outside", ""]


def test_a_broken_sidecar_is_noted_and_the_next_best_is_read(
    make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip("a.mp4", [(20, 3)])
    path.with_name("a.srt").write_bytes(b"\x00\x01")
    path.with_name("a.en.vtt").write_text(
        "WEBVTT\n\n00:01.000 --> 00:02.000\nhi\n", encoding="utf-8"
    )
    (item,) = read(path, noting)
    assert payload(item).segments[0].subtitles == "hi"
    assert len(notes) == 1
    assert notes[0].startswith("films/a.mp4: its subtitles a.srt")


def test_sidecars_not_chosen_and_cues_after_the_end_are_noted(
    make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip("a.mp4", [(20, 3)])
    late = "WEBVTT\n\n00:01.000 --> 00:02.000\nhi\n\n00:09.000 --> 00:10.000\nlate\n"
    for name in ("a.vtt", "a.de.vtt"):
        path.with_name(name).write_text(late, encoding="utf-8")
    read(path, noting)
    assert notes == [
        "films/a.mp4: subtitles come from a.vtt alone, not a.de.vtt",
        "films/a.mp4: 1 of 2 subtitles lie after its end",
    ]


def test_the_caption_is_the_sidecar_text_or_else_the_title_inside(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    path = make_clip("a.mp4", [(20, 2)], title="Harbour tour")
    assert payload(read(path, options)[0]).caption == "Harbour tour"
    path.with_name("a.txt").write_text("By boat.", encoding="utf-8")
    assert payload(read(path, options)[0]).caption == "By boat."


def test_a_single_frame_is_one_short_segment(make_clip: MakeClip, options: IngestOptions) -> None:
    (item,) = read(make_clip("a.mp4", [(20, 0.1)]), options)
    assert bounds(item) == [(0, 0.1)]
    assert len(item.nodes) == 1


def test_sound_that_goes_on_after_the_picture_belongs_to_the_video(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    (item,) = read(make_clip("a.mkv", [(20, 2)], sound_s=6.0), options)
    assert bounds(item) == [(0, 6)]


def test_a_pause_between_frames_keeps_its_time(make_clip: MakeClip, options: IngestOptions) -> None:
    path = make_clip("a.mkv", [(20, 0.3), (220, 3)], times=[0, 1, 2, *range(60, 90)])
    (item,) = read(path, options)
    assert bounds(item) == [(0, 6), (6, 9)]


def test_timestamps_that_start_late_count_from_the_beginning(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    path = make_clip("a.ts", [(20, 3), (220, 3)])
    (item,) = read(path, options)
    assert borders(item) == pytest.approx([0, 3, 6], abs=0.05)


def test_frames_whose_timestamps_go_back_are_left_out_and_noted(
    make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip("a.ts", [(20, 3)])
    path.write_bytes(path.read_bytes() * 2)
    (item,) = read(path, noting)
    assert payload(item).duration_s == pytest.approx(3, abs=0.2)
    assert "timestamps that go back: " in notes[0]


def test_timestamps_of_many_hours_are_refused(make_clip: MakeClip, options: IngestOptions) -> None:
    path = make_clip("a.mkv", [(20, 0.3)], times=[0, 1, 4_000_000])
    with pytest.raises(IngestError, match=r"films/a\.mkv: its timestamps reach 400000 s"):
        read(path, options)


def test_of_a_truncated_file_what_decodes_is_indexed_and_the_end_noted(
    make_clip: MakeClip, noting: IngestOptions, notes: list[str]
) -> None:
    path = make_clip("a.mkv", [(level, 1) for level in range(10, 250, 12)], codec="mpeg4")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (item,) = read(path, noting)
    stop = payload(item).duration_s
    assert 5 < stop < 15
    assert item.nodes[0].stop == pytest.approx(stop, abs=0.001)
    assert notes[0] == f"films/a.mkv: breaks off; only its first {stop:.1f} s are indexed"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.mp4", b""),
        ("a.mp4", b"not a video at all" * 100),
        ("a.mp4", b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hosts\n"),
        ("a.webm", b"\x1a\x45\xdf\xa3" + b"\0" * 50),
    ],
)
def test_what_is_no_video_is_an_error_that_names_the_file(
    name: str, content: bytes, tmp_path: Path, options: IngestOptions
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(IngestError, match="not a video, or broken") as caught:
        read(tmp_path / name, options)
    assert caught.value.path == f"films/{name}"


def test_an_mp4_cut_off_before_its_index_is_an_error(
    make_clip: MakeClip, options: IngestOptions
) -> None:
    path = make_clip("a.mp4", [(20, 3)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(IngestError, match=r"films/a\.mp4"):
        read(path, options)


def test_sound_without_picture_is_an_error(make_clip: MakeClip, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match="has no picture"):
        read(make_clip("a.mkv", [], sound_s=1.0), options)


def test_a_vanished_file_is_an_error_that_says_so(tmp_path: Path, options: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"films/gone\.mp4: the file is gone"):
        read(tmp_path / "gone.mp4", options)


def test_the_sample_videos_are_cut_at_their_scenes(noting: IngestOptions, notes: list[str]) -> None:
    samples = os.environ.get("CANOPY_SAMPLES")
    if not samples:
        pytest.skip("CANOPY_SAMPLES names no folder with the sample corpus")
    folder = Path(samples) / "videos"
    (bunny,) = read(folder / "big_buck_bunny_0_30.webm", noting)
    assert [start for start, _ in bounds(bunny)] == pytest.approx(
        [0, 11.8, 15.7, 20.75, 23.0], abs=0.1
    )
    (battle,) = read(folder / "tears_of_steel_battle_clip.webm", noting)
    assert payload(battle).duration_s == pytest.approx(70.5, abs=0.1)
    lines = [line for s in payload(battle).segments for line in s.subtitles.splitlines()]
    assert len(lines) == 11
    assert notes == []
