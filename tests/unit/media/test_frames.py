from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Segment, VideoPayload
from canopy_rag.media import frame_data_uris, load_frames

pytest.importorskip("av")

MakeClip = Callable[..., Path]
STAIRS = [(level, 1.0) for level in (20, 60, 100, 140, 180, 220, 40, 80, 120, 160, 200, 240)]
LEVELS = [level for level, _ in STAIRS]


def greys(frames: list[Image.Image]) -> list[float]:
    return [float(np.asarray(frame).mean()) for frame in frames]


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("a.mp4", "libx264"),
        ("a.mkv", "libx264"),
        ("a.webm", "libvpx-vp9"),
        ("a.ts", "libx264"),
        ("a.avi", "mpeg4"),
    ],
)
def test_frames_are_those_on_screen_in_the_order_asked(
    name: str, encoder: str, make_clip: MakeClip, tmp_path: Path
) -> None:
    make_clip(name, STAIRS, codec=encoder)
    times = [11.5, 0.5, 6.95, 7.05, 3.5]
    expected = [240, 20, 40, 80, 140]
    assert greys(load_frames(name, times, tmp_path)) == pytest.approx(expected, abs=4)


def test_a_time_asked_twice_is_answered_twice(make_clip: MakeClip, tmp_path: Path) -> None:
    make_clip("a.mp4", STAIRS)
    assert greys(load_frames("a.mp4", [1.5, 1.5], tmp_path)) == pytest.approx([60, 60], abs=4)
    assert load_frames("a.mp4", [], tmp_path) == []


def test_before_the_begin_and_after_the_end_the_nearest_frame_is_shown(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    make_clip("a.mkv", STAIRS)
    frames = load_frames("a.mkv", [-1.0, 0.0, 12.0, 500.0], tmp_path)
    assert greys(frames) == pytest.approx([20, 20, 240, 240], abs=4)


def test_in_a_pause_the_last_frame_stays_on_screen(make_clip: MakeClip, tmp_path: Path) -> None:
    make_clip("a.mkv", [(20, 0.2), (220, 0.2)], times=[0, 1, 300, 301])
    assert greys(load_frames("a.mkv", [29.0, 30.0], tmp_path)) == pytest.approx([20, 220], abs=4)


def test_frames_before_the_break_of_a_truncated_file_are_found(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    path = make_clip("a.mkv", STAIRS)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert greys(load_frames("a.mkv", [0.5], tmp_path)) == pytest.approx([20], abs=4)


def test_a_turned_video_is_shown_upright(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("a.mp4", [(20, 0.5)])
    data = bytearray(path.read_bytes())
    # The display matrix of the track header, 40 bytes after the box's name: a quarter turn.
    at = data.index(b"tkhd") + 4 + 40
    data[at : at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    assert load_frames("a.mp4", [0.2], tmp_path)[0].size == (36, 64)


def test_a_video_outside_the_root_is_refused(make_clip: MakeClip, tmp_path: Path) -> None:
    make_clip("a.mp4", [(20, 0.5)])
    (tmp_path / "root").mkdir()
    with pytest.raises(IngestError, match="leads out of"):
        load_frames("../a.mp4", [0.0], tmp_path / "root")


def test_what_is_no_video_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    with pytest.raises(IngestError, match=r"a\.mp4: not a video"):
        load_frames("a.mp4", [0.0], tmp_path)


def test_frames_for_a_reader_are_small_jpegs(make_clip: MakeClip, tmp_path: Path) -> None:
    make_clip("a.mp4", STAIRS)
    payload = VideoPayload(
        media="a.mp4",
        duration_s=12.0,
        segments=(Segment(start=0.0, stop=12.0, frames=(0.5, 5.5)),),
        width=64,
        height=36,
    )
    uris = frame_data_uris(payload, payload.segments[0].frames, tmp_path, max_px=600)
    frames = [Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))) for uri in uris]
    assert [(frame.format, frame.size) for frame in frames] == [("JPEG", (32, 18))] * 2
    assert greys(frames) == pytest.approx([20, 220], abs=6)
