from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.config import EncoderConfig
from canopy_rag.datasets.registry import benchmark
from canopy_rag.text import DefaultSplitter
from canopy_rag.training.data import Portion, Source, portion, read_source

THINGS = (
    ("lamp", "brass", "1863"),
    ("bell", "iron", "1902"),
    ("clock", "oak", "1744"),
    ("mirror", "silver", "1811"),
    ("door", "pine", "1950"),
    ("kettle", "copper", "1888"),
)
Make = Callable[..., Path]


def own_data(n: int = 24, extra: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Questions about things, each with a text that answers in its second sentence."""
    lines: list[dict[str, Any]] = []
    for number in range(n):
        name, metal, year = THINGS[number % len(THINGS)]
        title = f"{name.title()} {number}"
        text = (
            f"The {name} stands in hall {number}. It was made of {metal} in {year}. "
            "Nobody knows who paid for it. The hall is open on Sundays."
        )
        lines.append({"id": f"p{number}", "title": title, "text": text})
        question = f"What was the {name} in hall {number} made of?"
        gold = [{"item": f"p{number}", "quote": metal}]
        lines.append({"id": f"q{number}", "question": question, "answers": [metal], "gold": gold})
    return [*lines, *extra]


@pytest.fixture
def write_own(tmp_path: Path) -> Make:
    """Write own data as JSON Lines and return the file."""

    def writing(n: int = 24, extra: Sequence[dict[str, Any]] = ()) -> Path:
        path = tmp_path / "own.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in own_data(n, extra)))
        return path

    return writing


@pytest.fixture
def source(write_own: Make) -> Source:
    return read_source(
        benchmark("jsonl"), write_own(), DefaultSplitter(), parts=("train", "validation")
    )


@pytest.fixture
def learned(source: Source) -> Portion:
    return portion([source], "train")


@pytest.fixture
def judged(source: Source) -> Portion:
    return portion([source], "validation")


@pytest.fixture
def hashing() -> EncoderConfig:
    return EncoderConfig(name="hashing")
