"""Text in pictures, by RapidOCR with the models that its package brings; nothing is downloaded.

About 0.25 s of one core for a photo without text and several seconds for a dense page.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy_rag._optional import require

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE_PX = 2000
"""Longer sides are scaled down first; an A4 page at 150 dpi stays as it is."""

_MIN_SIDE_PX = 12
_MAX_ASPECT = 30
_MIN_CONFIDENCE = 0.7
_lock = threading.Lock()


def available() -> bool:
    """Return whether the `ocr` extra is installed. Loads nothing."""
    return importlib.util.find_spec("rapidocr") is not None


def read_text(image: Image.Image) -> str:
    """Return the text in an upright RGB image, one line for each line found, top to bottom.

    Lines of low confidence are left out, and so are single letters or digits where nothing else
    is found: round things in photos look like them. Images under 12 pixels in a side, or over 30
    times as long as wide, hold no legible text.

    Raises:
        MissingDependencyError: If the `ocr` extra is not installed.
    """
    short, long = sorted(image.size)
    if short < _MIN_SIDE_PX or long > _MAX_ASPECT * short:
        return ""
    if long > MAX_SIDE_PX:
        size = (image.width * MAX_SIDE_PX // long, image.height * MAX_SIDE_PX // long)
        image = image.resize(size, reducing_gap=2.0)
    with _lock:
        found = _engine()(np.asarray(image)[:, :, ::-1])  # (height, width, BGR)
    confident = [
        text.strip()
        for text, confidence in zip(found.txts or (), found.scores or (), strict=True)
        if confidence >= _MIN_CONFIDENCE and text.strip()
    ]
    if all(len(line) == 1 and line.isascii() for line in confident):
        return ""
    return "\n".join(confident)


@functools.cache
def _engine() -> Any:
    rapidocr = require("rapidocr", extra="ocr", feature="reading text in images")
    return rapidocr.RapidOCR(
        params={
            "Global.log_level": "critical",
            # One thread: the work is spread over files, not inside one.
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
