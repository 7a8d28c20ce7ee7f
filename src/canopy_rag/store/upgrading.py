"""An index of an older format, or of more exact vectors, made into a new one: `canopy upgrade`.

New tables are written beside the old ones; then `index.json` names them, in one step; then the old
ones go. Killed before that step, the index is as it was; killed after it, it is a new one, and what
is left of the old one goes with the next `upgrade` or `compact`. Nothing is encoded again.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy_rag.core.coding import CodedRows, Precision, Rows
from canopy_rag.core.errors import StoreError
from canopy_rag.store.catalog import Catalog, table_name
from canopy_rag.store.location import (
    FORMAT_VERSION,
    OLDER_FORMATS,
    IndexMeta,
    Location,
    Place,
    locate,
)
from canopy_rag.store.matrix import vectors_of
from canopy_rag.store.rows import Layout, arrow, fixed, matrices, schema, to_rows
from canopy_rag.store.table import MemoryLimits

if TYPE_CHECKING:
    import pyarrow as pa

_AT_A_TIME = 1024  # items
_EXACTNESS: tuple[Precision, ...] = ("int4", "int8", "float16")


def upgrade(
    place: Place,
    vectors: Precision | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> bool:
    """Bring an index to the current format, and to less exact vectors if that is asked for.

    It is held for writing meanwhile, and takes the room of a second one. Ids, items and trees stay
    as they are, and so do tokens; an index of format 1 has none, and its encoder needs none.

    Args:
        place: The folder; or `s3://bucket/path` and the like.
        vectors: How the rows of nodes are stored afterwards; None: as before, and in 4 bits in an
            index of a format that knew 16 alone.
        storage_options: How to reach object storage; see `locate`.

    Returns:
        Whether there was anything to do.

    Raises:
        StoreError: If there is no index, it is of an unknown format, cannot be written, or has less
            exact vectors than were asked for.
    """
    folder = locate(place, storage_options)
    if not folder.has_index:
        folder.read_meta()  # says how to make one
    with folder.writing():
        before = folder.read_meta((*OLDER_FORMATS, FORMAT_VERSION))
        is_older = before.format_version in OLDER_FORMATS
        wanted = vectors or ("int4" if is_older else before.vectors)
        if _EXACTNESS.index(wanted) > _EXACTNESS.index(before.vectors):
            raise StoreError(
                f"the index in {str(folder)!r} has vectors in {before.vectors}, which cannot be "
                f"made as exact as {wanted}; index again into a new folder"
            )
        catalog = Catalog(folder, before, MemoryLimits())
        catalog.drop_unnamed()  # of an upgrade that was killed
        if not is_older and wanted == before.vectors:
            return False
        after = _copied(folder, catalog, before, wanted)
        folder.confirm()
        folder.write_meta(after)
        Catalog(folder, after, MemoryLimits()).drop_unnamed()
        folder.clear_removal()
        return True


def _copied(
    folder: Location, catalog: Catalog, before: IndexMeta, precision: Precision
) -> IndexMeta:
    """Write the new tables; return the description of the index that has them."""
    names = {corpus: f"{table_name(corpus)}-{uuid.uuid4().hex[:8]}" for corpus in before.corpora}
    after = dataclasses.replace(
        before, format_version=FORMAT_VERSION, vectors=precision, corpora=names, trained={}
    )
    layout = Layout(before.encoder.dim, precision)
    target = Catalog(folder, after, MemoryLimits())
    trained: dict[str, int] = {}
    for corpus, name in names.items():
        source = catalog.open(before.corpora[corpus])
        table = target.make(name, layout)
        reading = _Reading(folder, source)
        converted = _converted(reading, layout)
        rows = arrow().RecordBatchReader.from_batches(schema(layout), converted)
        folder.confirm()
        try:
            table.replace((), rows, known=False)
        except StoreError as error:
            raise reading.failure or error from error
        trained[name] = table.optimize(hybrid=before.hybrid, trained=0, purge=False)
    return dataclasses.replace(after, trained=trained)


class _Reading:
    """The rows of a table, some at a time; remembers why they could not be read.

    The engine that writes them takes an error of reading for one of its own.
    """

    def __init__(self, folder: Location, table: Any) -> None:
        self._folder = folder
        self._table = table
        self.failure: StoreError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            with self._folder.engine():
                yield from self._table.search().to_batches(_AT_A_TIME)
        except StoreError as error:
            self.failure = error
            raise


def _converted(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Yield rows of any format in the columns of this one."""
    pa = arrow()
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            columns = {name: table.column(name) for name in table.column_names}
            columns |= _vector_columns(table, layout)
            fields = schema(layout)
            wanted = [_cast(columns, field, len(table)) for field in fields]
            yield from pa.table(wanted, schema=fields).combine_chunks().to_batches()


def _cast(columns: Mapping[str, Any], field: pa.Field, n_rows: int) -> Any:
    """Return a column as it is wanted; nulls where the older format had none of that name."""
    if field.name not in columns:
        return arrow().nulls(n_rows, field.type)
    return columns[field.name].cast(field.type)


def _vector_columns(table: pa.Table, layout: Layout) -> dict[str, Any]:
    matrix, offsets = matrices(table, "rows")
    rows: Rows = matrix
    if matrix.dtype != np.float16:
        rows = CodedRows(codes=matrix, scales=matrices(table, "scales")[0], dim=layout.dim)
    parts = [rows[offsets[row] : offsets[row + 1]] for row in range(table.num_rows)]
    coded, scales = to_rows(parts, layout)
    return {
        "vector": fixed(vectors_of(table).astype(np.float16)),
        "rows": coded,
        "scales": scales,
    }
