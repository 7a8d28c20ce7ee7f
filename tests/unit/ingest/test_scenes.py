from __future__ import annotations

import itertools

import pytest

from canopy_rag.ingest.scenes import find_cuts, sample_times, segment_bounds, spread


def times(n: int) -> list[float]:
    return [index / 10 for index in range(n)]


def test_a_jump_out_of_stillness_is_a_cut() -> None:
    differences = [0.0] * 50
    differences[20] = 60.0
    assert find_cuts(times(50), differences) == [2.0]


def test_steady_movement_is_no_cut_however_large() -> None:
    assert find_cuts(times(50), [40.0] * 50) == []


def test_a_jump_over_movement_is_a_cut() -> None:
    differences = [20.0] * 50
    differences[30] = 60.0
    assert find_cuts(times(50), differences) == [3.0]


def test_a_flicker_in_stillness_is_no_cut() -> None:
    differences = [0.0] * 50
    differences[20] = 8.0
    assert find_cuts(times(50), differences) == []


def test_between_key_frames_a_large_difference_is_a_cut_without_comparison() -> None:
    assert find_cuts([0.0, 5.0, 10.0], [0.0, 45.0, 50.0], key_frames=True) == [5.0, 10.0]


def test_no_frame_has_no_cut() -> None:
    assert find_cuts([], []) == []


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
