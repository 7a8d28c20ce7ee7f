"""What an encoder reads of an item: its context, its leaves, and any node with its context (D2).

A row without its header or a sentence without its title means nothing, so the title and the heading
path go before a text, and each cell follows its column's name. Nothing here is shown to a reader;
offsets and evidence come from `core.evidence`.
"""

from __future__ import annotations

from dataclasses import dataclass

from canopy_rag.core.types import (
    Heading,
    ImagePayload,
    Item,
    Node,
    TablePayload,
    TextPayload,
    VideoPayload,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of what an encoder reads of an item after its context."""

    leaf: int | None
    """Position among the item's leaves, in order; None for a heading inside the text."""
    text: str


def context_text(item: Item) -> str:
    """Return what holds for the whole item: title, section path, caption and column names.

    An image's caption is its content, not its context. Parts that repeat the one before are left
    out. Empty if the item has none of them.

    >>> from canopy_rag.core.types import Source, TablePayload
    >>> table = TablePayload(header=("name", "year"), rows=(("Ada", "1815"),), caption="Births")
    >>> context_text(Item(id="a", modality="table", title="People", payload=table, nodes=(),
    ...                   source=Source(uri="a.csv"), section=("Science",)))
    'People > Science > Births: name; year'
    """
    header = item.payload.header if isinstance(item.payload, TablePayload) else ()
    columns = "; ".join(filter(None, map(str.strip, header)))
    return _with_context(_item_path(item), columns)


def leaf_texts(item: Item) -> list[str]:
    """Return the text of each leaf, in order; empty for a leaf without words."""
    return [piece.text for piece in pieces(item) if piece.leaf is not None]


def pieces(item: Item) -> list[Piece]:
    """Return the leaves' texts in order, and between them the headings that stand in the text.

    Headings inform the leaves around them and belong to none of them.
    """
    leaves = [node for node in item.nodes if not node.children]
    parts = [(leaf.start, Piece(index, _body(item, leaf))) for index, leaf in enumerate(leaves)]
    if isinstance(item.payload, TextPayload):
        parts += [
            (heading.start, Piece(None, heading.text))
            for heading in item.payload.headings
            if not any(leaf.start <= heading.start < leaf.stop for leaf in leaves)
        ]
        parts.sort(key=lambda part: part[0])
    return [piece for _, piece in parts]


def node_text(item: Item, node: Node) -> str:
    """Return a node with its context: `title > section > heading: text`.

    >>> from canopy_rag.core.types import Source, TablePayload
    >>> row = Node(index=0, parent=None, children=(), start=0, stop=1)
    >>> table = TablePayload(header=("name", "year"), rows=(("Ada", "1815"),))
    >>> source = Source(uri="a.csv")
    >>> node_text(Item(id="a", modality="table", title="People", payload=table, nodes=(row,),
    ...                source=source), row)
    'People: name: Ada; year: 1815'
    """
    return _with_context(*node_parts(item, node))


def node_parts(item: Item, node: Node) -> tuple[str, str]:
    """Return a node's context, heading path inside the text included, and its own text.

    A table's column names stand in every row and are not repeated in the context.
    """
    context = _item_path(item)
    if isinstance(item.payload, TextPayload):
        context = _path((context, *_headings_in_force(item.payload.headings, node)))
    return context, _body(item, node)


def _body(item: Item, node: Node) -> str:
    """Return a node's own text."""
    payload = item.payload
    match payload:
        case TextPayload():
            return payload.text[int(node.start) : int(node.stop)].strip()
        case TablePayload():
            rows = payload.rows[int(node.start) : int(node.stop)]
            return "\n".join(row_text(payload.header, row) for row in rows).strip()
        case ImagePayload():
            return "\n".join(filter(None, (payload.caption.strip(), payload.ocr.strip())))
        case VideoPayload():
            inside = [
                segment.subtitles.strip()
                for segment in payload.segments
                if segment.start < node.stop and node.start < segment.stop
            ]
            return "\n".join(filter(None, inside))


def row_text(header: tuple[str, ...], row: tuple[str, ...]) -> str:
    """Return a row as `column: cell; column: cell`, without its empty cells.

    >>> row_text(("name", "", "year"), ("Ada", "F", "", "more"))
    'name: Ada; F; more'
    """
    names = header + ("",) * (len(row) - len(header))
    cells = zip(map(str.strip, names), map(str.strip, row), strict=False)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells if cell)


def _headings_in_force(headings: tuple[Heading, ...], node: Node) -> list[str]:
    """Return the headings above a node's first character, outermost first.

    One with which the node begins is part of the node's own text, and ends those of its level.
    """
    path: list[Heading] = []
    for heading in headings:
        if heading.start > node.start:
            break
        path = [above for above in path if above.level < heading.level]
        if heading.start < node.start:
            path.append(heading)
    return [heading.text for heading in path]


def _item_path(item: Item) -> str:
    caption = item.payload.caption if isinstance(item.payload, TablePayload | VideoPayload) else ""
    return _path((item.title, *item.section, caption))


def _with_context(context: str, body: str) -> str:
    return f"{context}: {body}" if context and body else context or body


def _path(parts: tuple[str, ...]) -> str:
    """Join the parts that are not empty and do not repeat the one before."""
    kept: list[str] = []
    for part in map(str.strip, parts):
        if part and part not in kept[-1:]:
            kept.append(part)
    return " > ".join(kept)
