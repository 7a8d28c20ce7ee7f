"""Items with their vectors to Arrow rows, and back.

Names and text can hold what UTF-8 cannot: a file name that is no valid UTF-8 reaches Python as lone
surrogates. JSON columns escape those; plain columns shift them into the last private-use plane and
back, so that every string survives.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core import codec
from canopy_rag.core.coding import BLOCK, CodedRows, Precision, Rows, joined, padded, stored
from canopy_rag.core.protocols import Entry
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    Modality,
    Node,
    Payload,
    Source,
    TablePayload,
    TextPayload,
    VideoPayload,
)
from canopy_rag.core.vectors import NodeVectors

if TYPE_CHECKING:
    import pyarrow as pa

ITEM_COLUMNS = [
    "id",
    "modality",
    "title",
    "section",
    "payload",
    "source",
    "parent",
    "start",
    "stop",
]
"""What an item is made of."""
VECTOR_COLUMNS = ["rows", "scales", "weights", "norms", "tokens"]
"""What its node vectors are made of."""
_PAYLOADS: dict[Modality, type[Payload]] = {
    "text": TextPayload,
    "table": TablePayload,
    "image": ImagePayload,
    "video": VideoPayload,
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHIFTED = re.compile("[\U0010d800-\U0010dfff]")


class Layout(NamedTuple):
    """What the columns of a table depend on."""

    dim: int
    """Entries of a vector."""
    precision: Precision
    """How the rows of nodes are stored; vectors of items are float16 always."""


def arrow() -> Any:
    """Return pyarrow."""
    return require("pyarrow", extra="index", feature="The index")


def schema(layout: Layout) -> pa.Schema:
    """Return the columns of a table of items."""
    pa = arrow()
    rows, scales = _row_types(layout)
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("uri", pa.string(), nullable=False),
            pa.field("ordinal", pa.int32(), nullable=False),
            pa.field("file_sha256", pa.string(), nullable=False),
            pa.field("digest", pa.string(), nullable=False),
            pa.field("modality", pa.string(), nullable=False),
            pa.field("title", pa.string(), nullable=False),
            pa.field("section", pa.list_(pa.string()), nullable=False),
            pa.field("payload", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("parent", pa.list_(pa.int32()), nullable=False),
            pa.field("start", pa.list_(pa.float64()), nullable=False),
            pa.field("stop", pa.list_(pa.float64()), nullable=False),
            pa.field("n_nodes", pa.int32(), nullable=False),
            pa.field("vector", pa.list_(pa.float16(), layout.dim), nullable=False),
            pa.field("rows", pa.list_(rows), nullable=False),
            pa.field("scales", pa.list_(scales)),
            pa.field("weights", pa.list_(pa.float32())),
            pa.field("norms", pa.list_(pa.float32())),
            pa.field("tokens", pa.list_(pa.uint16())),
            pa.field("text", pa.string(), nullable=False),
        ]
    )


def _row_types(layout: Layout) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of one row and of its scales."""
    pa = arrow()
    dim, precision = layout
    if precision == "float16":
        return pa.list_(pa.float16(), dim), pa.list_(pa.float16(), 1)
    bits = 4 if precision == "int4" else 8
    length = padded(dim, bits)
    scales = pa.list_(pa.float16(), length // BLOCK)
    if bits == 4:
        return pa.list_(pa.uint8(), length // 2), scales
    return pa.list_(pa.int8(), length), scales


def to_batch(entries: Sequence[Entry], layout: Layout) -> pa.RecordBatch:
    """Return entries as one batch of rows, in order."""
    pa = arrow()
    items = [entry.item for entry in entries]
    late = [entry.vectors.nodes for entry in entries]
    own_vectors = np.stack([entry.vectors.item for entry in entries])
    rows, scales = to_rows([nodes.rows for nodes in late], layout)
    columns = {
        "id": [item.id for item in items],
        "uri": [to_utf8(item.source.uri) for item in items],
        "ordinal": [item.source.ordinal for item in items],
        "file_sha256": [entry.source_sha256 for entry in entries],
        "digest": [digest_of(item) for item in items],
        "modality": [item.modality for item in items],
        "title": [to_utf8(item.title) for item in items],
        "section": [[to_utf8(heading) for heading in item.section] for item in items],
        "payload": [_json(item.payload) for item in items],
        "source": [_json(item.source) for item in items],
        "parent": [[-1 if n.parent is None else n.parent for n in i.nodes] for i in items],
        "start": [[node.start for node in item.nodes] for item in items],
        "stop": [[node.stop for node in item.nodes] for item in items],
        "n_nodes": [len(item.nodes) for item in items],
        "vector": fixed(own_vectors.astype(np.float16)),
        "rows": rows,
        "scales": scales,
        "weights": [nodes.weights for nodes in late],
        "norms": [nodes.norms for nodes in late],
        "tokens": [nodes.tokens for nodes in late],
        "text": [to_utf8(words_of(item)) for item in items],
    }
    fields = schema(layout)
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, fields.field(name).type)
        for name, values in columns.items()
    ]
    return pa.record_batch(arrays, schema=fields)


def to_items(table: pa.Table, corpus: str) -> list[Item]:
    """Return the items of a table that holds `ITEM_COLUMNS`, in row order."""
    plain = {
        name: table.column(name).to_pylist()
        for name in ("id", "modality", "title", "section", "payload", "source")
    }
    trees = {name: _lists(table, name) for name in ("parent", "start", "stop")}
    return [
        Item(
            id=plain["id"][row],
            modality=plain["modality"][row],
            title=from_utf8(plain["title"][row]),
            payload=codec.loads(_PAYLOADS[plain["modality"][row]], plain["payload"][row]),
            nodes=_nodes(trees["parent"][row], trees["start"][row], trees["stop"][row], modality),
            source=codec.loads(Source, plain["source"][row]),
            section=tuple(from_utf8(heading) for heading in plain["section"][row]),
            corpus=corpus,
        )
        for row, modality in enumerate(plain["modality"])
    ]


def to_node_vectors(table: pa.Table, dim: int) -> list[NodeVectors]:
    """Return the node vectors of a table that holds `VECTOR_COLUMNS`, in row order.

    Args:
        table: Rows of an index.
        dim: Entries of a vector.
    """
    matrix, offsets = matrices(table, "rows")
    rows: Rows = matrix
    if matrix.dtype != np.float16:
        scales, _ = matrices(table, "scales")  # as many as rows, so the offsets are the same
        rows = CodedRows(codes=matrix, scales=scales, dim=dim)
    weights, norms, tokens = (_lists(table, name) for name in ("weights", "norms", "tokens"))
    return [
        NodeVectors(
            rows=rows[offsets[row] : offsets[row + 1]],
            weights=weights[row],
            norms=norms[row],
            tokens=tokens[row],
        )
        for row in range(table.num_rows)
    ]


def matrices(table: pa.Table, name: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return a column of lists of rows: all rows, and where those of each item begin and end."""
    column = _whole(table, name)
    length = column.type.value_type.list_size
    # Offsets may start inside a shared buffer; `values` always starts at its beginning.
    values = column.values.flatten().to_numpy(zero_copy_only=False).reshape(-1, length)
    return values, column.offsets.to_numpy()


def to_rows(parts: Sequence[Rows], layout: Layout) -> tuple[Any, Any]:
    """Return the columns `rows` and `scales` of several items' rows."""
    pa = arrow()
    # All at once: a step over the rows of one item costs more than its arithmetic.
    whole = stored(joined(parts), layout.precision)
    offsets = pa.array(np.cumsum([0, *(len(part) for part in parts)]), pa.int32())
    if not isinstance(whole, CodedRows):
        return pa.ListArray.from_arrays(offsets, fixed(whole)), pa.nulls(
            len(parts), pa.list_(_row_types(layout)[1])
        )
    return (
        pa.ListArray.from_arrays(offsets, fixed(whole.codes)),
        pa.ListArray.from_arrays(offsets, fixed(whole.scales)),
    )


def digest_of(item: Item) -> str:
    """Return a checksum of an item with all that it holds; vectors are not part of it."""
    return hashlib.sha256(codec.dumps(item).encode("utf-8", "surrogatepass")).hexdigest()


def words_of(item: Item) -> str:
    """Return the words by which an item is found in a full-text search."""
    payload = item.payload
    parts = [item.title, *item.section]
    if isinstance(payload, TextPayload):
        parts.append(payload.text)
    elif isinstance(payload, TablePayload):
        parts += [payload.caption, " ".join(payload.header)]
        parts += [" ".join(row) for row in payload.rows]
    elif isinstance(payload, ImagePayload):
        parts += [payload.caption, payload.ocr]
    else:
        parts += [payload.caption, *(segment.subtitles for segment in payload.segments)]
    return "\n".join(part for part in parts if part)


def to_utf8(text: str) -> str:
    """Return `text` without lone surrogates; `from_utf8` brings them back."""
    return _SURROGATE.sub(lambda match: chr(ord(match[0]) + 0x100000), text)


def from_utf8(text: str) -> str:
    """Return what `to_utf8` was given."""
    return _SHIFTED.sub(lambda match: chr(ord(match[0]) - 0x100000), text)


def _json(record: Payload | Source) -> str:
    text = json.dumps(codec.encode(record), ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _nodes(
    parents: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any], modality: Modality
) -> tuple[Node, ...]:
    above = parents.tolist()
    children: list[list[int]] = [[] for _ in above]
    for index, parent in enumerate(above):
        if parent >= 0:
            children[parent].append(index)
    if modality == "video":  # seconds; characters, rows and images count in whole numbers
        begins, ends = starts.tolist(), stops.tolist()
    else:
        begins, ends = starts.astype(np.int64).tolist(), stops.astype(np.int64).tolist()
    return tuple(
        [
            Node(
                index=index,
                parent=None if parent < 0 else parent,
                children=tuple(children[index]),
                start=begins[index],
                stop=ends[index],
            )
            for index, parent in enumerate(above)
        ]
    )


def _whole(table: pa.Table, name: str) -> Any:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, arrow().ChunkedArray) else column


def _lists(table: pa.Table, name: str) -> list[Any]:
    """Return a list column as arrays, None where it is null."""
    column = _whole(table, name)
    values = column.values.to_numpy(zero_copy_only=False)
    offsets = column.offsets.to_numpy()
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return [
        values[offsets[row] : offsets[row + 1]] if present[row] else None
        for row in range(len(column))
    ]


def fixed(matrix: NDArray[Any]) -> Any:
    """Return a matrix as an array of lists of one length."""
    pa = arrow()
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
