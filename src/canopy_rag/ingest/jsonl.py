"""JSON Lines: a document a line, each an item of its own; see `documents.document_items`."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, item_id
from canopy_rag.ingest.documents import document_item, document_items
from canopy_rag.ingest.options import IngestOptions


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a JSON Lines file, line by line.

    A line is a string or an object as `documents.document_items` takes it; numbers in cells stay
    as they are written. The `path` of a document is relative to the file and lies below its folder.
    All items belong to this file: its name is their `source.uri`, so that they go when it goes.

    Raises:
        IngestError: Naming the line that is no document, or whose id came before.
    """
    seen: set[str] = set()
    ordinal = 0
    for number, line in _lines(path, uri):
        try:
            items = _line_items(line, path, uri, ordinal, options)
        except IngestError as error:
            reason = error.reason if error.path == uri else str(error)
            raise IngestError(uri, reason, place=f"line {number}") from error
        for item in items:
            if item.id in seen:
                raise IngestError(
                    uri, f"the id {item.id!r} came before; ids must differ", place=f"line {number}"
                )
            seen.add(item.id)
            yield item
        ordinal += len(items)


def _lines(path: Path, uri: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, counted from 1."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if content.strip():
                    yield number, content
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise IngestError(uri, f"cannot be read: {reason}") from error


def _line_items(
    line: bytes, path: Path, uri: str, ordinal: int, options: IngestOptions
) -> list[Item]:
    document = _document(line, uri)
    if isinstance(document, _Number):
        raise IngestError(uri, "must be a text or an object, got a number")
    if not isinstance(document, dict) or "path" not in document:
        item = document_item(document, uri, options, ordinal=ordinal)
        # Characters of a decoded JSON string are not characters of the file.
        return [replace(item, source=replace(item.source, spans=()))]
    named = document.get("id") is not None
    _check_place(document["path"], path.parent, uri)
    return [
        replace(
            item,
            id=item.id if named else item_id(uri, ordinal + number),
            source=replace(item.source, uri=uri, ordinal=ordinal + number),
        )
        for number, item in enumerate(document_items(document, uri, options, base=path.parent))
    ]


def _check_place(written: Any, folder: Path, uri: str) -> None:
    """Refuse a file outside of the list's folder: who hands over a list may not read others'.

    Raises:
        IngestError: If the file is outside, links followed, or is a pipe or device.
    """
    if not isinstance(written, str):
        return  # said when it is read
    try:
        real = (folder / written).resolve()
        is_inside = real.is_relative_to(folder.resolve())
        is_special = real.exists() and not real.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # loops of links, names that cannot be
        raise IngestError(uri, f"names {written!r}, which cannot be a file: {error}") from error
    if not is_inside:
        raise IngestError(
            uri, f"names {written!r}, which is not below its own folder; move it there, or index it"
        )
    if is_special:
        raise IngestError(uri, f"names {written!r}, which is no file")


def _document(line: bytes, uri: str) -> Any:
    try:
        return json.loads(
            line.decode("utf-8"), parse_int=_Number, parse_float=_Number, parse_constant=_Number
        )
    except UnicodeDecodeError as error:
        raise IngestError(uri, f"is not UTF-8 at byte {error.start} of the line") from error
    except json.JSONDecodeError as error:
        raise IngestError(uri, f"is not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise IngestError(uri, "is nested too deeply") from error
