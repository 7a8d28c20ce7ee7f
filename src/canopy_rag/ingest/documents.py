"""Documents that a caller hands over, one item each: text, a table, or a file by its path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError
from canopy_rag.core.trees import table_tree, text_tree
from canopy_rag.core.types import (
    MODALITIES,
    ImagePayload,
    Item,
    Modality,
    Source,
    SourceSpan,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.ingest import registry
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.plain import paragraphs

_CONTENTS = ("text", "table", "path")


def document_items(
    document: str | Path | Mapping[str, Any],
    uri: str,
    options: IngestOptions,
    *,
    base: Path | None = None,
) -> list[Item]:
    """Return the items of one document: one for text or a table, those of the file for a path.

    Args:
        document: A text; a path; or `{"id"?, "modality"?, "title"?, "section"?}` with exactly one
            of `"text"`, `"table": {"header"?, "rows", "caption"?}` and `"path"`. Other keys are
            ignored.
        uri: The name of a document that is no file.
        options: Splitter, branching, and how files become items.
        base: The folder that relative paths start from; None: paths are refused.

    Raises:
        IngestError: If the document is not of this form, is empty, or its file cannot be read.
    """
    if isinstance(document, Path):
        document = {"path": str(document)}
    if isinstance(document, Mapping) and "path" in document:
        _check(document, uri)
        return _file_items(document, uri, options, base)
    return [document_item(document, uri, options)]


def document_item(
    document: str | Mapping[str, Any], uri: str, options: IngestOptions, *, ordinal: int = 0
) -> Item:
    """Return a document that is a text or table as one item, however long.

    The text is kept as given, white space around it included; its places are characters of it.
    Headings are not looked for. Cells are written as text: `None` as nothing, truth values and
    nested data as JSON; short rows are filled up.

    Args:
        document: A text, or a mapping as `document_items` takes it, without `path`.
        uri: The name of the document.
        options: Splitter and branching.
        ordinal: Position among the items of the same source; the id follows from it unless the
            document has one.

    Raises:
        IngestError: If the document is not of this form or is empty.
    """
    fields: Mapping[str, Any] = {"text": document} if isinstance(document, str) else document
    _check(fields, uri)
    if "path" in fields:
        raise IngestError(uri, "gives a path; a text or table is needed here")
    title, section = _words(fields, "title", uri), _section(fields, uri)
    payload: TextPayload | TablePayload
    modality: Modality
    if "text" in fields:
        modality, payload = "text", TextPayload(text=_text(fields["text"], uri))
        sentences = [
            [(start + begin, start + end) for begin, end in options.splitter.split(part)]
            for start, part in _paragraphs(payload.text)
        ]
        length = len(payload.text)
        nodes = text_tree(length, sentences, (), options.branching)
        spans: tuple[SourceSpan, ...] = (SourceSpan(start=0, stop=length, char=(0, length)),)
    else:
        modality, payload = "table", _table(fields["table"], uri)
        nodes, spans = table_tree(len(payload.rows), options.branching), ()
    if fields.get("modality") not in (None, modality):
        raise IngestError(uri, f"has a {modality}, but its modality is {fields['modality']!r}")
    return Item(
        id=_id(fields, uri) or item_id(uri, ordinal),
        modality=modality,
        title=title,
        payload=payload,
        nodes=nodes,
        source=Source(uri=uri, ordinal=ordinal, spans=spans),
        section=section,
    )


def _file_items(
    fields: Mapping[str, Any], uri: str, options: IngestOptions, base: Path | None
) -> list[Item]:
    """Return the items of a file, called as the document calls it."""
    written = fields["path"]
    if not isinstance(written, str) or not written:
        raise IngestError(uri, f"`path` must be a string, got {type(written).__name__}")
    if base is None:
        raise IngestError(uri, "gives a path, which is not allowed here; send the content instead")
    path = base / written
    if registry.family_of(path) == "jsonl":
        raise IngestError(uri, f"names {written!r}: a list of documents cannot be one of them")
    title, section = _words(fields, "title", uri), _section(fields, uri)
    name, own = _id(fields, uri), list(registry.parse(path, Path(written).as_posix(), options))
    wanted = fields.get("modality")
    if wanted is not None and all(item.modality != wanted for item in own):
        raise IngestError(uri, f"names {written!r}, which holds no {wanted}")
    return [
        replace(
            item,
            id=item.id if name is None else name if number == 0 else f"{name}#{number}",
            title=title or item.title,
            section=section or item.section,
            payload=_with_media(item.payload, written, path),
        )
        for number, item in enumerate(own)
    ]


def _with_media(payload: Any, written: str, path: Path) -> Any:
    """Name a picture or video by its absolute path: a document has no indexed root."""
    if not isinstance(payload, ImagePayload | VideoPayload):
        return payload
    part = payload.media.removeprefix(Path(written).as_posix())
    return replace(payload, media=path.resolve().as_posix() + part)


def _check(fields: Mapping[str, Any], uri: str) -> None:
    if not isinstance(fields, Mapping):
        raise IngestError(uri, f"must be a text or an object, got {type(fields).__name__}")
    given = [name for name in _CONTENTS if name in fields]
    if len(given) != 1:
        has = " and ".join(f"`{name}`" for name in given) or "none of them"
        raise IngestError(uri, f"needs exactly one of `text`, `table`, `path`; it has {has}")
    modality = fields.get("modality")
    if modality is not None and modality not in MODALITIES:
        raise IngestError(uri, f"`modality` must be one of {', '.join(MODALITIES)}: {modality!r}")


def _id(fields: Mapping[str, Any], uri: str) -> str | None:
    given = fields.get("id")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise IngestError(uri, f"`id` must be a string that is not empty, got {given!r}")
    return str(given)


def _words(fields: Mapping[str, Any], name: str, uri: str) -> str:
    given = fields.get(name)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise IngestError(uri, f"`{name}` must be a string, got {type(given).__name__}")
    return _encodable(re.sub(r"\s+", " ", given).strip(), uri)


def _section(fields: Mapping[str, Any], uri: str) -> tuple[str, ...]:
    given = fields.get("section") or ()
    parts = [given] if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise IngestError(uri, "`section` must be a list of headings, outermost first")
    return tuple(_encodable(part, uri) for part in parts)


def _text(given: Any, uri: str) -> str:
    if not isinstance(given, str):
        raise IngestError(uri, f"`text` must be a string, got {type(given).__name__}")
    if not given.strip():
        raise IngestError(uri, "is empty; leave it out")
    return _encodable(str(given), uri)


def _paragraphs(text: str) -> list[tuple[int, str]]:
    return [(start, text[start:stop]) for start, stop in paragraphs(text)]


def _table(given: Any, uri: str) -> TablePayload:
    if not isinstance(given, Mapping) or not _is_list(given.get("rows")):
        raise IngestError(uri, '`table` must be {"header": [...], "rows": [[...], ...]}')
    header, rows = given.get("header") or [], given["rows"]
    if not _is_list(header):
        raise IngestError(uri, f"the table's header must be a list, got {type(header).__name__}")
    for number, row in enumerate(rows):
        if not _is_list(row):
            raise IngestError(uri, f"row {number} of the table must be a list of cells")
    if not header and not rows:
        raise IngestError(uri, "is an empty table; leave it out")
    width = max(map(len, [header, *rows]))
    return TablePayload(
        header=_cells(header, width, uri) if header else (),
        rows=tuple(_cells(row, width, uri) for row in rows),
        caption=_words(given, "caption", uri),
    )


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def _cells(row: Sequence[Any], width: int, uri: str) -> tuple[str, ...]:
    cells = (_encodable(_cell(value), uri) for value in row)
    return (*cells, *[""] * (width - len(row)))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _encodable(text: str, uri: str) -> str:
    """Return a text that neither an index nor a model can choke on."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise IngestError(
            uri, f"holds half of a surrogate pair ({text[error.start]!r}) at {error.start}"
        ) from error
    return text
