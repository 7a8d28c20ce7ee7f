"""What callers hand over as documents: strings, dicts, items, frames, paths, pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from canopy_rag.core.errors import DataError
from canopy_rag.core.trees import check_tree, image_tree
from canopy_rag.core.types import ImagePayload, Item, Source, item_id

DocumentLike: TypeAlias = Any
"""`str`, a dict as `canopy compress` takes it, `Item`, `Path`, a pandas or polars frame, or a
PIL image. Frames and pictures are known by what they can do, so that neither library is needed."""
ReadDocument: TypeAlias = Callable[[Any, str], list[Item]]
"""Turns a string, dict or path and its default name into items."""


def to_items(documents: Sequence[DocumentLike], read: ReadDocument) -> list[Item]:
    """Return the items of documents, in order. A file may hold several; all else is one.

    Args:
        documents: What the caller has.
        read: Reads strings, dicts and paths.

    Raises:
        DataError: If a document is of no known kind, two items have the same id, or `documents` is
            no list but a single document.
    """
    if _is_single(documents):
        raise DataError("documents must be a list of documents, not a single one; put it in [ ]")
    items: list[Item] = []
    for position, document in enumerate(documents):
        items.extend(_items_of(document, f"document-{position + 1}", read))
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise DataError(f"two documents have the id {item.id!r}; ids must differ")
        seen.add(item.id)
    return items


def _items_of(document: DocumentLike, name: str, read: ReadDocument) -> list[Item]:
    if isinstance(document, Item):
        check_tree(document.nodes)
        return [document]
    if isinstance(document, (str, Mapping, Path)):
        return read(document, name)
    if _is_frame(document):
        return read({"table": _table_of(document)}, name)
    if _is_picture(document):
        return [_picture(document, name)]
    raise DataError(
        f"{name} is a {type(document).__name__}; give a string, a dict with text, table or path, "
        "an Item, a path, a pandas or polars frame, or a PIL image"
    )


def _is_single(documents: Any) -> bool:
    """Whether this is one document; a frame or text could be iterated, but not into documents."""
    if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, Iterable):
        return True
    return _is_frame(documents) or _is_picture(documents)


def _is_frame(document: Any) -> bool:
    return hasattr(document, "columns") and (
        hasattr(document, "itertuples") or hasattr(document, "rows")
    )


def _is_picture(document: Any) -> bool:
    return hasattr(document, "convert") and hasattr(document, "save")


def _table_of(frame: Any) -> dict[str, Any]:
    """Return a frame as header and rows; missing values are empty cells."""
    header = [str(column) for column in frame.columns]
    rows = (
        frame.itertuples(index=False, name=None) if hasattr(frame, "itertuples") else frame.rows()
    )
    return {"header": header, "rows": [[_cell(value) for value in row] for row in rows]}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    try:
        missing = bool(value != value)  # noqa: PLR0124  NaN and NaT differ from themselves
    except TypeError:  # pandas' NA will not say
        missing = True
    except ValueError:  # an array says it for each of its values
        missing = False
    return "" if missing else str(value)


def _picture(image: Any, name: str) -> Item:
    """Return a PIL image as an item that carries its own pixels."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "PNG")
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    width, height = image.size
    caption = str(image.info.get("Description") or image.info.get("Title") or "")
    return Item(
        id=item_id(name, 0),
        modality="image",
        title=name,
        payload=ImagePayload(
            media=f"data:image/png;base64,{encoded}", width=width, height=height, caption=caption
        ),
        nodes=image_tree(),
        source=Source(uri=name),
    )
