from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_ASS_HEADER = (
    b"[Script Info]\r\nScriptType: v4.00+\r\n\r\n[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize, "
    b"PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, "
    b"StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, "
    b"MarginR, MarginV, Encoding\r\nStyle: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,"
    b"100,0,0,1,1,0,2,10,10,10,0\r\n\r\n[Events]\r\nFormat: Layer, Start, End, Style, Name, "
    b"MarginL, MarginR, MarginV, Effect, Text\r\n"
)


@pytest.fixture
def make_clip(tmp_path: Path) -> Callable[..., Path]:
    """Make a video of plain grey scenes: 10 frames per second, 64 x 36 pixels."""
    av = pytest.importorskip("av")

    def make(
        name: str,
        scenes: Sequence[tuple[int, float]],
        *,
        codec: str = "libx264",
        subtitles: Sequence[tuple[float, float, str]] = (),
        sound_s: float = 0.0,
        title: str = "",
        times: Sequence[int] = (),
    ) -> Path:
        """Write the clip.

        Args:
            scenes: Grey level and seconds of each scene; none: no picture at all.
            subtitles: Embedded cues, for .mkv.
            times: When to show each frame, in tenths of a second; default one after the other.
        """
        path = tmp_path / name
        with av.open(str(path), "w") as container:
            if title:
                container.metadata["title"] = title
            picture = container.add_stream(codec, rate=10) if scenes else None
            sound = container.add_stream("pcm_s16le", rate=8000, layout="mono") if sound_s else None
            texts = container.add_stream("srt") if subtitles else None
            if texts is not None:
                texts.codec_context.subtitle_header = _ASS_HEADER
                texts.time_base = texts.codec_context.time_base = Fraction(1, 1000)
            _write_picture(container, picture, scenes, times)
            _write_sound(container, sound, sound_s)
            _write_subtitles(container, texts, subtitles)
        return path

    return make


def _write_picture(
    container: Any, stream: Any, scenes: Sequence[tuple[int, float]], times: Sequence[int]
) -> None:
    import av

    if stream is None:
        return
    stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
    greys = [grey for grey, seconds in scenes for _ in range(round(seconds * 10))]
    for index, grey in enumerate(greys):
        flat = np.full((36, 64), grey, np.uint8)
        frame = av.VideoFrame.from_ndarray(flat, format="gray").reformat(format="yuv420p")
        frame.pts = times[index] if times else index
        frame.time_base = Fraction(1, 10)
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


def _write_sound(container: Any, stream: Any, seconds: float) -> None:
    import av

    if stream is None:
        return
    for index in range(int(seconds * 8)):
        silence = np.zeros((1, 1000), np.int16)
        frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
        frame.sample_rate, frame.pts = 8000, index * 1000
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


def _write_subtitles(
    container: Any, stream: Any, subtitles: Sequence[tuple[float, float, str]]
) -> None:
    from av.subtitles.subtitle import SubtitleSet

    for start, stop, text in subtitles:
        line = b"0,0,Default,,0,0,0,," + text.encode()
        shown = SubtitleSet.create(line, 0, int((stop - start) * 1000))
        packet = stream.codec_context.encode_subtitle(shown)
        packet.stream = stream
        packet.time_base = Fraction(1, 1000)
        packet.pts = packet.dts = int(start * 1000)
        packet.duration = int((stop - start) * 1000)
        container.mux(packet)
