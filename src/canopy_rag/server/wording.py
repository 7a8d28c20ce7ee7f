"""What is wrong with a body, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_CHARS = 500


def first_problem(problems: Sequence[Mapping[str, Any]]) -> str:
    """Return the first of pydantic's problems, with the place of it; values are not repeated.

    >>> first_problem([{"loc": ("body", "k"), "msg": "Input should be a valid integer"}])
    'k: Input should be a valid integer'
    """
    if not problems:
        return "the body is not what this path takes"
    first = problems[0]
    place = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    message = str(first.get("msg", "is wrong")).removeprefix("Value error, ")
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return (f"{place}: {message}" if place else message)[:MAX_CHARS] + more
