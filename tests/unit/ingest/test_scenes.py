from __future__ import annotations

from canopy_rag.ingest.scenes import find_cuts


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
