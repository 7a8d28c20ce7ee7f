from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.unit.indexing.fakes import parse

from canopy_rag.core.errors import EncodeError
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors
from canopy_rag.indexing import encoding
from canopy_rag.indexing.encoding import Encoding
from canopy_rag.indexing.parsing import Parsed, Work
from canopy_rag.testing.hashing import HashingEncoder

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one line, three nodes, is a batch; two more are encoded ahead."""
    monkeypatch.setattr(encoding, "BATCH_NODES", 3)
    monkeypatch.setattr(encoding, "GROUP_NODES", 3)


def file(folder: Path, name: str, *lines: str) -> tuple[Work[str], Parsed]:
    path = folder / f"{name}.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    items = list(parse(path, name, lambda *_: None))
    return Work(path=path, uri=name, about=name), Parsed(items=items)


class Waiting(HashingEncoder):
    """Encodes its first batch only when the next file has been parsed."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed_on = threading.Event()
        self.in_time: list[bool] = []

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        self.in_time.append(self.parsed_on.wait(PATIENCE_S))
        return super().encode_items(items)


def test_files_are_parsed_on_while_others_are_encoded(tmp_path: Path) -> None:
    encoder = Waiting()

    def files() -> Iterator[tuple[Work[str], Parsed]]:
        yield file(tmp_path, "a", "Ada wrote it.")
        encoder.parsed_on.set()
        yield file(tmp_path, "b", "It rained.")

    with contextlib.closing(Encoding(encoder, checksum=str)) as encoded:
        done = [work.uri for work, _ in encoded.encoded(files())]
    assert done == ["a", "b"]
    assert encoder.in_time == [True, True]


def test_no_more_is_parsed_ahead_than_two_batches_beside_a_group(tmp_path: Path) -> None:
    parsed: list[int] = []

    def files() -> Iterator[tuple[Work[str], Parsed]]:
        for number in range(8):
            parsed.append(number)
            yield file(tmp_path, f"{number}", f"line {number}")

    with contextlib.closing(Encoding(HashingEncoder(), checksum=str)) as encoded:
        ahead = [parsed[-1] - int(work.uri) for work, _ in encoded.encoded(files())]
    assert max(ahead) <= 2


def test_the_file_of_an_item_that_fails_is_left_out_and_the_others_of_its_batch_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "BATCH_NODES", 9)

    class Picky(HashingEncoder):
        def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
            for item in items:
                if "BAD" in item.payload.text:
                    raise EncodeError(item.id, "no number")
            return super().encode_items(items)

    files = [file(tmp_path, name, f"line {name}") for name in ("a", "BAD", "c")]
    with contextlib.closing(Encoding(Picky(), checksum=str)) as encoded:
        done = {work.uri: each for work, each in encoded.encoded(files)}
    assert [len(done[name].entries) for name in ("a", "BAD", "c")] == [1, 0, 1]
    assert done["BAD"].reason is not None
    assert "no number" in done["BAD"].reason


def test_a_large_file_is_parsed_on_while_its_first_part_is_encoded(tmp_path: Path) -> None:
    encoder = Waiting()
    work, whole = file(tmp_path, "large", *(f"line {number}" for number in range(4)))

    def rest() -> Iterator[Item]:
        for place, item in enumerate(whole.items[1:]):
            if place == 0:
                encoder.parsed_on.set()
            yield item

    large = Parsed(items=whole.items[:1], rest=rest())
    with contextlib.closing(Encoding(encoder, checksum=str)) as encoded:
        ((_, found),) = encoded.encoded([(work, large)])
        assert found.rest is not None
        parts = list(found.rest)
    assert [len(part) for part in parts] == [1, 1, 1, 1]
    assert all(encoder.in_time)
