from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.segments import Cue
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.subtitles import find_sidecars, from_events, load

pytest.importorskip("pysubs2")


def cue(start: float, stop: float, text: str = "x") -> Cue:
    return Cue(start=start, stop=stop, text=text)


def test_srt_markup_is_stripped_and_lines_of_a_cue_are_joined(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    path = write(
        "film.srt", "1\r\n00:00:01,500 --> 00:00:02,250\r\n<i>Hello</i>\r\n<b>you</b> & me\r\n"
    )
    assert load(path, options) == [cue(1.5, 2.25, "Hello you & me")]


def test_vtt_voices_inner_times_and_entities_become_plain_text(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    text = (
        "WEBVTT\n\nNOTE not a cue\n\nfirst\n00:01.000 --> 00:02.000 align:start\n"
        "<v Ann>So <00:01.500>we &amp; they &lt;3\n"
    )
    assert load(write("film.vtt", text), options) == [cue(1.0, 2.0, "So we & they <3")]


def test_ass_comments_and_drawings_are_no_cues_and_shadows_count_once(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    at = "0:00:01.00,0:00:02.00,Default,,0,0,0,,"
    text = (
        "[Script Info]\nScriptType: v4.00+\n\n[Events]\nFormat: Layer, Start, End, Style, Name, "
        f"MarginL, MarginR, MarginV, Effect, Text\nDialogue: 0,{at}{{\\b1}}Hi{{\\b0}}\\Nthere\n"
        f"Dialogue: 1,{at}Hi\\Nthere\nComment: 0,{at}not shown\n"
        f"Dialogue: 0,{at}{{\\p1}}m 0 0 l 9 9{{\\p0}}\n"
    )
    assert load(write("film.ass", text), options) == [cue(1.0, 2.0, "Hi there")]


def test_cues_come_by_time_and_one_that_ends_before_it_begins_has_no_length(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    text = "1\n00:00:05,000 --> 00:00:04,000\nlate\n\n2\n00:00:01,000 --> 00:00:02,000\nearly\n"
    assert load(write("f.srt", text), options) == [cue(1, 2, "early"), cue(5, 5, "late")]


def test_lines_that_scroll_from_cue_to_cue_count_once(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    text = "WEBVTT\n\n" + "\n\n".join(
        f"00:0{i}.000 --> 00:0{i + 1}.000\nline {i}\nline {i + 1}" for i in range(1, 6)
    )
    texts = [cue.text for cue in load(write("auto.vtt", text), options)]
    assert texts == ["line 1 line 2", "line 3", "line 4", "line 5", "line 6"]


def test_a_word_said_twice_is_kept_twice(
    write: Callable[..., Path], options: IngestOptions
) -> None:
    cues = ["No!", "No!", "Yes.", "Fine.", "Go."]
    text = "WEBVTT\n\n" + "\n\n".join(
        f"00:0{i}.000 --> 00:0{i + 1}.000\n{line}" for i, line in enumerate(cues)
    )
    assert [cue.text for cue in load(write("f.vtt", text), options)] == cues


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"no subtitles here", "holds no subtitle"),
        (b"{1}{20}a cue counted in frames", "cannot be read as subtitles"),
        (b"WEBVTT\n", "holds no subtitle"),
        (b"1\n00:00:01,000 --> 00:00:0x,000\nHi\n", "film.srt"),
        (b"\x00\x01\x02", "film.srt"),
    ],
)
def test_a_file_without_usable_cues_is_an_error_that_names_it(
    content: bytes, reason: str, write: Callable[..., Path], options: IngestOptions
) -> None:
    with pytest.raises(IngestError, match=reason) as caught:
        load(write("film.srt", content), options)
    assert caught.value.path == "film.srt"


def test_sidecars_share_the_stem_and_the_plain_one_comes_first(
    write: Callable[..., Path],
) -> None:
    film = write("film.mp4", b"")
    for name in ("film.de.srt", "film.en.vtt", "film.vtt", "film.SRT", "film2.srt", "film.2.srt"):
        write(name, "")
    names = [path.name for path in find_sidecars(film)]
    assert names == ["film.SRT", "film.vtt", "film.en.vtt", "film.de.srt"]


def test_embedded_events_lose_their_markup() -> None:
    assert from_events([(0.5, 1.5, "{\\i1}Well,{\\i0}\\Nyes")]) == [cue(0.5, 1.5, "Well, yes")]
