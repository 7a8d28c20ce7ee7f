"""Warnings of decoders that meet damaged data: what matters of them is told in other ways."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

# Python keeps warning filters for the whole process: two threads must not restore them crosswise.
_lock = threading.Lock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings, one thread at a time. Not reentrant."""
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
