"""Logs without secrets: no headers, no query strings, and keys blotted out wherever they are."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from canopy_rag.config import Secret

MAX_PATH_CHARS = 200
STARS = "****"


def shown_path(path: str) -> str:
    r"""Return a request's path for the log: short, on one line, whatever bytes it holds.

    >>> shown_path("/v1/items/a b\n[INFO] forged")
    '/v1/items/a b\\n[INFO] forged'
    """
    escaped = path[:MAX_PATH_CHARS].encode("unicode_escape").decode("ascii")
    return escaped + ("..." if len(path) > MAX_PATH_CHARS else "")


class Redacting(logging.Formatter):
    """Writes records, tracebacks included, with stars in the place of secrets.

    Args:
        secrets: What must not be written.
        fmt: As for `logging.Formatter`.
    """

    def __init__(self, secrets: Sequence[Secret | None], fmt: str | None = None) -> None:
        super().__init__(fmt)
        self._secrets = [each for each in secrets if each is not None]

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        text = super().format(record)
        for secret in self._secrets:
            if secret.reveal():
                text = text.replace(secret.reveal(), STARS)
        return text
