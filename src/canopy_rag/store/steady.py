"""Reading while another process compacts: files may go between looking and reading."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from canopy_rag.core.errors import StoreError


class Refreshed(Protocol):
    """Something whose view of the tables can be brought up to date."""

    def refresh(self) -> None:
        """Look at once for commits of other processes."""
        ...


S = TypeVar("S", bound=Refreshed)
P = ParamSpec("P")
R = TypeVar("R")


def steady(read: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have a method read once more, what is there now, when its first attempt failed."""

    @functools.wraps(read)
    def again(store: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return read(store, *args, **kwargs)
        except StoreError:
            store.refresh()
            return read(store, *args, **kwargs)

    return again
