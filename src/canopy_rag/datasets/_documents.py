"""Items that a line of our JSON Lines format describes: text, table, image or video."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.trees import image_tree, table_tree, text_tree, video_tree
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    Modality,
    Node,
    Payload,
    Segment,
    Source,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.datasets._read import Record, shown

CONTENTS = ("text", "table", "image", "video")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def document_uri(corpus: str, document_id: str) -> str:
    """Return the name of the document with an id; its item's id is a hash of it."""
    return f"{corpus}/{document_id}"


def document_item(corpus: str, record: Record, splitter: SentenceSplitter) -> Item:
    """Return the item of a line.

    Args:
        corpus: Name of the set of items.
        record: `{"id", "title"?, "section"?}` with exactly one of `"text"`,
            `"table": {"rows", "header"?, "caption"?}`,
            `"image": {"path", "width", "height", "caption"?, "ocr"?}` and
            `"video": {"path", "duration_s", "width", "height", "segments", "caption"?}`.
        splitter: Finds the sentences of a text's paragraphs, which blank lines part.

    Raises:
        DataError: Naming file, line and field.
    """
    given = [name for name in CONTENTS if name in record.fields]
    if len(given) != 1:
        has = " and ".join(f"'{name}'" for name in given) or "none of them"
        raise record.error(f"needs exactly one of {', '.join(CONTENTS)}; it has {has}")
    uri = document_uri(corpus, identity(record))
    modality, payload, nodes = _content(given[0], record, splitter)
    return Item(
        id=item_id(uri, 0),
        modality=modality,
        title=record.optional("title", str, ""),
        payload=payload,
        nodes=nodes,
        source=Source(uri=uri),
        section=tuple(record.texts("section")) if record.fields.get("section") else (),
        corpus=corpus,
    )


def identity(record: Record) -> str:
    """Return the id of a line: a text that is not empty, or a whole number.

    Raises:
        DataError: If it is missing or anything else.
    """
    value = record.fields.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = record.want("id", str)
    if not text:
        raise record.error("the field 'id' is empty")
    return text


def text_nodes(text: str, splitter: SentenceSplitter) -> tuple[Node, ...]:
    """Return the tree of a text whose paragraphs are parted by blank lines."""
    paragraphs = [
        [(start + begin, start + end) for begin, end in splitter.split(text[start:stop])]
        for start, stop in _paragraphs(text)
    ]
    return text_tree(len(text), paragraphs)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for gap in _BLANK_LINES.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _content(
    name: str, record: Record, splitter: SentenceSplitter
) -> tuple[Modality, Payload, tuple[Node, ...]]:
    if name == "text":
        text = record.want("text", str)
        if not text.strip():
            raise record.error("the field 'text' is empty; leave the line out")
        return "text", TextPayload(text=text), text_nodes(text, splitter)
    part = record.part(name)
    if name == "table":
        table = _table(part)
        return "table", table, table_tree(len(table.rows))
    if name == "image":
        return "image", _image(part), image_tree()
    video = _video(part)
    try:
        return "video", video, video_tree(video.segments)
    except ValueError as error:
        raise part.error(str(error)) from error


def _table(part: Record) -> TablePayload:
    rows = [_cells(part, row) for row in part.want("rows", list)]
    header = _cells(part, part.optional("header", list, []))
    width = max(map(len, [header, *rows]))
    if not width:
        raise part.error("the table is empty; leave the line out")
    return TablePayload(
        header=_filled(header, width) if header else (),
        rows=tuple(_filled(row, width) for row in rows),
        caption=part.optional("caption", str, ""),
    )


def _cells(part: Record, row: Any) -> list[str]:
    if not isinstance(row, list):
        raise part.error(f"a row must be a list of cells, got {shown(row)}")
    for cell in row:
        if not isinstance(cell, str | int | float | None):
            raise part.error(f"a cell must be a text or number, got {shown(cell)}")
    return ["" if cell is None else str(cell) for cell in row]


def _filled(row: list[str], width: int) -> tuple[str, ...]:
    return (*row, *[""] * (width - len(row)))


def _image(part: Record) -> ImagePayload:
    return ImagePayload(
        media=_media(part),
        width=part.want("width", int),
        height=part.want("height", int),
        caption=part.optional("caption", str, ""),
        ocr=part.optional("ocr", str, ""),
    )


def _video(part: Record) -> VideoPayload:
    segments = [
        Segment(
            start=segment.want("start", float),
            stop=segment.want("stop", float),
            frames=tuple(segment.optional("frames", list, [])),
            subtitles=segment.optional("subtitles", str, ""),
        )
        for segment in part.parts("segments")
    ]
    for before, after in zip([None, *segments], segments, strict=False):
        if after.start >= after.stop or (before is not None and before.stop > after.start):
            raise part.error("segments must be in order, disjoint and not empty")
    return VideoPayload(
        media=_media(part),
        duration_s=part.want("duration_s", float),
        segments=tuple(segments),
        width=part.want("width", int),
        height=part.want("height", int),
        caption=part.optional("caption", str, ""),
    )


def _media(part: Record) -> str:
    """Return an absolute path: relative ones start from the folder of the file."""
    written = part.want("path", str)
    return Path(part.path.parent.resolve() / written).as_posix()
