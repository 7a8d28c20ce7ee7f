from __future__ import annotations

import itertools

import pytest

from canopy_rag.core.segments import Cue, by_segment, sample_times, segment_bounds, spread

SEGMENTS = [(0.0, 4.0), (4.0, 8.0), (8.0, 12.0)]


def cue(start: float, stop: float, text: str = "x") -> Cue:
    return Cue(start=start, stop=stop, text=text)


def test_segments_are_the_scenes() -> None:
    assert segment_bounds([4.0, 12.0], 20.0, 10.0) == [(0.0, 4.0), (4.0, 12.0), (12.0, 20.0)]


def test_a_short_scene_joins_the_next_and_the_last_one_the_one_before() -> None:
    assert segment_bounds([4.0, 5.0, 8.0, 19.0], 20.0, 10.0) == [
        (0.0, 4.0),
        (4.0, 8.0),
        (8.0, 20.0),
    ]


def test_a_video_without_cuts_is_divided_evenly() -> None:
    assert segment_bounds([], 25.0, 10.0) == [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]


def test_a_remainder_under_two_seconds_stays_with_its_neighbour() -> None:
    assert segment_bounds([], 21.0, 10.0) == [(0.0, 10.0), (10.0, 21.0)]


def test_a_scene_up_to_thirty_seconds_stays_whole_and_a_longer_one_is_divided() -> None:
    assert segment_bounds([30.0], 65.0, 10.0) == [
        (0.0, 30.0),
        (30.0, 40.0),
        (40.0, 50.0),
        (50.0, 60.0),
        (60.0, 65.0),
    ]


def test_cuts_outside_the_video_are_ignored() -> None:
    assert segment_bounds([-1.0, 0.0, 99.0], 8.0, 10.0) == [(0.0, 8.0)]


@pytest.mark.parametrize("stop", [0.04, 1.0, 1.99, 2.0, 10.0, 11.9, 12.0, 3600.5])
def test_segments_cover_the_video_without_gap(stop: float) -> None:
    segments = segment_bounds([], stop, 10.0)
    assert segments[0][0] == 0.0
    assert segments[-1][1] == stop
    assert all(left[1] == right[0] for left, right in itertools.pairwise(segments))


def test_frames_are_taken_about_every_two_seconds_inside_the_segment() -> None:
    assert sample_times(4.0, 8.0, 8) == (5.0, 7.0)
    assert sample_times(0.0, 0.4, 8) == (0.2,)


def test_a_long_segment_has_the_most_frames_allowed() -> None:
    frames = sample_times(0.0, 30.0, 8)
    assert len(frames) == 8
    assert list(frames) == sorted(frames)
    assert frames[0] > 0.0
    assert frames[-1] < 30.0


def test_items_of_a_long_video_are_about_equally_long_and_within_the_limit() -> None:
    segments = [(start * 10.0, start * 10.0 + 10.0) for start in range(61)]
    items = spread(segments, 600.0)
    assert [len(item) for item in items] == [31, 30]
    assert [index for item in items for index in item] == list(range(61))


def test_a_video_within_the_limit_is_one_item() -> None:
    assert spread([(0.0, 300.0), (300.0, 600.0)], 600.0) == [[0, 1]]


def test_a_segment_longer_than_the_limit_is_an_item_of_its_own() -> None:
    assert spread([(0.0, 9.0), (9.0, 12.0), (12.0, 14.0)], 5.0) == [[0], [1, 2]]


def test_a_cue_over_several_segments_goes_where_it_overlaps_most() -> None:
    texts, outside = by_segment([cue(3.0, 9.0, "long"), cue(3.5, 4.2, "short")], SEGMENTS)
    assert texts == ["short", "long", ""]
    assert outside == []


def test_of_equal_overlaps_the_earlier_segment_has_the_cue() -> None:
    assert by_segment([cue(3.0, 5.0)], SEGMENTS)[0] == ["x", "", ""]


def test_overlapping_cues_of_a_segment_stand_by_time_one_a_line() -> None:
    texts, _ = by_segment([cue(1.0, 3.0, "a"), cue(2.0, 3.5, "b")], SEGMENTS)
    assert texts[0] == "a\nb"


def test_a_cue_without_length_goes_where_it_begins() -> None:
    assert by_segment([cue(4.0, 4.0)], SEGMENTS)[0] == ["", "x", ""]


def test_a_cue_after_the_end_is_returned_as_outside() -> None:
    late = cue(13.0, 14.0)
    assert by_segment([late], SEGMENTS) == (["", "", ""], [late])


def test_every_cue_is_placed_once_or_returned() -> None:
    cues = [cue(i / 3, i / 3 + i % 7, f"cue {i}") for i in range(40)]
    texts, outside = by_segment(cues, SEGMENTS)
    placed = [line for text in texts for line in text.splitlines()]
    assert sorted(placed + [each.text for each in outside]) == sorted(c.text for c in cues)
