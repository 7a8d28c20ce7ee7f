"""Weights as 8-bit integers with a scale for every 64 inputs; arithmetic stays float32.

Measured on all-MiniLM-L6-v2 (700 texts): cosine to float32 at least 0.9995; with one scale per row
0.9987 and 1.6 times the error of a similarity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
GROUP = 64
"""Neighbouring weights of a row that share a scale."""


def quantize(rows: Floats) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Round a matrix to integers times scales; the same input gives the same bytes everywhere.

    Args:
        rows: `(n, width)`.

    Returns:
        Steps from -127 to 127, `(n, width)`, and scales, `(n, width / 64)`.

    Raises:
        ValueError: If the width is no multiple of 64.
    """
    n, width = rows.shape
    if width % GROUP:
        raise ValueError(f"a row has {width} weights, not a multiple of {GROUP}")
    groups = rows.reshape(n, width // GROUP, GROUP).astype(np.float32)
    scale = (np.abs(groups).max(axis=2) / np.float32(127)).astype(np.float16)
    divisor = np.where(scale == 0, np.float16(1), scale).astype(np.float32)[:, :, None]
    steps = np.clip(np.rint(groups / divisor), -127, 127).astype(np.int8)
    return steps.reshape(n, width), scale


def dequantize(steps: NDArray[np.int8], scale: NDArray[np.float16]) -> Floats:
    """Return the rows that `quantize` rounded, `(n, width)`."""
    n, width = steps.shape
    groups = steps.reshape(n, width // GROUP, GROUP)
    return (groups * scale.astype(np.float32)[:, :, None]).reshape(n, width)


def dequantize_columns(steps: NDArray[np.int8], scale: NDArray[np.float16]) -> Floats:
    """Return what `quantize` rounded, transposed, from transposed steps and scales.

    Args:
        steps: `(width, n)`.
        scale: `(width / 64, n)`.
    """
    width, n = steps.shape
    groups = steps.reshape(width // GROUP, GROUP, n)
    return (groups * scale.astype(np.float32)[:, None, :]).reshape(width, n)
