"""From the differences of a video's pictures to the times of its cuts (D1). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MIN_JUMP = 12.0
_JUMP_OVER_USUAL = 2.5
_NEIGHBOURS = 12
_KEY_FRAME_JUMP = 30.0


def find_cuts(
    times: Sequence[float], differences: Sequence[float], *, key_frames: bool = False
) -> list[float]:
    """Return the times at which the picture changes at once, ascending.

    A cut stands out from the movement around it: its difference is at least 12 grey levels and 2.5
    times the median of the 12 frames before and after. Between key frames there is nothing to
    compare with, and at least 30 grey levels make a cut.

    Args:
        times: When each frame begins, ascending seconds.
        differences: Mean absolute difference of each frame to the one before, in grey levels of 0
            to 255; 0 for the first.
        key_frames: Whether the frames are key frames only, seconds apart.
    """
    if key_frames:
        jumps = np.asarray(differences) >= _KEY_FRAME_JUMP
    else:
        jumps = _stand_out(np.asarray(differences, dtype=np.float64))
    return [time for time, jump in zip(times, jumps, strict=True) if jump]


def _stand_out(differences: NDArray[np.float64]) -> NDArray[np.bool_]:
    if not differences.size:
        return np.zeros(0, dtype=np.bool_)
    padded = np.pad(differences, _NEIGHBOURS, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1)
    candidates = np.flatnonzero(differences >= _MIN_JUMP)
    found = np.zeros(differences.shape, dtype=np.bool_)
    if candidates.size:
        around = np.delete(windows[candidates], _NEIGHBOURS, axis=1)  # (n_candidates, 24)
        usual = np.median(around, axis=1)
        found[candidates] = differences[candidates] >= _JUMP_OVER_USUAL * usual
    return found
