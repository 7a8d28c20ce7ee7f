from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import check_tree
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.text import DefaultSplitter


@pytest.fixture
def options() -> IngestOptions:
    return IngestOptions(splitter=DefaultSplitter())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file into the test's folder."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def check_slices() -> Callable[[Sequence[Item], str], None]:
    """Check that each node says what the decoded file says at the place that it names."""

    def check(items: Sequence[Item], text: str) -> None:
        for item in items:
            check_tree(item.nodes)
            for node in item.nodes:
                place = locate(item, node.start, node.stop)
                if isinstance(item.payload, TextPayload):
                    assert place.char is not None
                    shown = item.payload.text[int(node.start) : int(node.stop)]
                    assert text[slice(*place.char)] == shown
                elif isinstance(item.payload, TablePayload) and node.start < node.stop:
                    assert place.char is not None
                    lines = text[slice(*place.char)].splitlines()
                    rows = item.payload.rows[int(node.start) : int(node.stop)]
                    assert len(lines) == len(rows)
                    for line, row in zip(lines, rows, strict=True):
                        assert all(cell in line for cell in row)

    return check


@pytest.fixture
def check_covered() -> Callable[[Sequence[Item], str], None]:
    """Check that every word stands in an item's text, a table, or the headings above one."""

    def check(items: Sequence[Item], text: str) -> None:
        held = "\n".join(
            part
            for item in items
            for part in (
                item.title,
                *item.section,
                *(
                    [item.payload.text]
                    if isinstance(item.payload, TextPayload)
                    else [cell for row in (item.payload.header, *item.payload.rows) for cell in row]
                    if isinstance(item.payload, TablePayload)
                    else []
                ),
            )
        )
        missing = [word for word in text.split() if word not in held]
        assert not missing

    return check
