"""What the paper reports, where its appendices say it; `paper.json` names the place of each."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

IN_DOMAIN = frozenset(("nq", "hotpotqa", "ottqa", "mmqa", "lvbench"))
"""What the paper's figures over `all` benchmarks are over."""


@cache
def _values() -> dict[tuple[str, str, str], float]:
    file = resources.files(__package__) / "paper.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    return {
        (each["benchmark"], each["method"], each["figure"]): each["value"]
        for each in document["values"]
    }


def paper_value(benchmark: str, method: str, figure: str) -> float | None:
    """Return a number of the paper; None where its appendices do not state it.

    Args:
        benchmark: A name, `all`, or a modality.
        method: Full name of a method, an encoder's role, or nothing.
        figure: As in `metrics.json`; shares and scores from 0 to 1.

    >>> paper_value("tatqa", "canopy", "f1")
    0.721
    """
    return _values().get((benchmark, method, figure))
