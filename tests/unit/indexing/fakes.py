"""A format of one item per line, with every way to go wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from canopy_rag.core.errors import EncodeError, IngestError
from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload, item_id
from canopy_rag.core.vectors import ItemVectors
from canopy_rag.indexing import IndexOptions, IndexReport, SourceReader, index_files
from canopy_rag.indexing.sources import Note
from canopy_rag.testing.hashing import HashingEncoder


def parse(path: Path, uri: str, note: Note) -> Iterator[Item]:
    beside = path.with_suffix(".cap")
    title = beside.read_text("utf-8") if beside.exists() else "no caption"
    for ordinal, line in enumerate(path.read_text("utf-8").splitlines()):
        if line == "BROKEN":
            raise IngestError(str(path), "is broken", place=f"line {ordinal + 1}")
        if line == "BUG":
            raise ZeroDivisionError("a bug in a parser")
        if line == "CRASH":
            os._exit(7)
        if line == "NOTE":
            note(uri, "a picture in it could not be used")
            continue
        half = len(line) // 2
        yield Item(
            id=item_id(uri, ordinal),
            modality="text",
            title=title,
            payload=TextPayload(text=line),
            nodes=text_tree(len(line), [[(0, half), (half, len(line))]], (), 2),
            source=Source(uri=uri, ordinal=ordinal),
        )


def supports(path: Path) -> bool:
    return path.suffix == ".txt"


def companions(path: Path) -> Sequence[Path]:
    beside = path.with_suffix(".cap")
    return [beside] if beside.exists() else []


def is_companion(path: Path) -> bool:
    return path.suffix == ".cap" and path.with_suffix(".txt").exists()


READER = SourceReader(
    parse=parse, supports=supports, companions=companions, is_companion=is_companion
)


class PickyEncoder(HashingEncoder):
    """Fails on items that say so; counts the items it encoded."""

    def __init__(self) -> None:
        super().__init__(dim=16)
        self.n_encoded = 0

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        for item in items:
            assert isinstance(item.payload, TextPayload)
            if "UNENCODABLE" in item.payload.text:
                raise EncodeError(item.id, "makes no sense to this model")
        self.n_encoded += len(items)
        return super().encode_items(items)


class Bench:
    """An index folder, its store and encoder, and runs over them."""

    def __init__(self, folder, store, encoder=None) -> None:
        self.folder = folder
        self.store = store
        self.encoder = encoder or PickyEncoder()

    def run(self, *paths, settings="s", reader=READER, on_progress=None, **options) -> IndexReport:
        return index_files(
            [Path(path) for path in paths],
            folder=self.folder,
            store=self.store,
            encoder=self.encoder,
            reader=reader,
            settings=settings,
            options=IndexOptions(**options),
            on_progress=on_progress,
        )


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), "utf-8")
    return path
