from __future__ import annotations

import numpy as np
import pytest

from canopy_rag.encoders.quantize import dequantize, dequantize_columns, quantize


def test_rounding_moves_a_weight_by_at_most_about_half_a_step_of_its_own_group() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 192), np.float32)
    rows[:, :64] *= 100  # a group of large weights must not coarsen the others
    steps, scale = quantize(rows)
    error = np.abs(dequantize(steps, scale) - rows).reshape(5, 3, 64).max(axis=2)
    # The largest weight of a group may also lose what its float16 scale was rounded down by.
    assert (error <= scale.astype(np.float32) * (0.5 + 127 * 2**-11) + 1e-7).all()


def test_the_transposed_form_gives_the_transposed_rows() -> None:
    rows = np.random.default_rng(1).standard_normal((7, 128), np.float32)
    steps, scale = quantize(rows)
    assert (dequantize_columns(steps.T, scale.T) == dequantize(steps, scale).T).all()


def test_a_group_of_zeros_stays_zero() -> None:
    rows = np.zeros((2, 64), np.float32)
    assert not dequantize(*quantize(rows)).any()


def test_a_width_that_groups_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="65 weights, not a multiple of 64"):
        quantize(np.zeros((2, 65), np.float32))
