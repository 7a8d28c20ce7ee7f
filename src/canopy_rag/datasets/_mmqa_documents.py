"""MultiModalQA's tables, texts and images: streamed, kept only where gold is looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.trees import image_tree
from canopy_rag.core.types import ImagePayload, Item, Source, item_id
from canopy_rag.datasets._items import passage_item
from canopy_rag.datasets._read import Record, found_files, json_lines
from canopy_rag.datasets._tables import table_item

TABLES, TEXTS, IMAGES = "MMQA_tables.jsonl", "MMQA_texts.jsonl", "MMQA_images.jsonl"
PICTURES = "final_dataset_images"

_EXIF_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)


def official(folder: Path, *names: str) -> list[Path]:
    """Return official files of a folder, whether it is the repository or its `dataset`."""
    return found_files(folder, *(place for name in names for place in (f"dataset/{name}", name)))


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents that questions name."""

    folder: Path
    pool: Collection[str]
    """Ids of all documents that become items."""
    texts: Mapping[str, str]
    """Gold texts by id."""
    tables: Mapping[str, list[list[str]]]
    """Rows of gold tables by id."""
    images: Mapping[str, tuple[Path, int, int]]
    """File, width and height of the pool's images by id; of those that can be read."""
    n_missing_images: int
    unreadable: tuple[str, ...]
    """File and reason of the pool's images that are there but cannot be read."""

    def items(self, splitter: SentenceSplitter) -> Iterator[Item]:
        """Yield the pool: tables, then texts, then images, each document once."""
        seen: set[str] = set()
        for name in (TABLES, TEXTS, IMAGES):
            for document, record in _records(self.folder, name, self.pool):
                item = self._item(name, document, record, splitter)
                if item is not None and document not in seen:
                    seen.add(document)
                    yield item

    def _item(
        self, name: str, document: str, record: Record, splitter: SentenceSplitter
    ) -> Item | None:
        title = record.want("title", str)
        if name == TABLES:
            return _table(document, title, record)
        if name == TEXTS:
            text = record.want("text", str)
            sentences = splitter.split(text)
            return passage_item("mmqa", uri_of(document), title, text, sentences)
        found = self.images.get(document)
        return _image(document, title, *found) if found else None


def read_documents(folder: Path, pool: Collection[str], gold: Collection[str]) -> Documents:
    """Read what is needed to locate gold, from whichever files are there.

    Args:
        folder: The benchmark's.
        pool: Ids of all documents that questions name.
        gold: Those that hold evidence.

    Raises:
        DataError: Naming file, line and field of what is wrong.
        MissingDependencyError: If images are there and Pillow is not installed.
    """
    images: dict[str, tuple[Path, int, int]] = {}
    unreadable: list[str] = []
    n_missing = 0
    for document, record in _records(folder, IMAGES, pool):
        path = _picture(folder, record)
        if path is None:
            n_missing += 1
            continue
        try:
            images[document] = (path, *_size(path))
        except IngestError as error:
            unreadable.append(str(error))
    return Documents(
        folder=folder,
        pool=pool,
        texts={key: record.want("text", str) for key, record in _records(folder, TEXTS, gold)},
        tables={key: _rows(record) for key, record in _records(folder, TABLES, gold)},
        images=images,
        n_missing_images=n_missing,
        unreadable=tuple(unreadable),
    )


def uri_of(document: str) -> str:
    """Return the name of a document among all benchmarks."""
    return f"mmqa/{document}"


def _records(folder: Path, name: str, ids: Collection[str]) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file that have one of these ids."""
    for path in official(folder, name)[:1]:
        for record in json_lines(path):
            document = record.want("id", str)
            if document in ids:
                yield document, record


def _rows(record: Record) -> list[list[str]]:
    table = record.part("table")
    return [_cell_texts(table, row) for row in table.want("table_rows", list)]


def _cell_texts(table: Record, row: Any) -> list[str]:
    cells = row if isinstance(row, list) else [row]
    texts = [cell.get("text") if isinstance(cell, dict) else None for cell in cells]
    found = [text for text in texts if isinstance(text, str)]
    if len(found) != len(cells):
        raise table.error("the field 'table_rows' must hold rows of objects with a 'text'")
    return found


def _table(document: str, title: str, record: Record) -> Item:
    table = record.part("table")
    return table_item(
        "mmqa",
        uri_of(document),
        title,
        header=[column.want("column_name", str) for column in table.parts("header")],
        rows=_rows(record),
        section=[name] if (name := table.optional("table_name", str, "")).strip() else [],
    )


def _picture(folder: Path, record: Record) -> Path | None:
    name = Path(record.want("path", str)).name
    places = (folder / PICTURES / name, folder / "dataset" / PICTURES / name)
    return next((path for path in places if path.is_file()), None)


def _size(path: Path) -> tuple[int, int]:
    """Return width and height of an image as it is shown, without decoding it."""
    # Loads Pillow, which only folders with images need.
    from canopy_rag.media.images import exif_value, open_image

    with open_image(path, path.name) as image:
        width, height = image.size
        sideways = exif_value(image, _EXIF_ORIENTATION, path.name) in _SIDEWAYS
    return (height, width) if sideways else (width, height)


def _image(document: str, title: str, path: Path, width: int, height: int) -> Item:
    return Item(
        id=item_id(uri_of(document), 0),
        modality="image",
        title=title,
        payload=ImagePayload(media=str(path.absolute()), width=width, height=height),
        nodes=image_tree(),
        source=Source(uri=uri_of(document)),
        corpus="mmqa",
    )
