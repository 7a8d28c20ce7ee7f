"""Reading the replies of embedding servers; which vector is missing or broken is told by name."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import numpy as np

from canopy_rag.core.errors import EncodeError, ModelError
from canopy_rag.encoders.quantize import Floats

EXCERPT_CHARS = 300


class ServerError(EncodeError):
    """The server failed whatever it was asked, so that no item is to blame.

    Args:
        reason: What is wrong and what to do.
    """

    def __init__(self, reason: str) -> None:
        ModelError.__init__(self, reason)
        self.item_id = ""


def rows_of(reply: Any, names: Sequence[str], url: str) -> Floats:
    """Return the vectors of a reply, `(n, dim)`, in the order of the inputs.

    Args:
        reply: As parsed.
        names: Of the inputs.
        url: For messages.

    Raises:
        EncodeError: Naming the first input without a vector, or with one of another length.
        ServerError: If the reply is none of the embeddings API.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        told = json.dumps(reply, ensure_ascii=False)[:EXCERPT_CHARS]
        raise ServerError(f"{url} answered no list of vectors but {told}; check the base URL")
    places = [one.get("index", position) for position, one in enumerate(data)]
    by_place = {
        place: one for place, one in zip(places, data, strict=True) if isinstance(place, int)
    }
    for position, name in enumerate(names):
        if position not in by_place:
            raise EncodeError(
                name, f"{url} gave {len(data)} vectors for {len(names)} inputs, none for this one"
            )
    if len(data) != len(names):
        raise ServerError(f"{url} gave {len(data)} vectors for {len(names)} inputs")
    rows = [
        _row(by_place[position].get("embedding"), name, url) for position, name in enumerate(names)
    ]
    for name, row in zip(names, rows, strict=True):
        if len(row) != len(rows[0]) or not len(row):
            raise EncodeError(
                name,
                f"{url} gave a vector of {len(row)} entries, and one of {len(rows[0])} in the same "
                "reply",
            )
    return np.vstack(rows)


def _row(told: Any, name: str, url: str) -> Floats:
    try:
        if isinstance(told, str):
            return np.frombuffer(base64.b64decode(told, validate=True), "<f4")
        row = np.asarray(told, np.float32)
    except (binascii.Error, ValueError, TypeError) as error:
        raise EncodeError(name, f"{url} gave a vector that cannot be read ({error})") from error
    if row.ndim != 1:
        raise EncodeError(name, f"{url} gave no vector but an array of shape {row.shape}")
    return row


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds `Retry-After` asks to wait, given as seconds or as a date."""
    told = headers.get("retry-after", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time())
    except ValueError:
        return None
