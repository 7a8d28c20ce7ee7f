from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.questions import Question
from canopy_rag.core.trees import check_tree
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.datasets.base import Loaded
from canopy_rag.text import DefaultSplitter

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def splitter() -> DefaultSplitter:
    return DefaultSplitter()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below `tmp_path`: JSON, JSON Lines (a list to `.jsonl`), or text; or gzipped."""

    def writing(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            text = content
        elif ".jsonl" in name:
            text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in content)
        else:
            text = json.dumps(content, ensure_ascii=False)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return writing


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder that CANOPY_DATA names: one folder per benchmark with official files."""
    folder = os.environ.get("CANOPY_DATA")
    if not folder:
        pytest.skip("CANOPY_DATA names no folder with samples of the benchmarks")
    return Path(folder)


@pytest.fixture(scope="session")
def shown() -> Callable[[Loaded, Question], list[str]]:
    """What a question's gold spans say; checks on the way that every one lies in its item."""

    def showing(loaded: Loaded, question: Question) -> list[str]:
        items: dict[str, Item] = {}
        for item in loaded.items():
            assert item.id not in items
            check_tree(item.nodes)
            items[item.id] = item
        said: list[str] = []
        for span in question.gold:
            item = items[span.item_id]
            start, stop = int(span.start), int(span.stop)
            assert 0 <= start < stop <= item.nodes[0].stop
            match item.payload:
                case TextPayload(text=text):
                    said.append(text[start:stop])
                case TablePayload(rows=rows):
                    cells = rows[start] if span.column is None else (rows[start][span.column],)
                    said.append("; ".join(cells))
        return said

    return showing
