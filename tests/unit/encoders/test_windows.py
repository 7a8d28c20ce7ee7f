from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.encoders.windows import Run, Sums, batches, cut

runs = st.lists(
    st.builds(
        Run,
        st.none() | st.integers(0, 5),
        st.lists(st.integers(0, 9), max_size=40).map(tuple),
    ),
    max_size=12,
)


@given(runs, st.integers(1, 30))
def test_windows_hold_every_token_in_order_and_none_is_overfull(
    given_runs: list[Run], capacity: int
) -> None:
    windows = cut(7, given_runs, capacity)
    tokens = [(run.row, token) for run in given_runs for token in run.ids]
    found = [(run.row, token) for w in windows for run in w.runs for token in run.ids]
    assert found == tokens
    assert all(window.n_tokens <= capacity for window in windows)
    assert all(window.n_tokens == sum(len(run.ids) for run in window.runs) for window in windows)
    assert all(window.part == 7 for window in windows)
    assert len(windows) == 1 or all(window.n_tokens for window in windows)


def test_a_run_that_fits_a_window_is_not_cut() -> None:
    windows = cut(0, [Run(0, range(6)), Run(1, range(6)), Run(2, range(6))], 10)
    assert [[run.row for run in window.runs] for window in windows] == [[0], [1], [2]]


def test_windows_are_about_equally_full() -> None:
    windows = cut(0, [Run(row, (1,)) for row in range(12)], 10)
    assert [window.n_tokens for window in windows] == [6, 6]


def test_a_part_without_tokens_is_still_read() -> None:
    assert len(cut(0, [], 10)) == 1
    assert len(cut(0, [Run(0, ())], 10)) == 1


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200))
def test_batches_hold_each_position_once_within_the_padded_limit(
    lengths: list[int], max_tokens: int
) -> None:
    found = list(batches(lengths, max_tokens))
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[position] for position in batch)
        assert lengths[batch[0]] == longest
        assert len(batch) == 1 or longest * len(batch) <= max_tokens


def test_means_are_over_all_added_tokens_and_zero_without() -> None:
    sums = Sums(2, 3)
    sums.add(0, np.array([[1, 2, 3]], np.float32))
    sums.add(0, np.array([[3, 2, 1], [2, 2, 2]], np.float32))
    assert sums.means().tolist() == [[2, 2, 2], [0, 0, 0]]
    assert sums.count.tolist() == [3, 0]
