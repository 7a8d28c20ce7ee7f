"""Parquet through pyarrow, batch by batch: one table a file, its columns' names as header.

Nested values are JSON; binary ones are described by their size and never shown; a missing value
and NaN are empty. Numbers of 32 bits have the digits that they were written with.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import Assembler
from canopy_rag.ingest.options import IngestOptions


def tables(path: Path, uri: str, options: IngestOptions, assembler: Assembler) -> Iterator[Item]:
    """Yield the items of a Parquet file.

    Raises:
        IngestError: If the file is damaged, encrypted, no Parquet, or has no column.
    """
    arrow = require("pyarrow", extra="index", feature="reading Parquet")
    parquet = require("pyarrow.parquet", extra="index", feature="reading Parquet")
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(uri, f"is damaged or no Parquet ({error})") from error
    with file:
        if not names:
            raise IngestError(uri, "has no columns")
        try:
            yield from assembler.table_items(names, _rows(arrow, file, options.max_rows))
        except (arrow.ArrowException, OSError) as error:
            raise IngestError(uri, f"is damaged ({error})") from error


def _rows(arrow: Any, file: Any, n_rows: int) -> Iterator[tuple[str, ...]]:
    shown = [_shown_of(arrow, kind) for kind in file.schema_arrow.types]
    for batch in file.iter_batches(batch_size=max(n_rows, 1024)):
        columns = [
            ["" if value is None else show(value) for value in column.to_pylist()]
            for show, column in zip(shown, batch.columns, strict=True)
        ]
        yield from zip(*columns, strict=True)


def _shown_of(arrow: Any, kind: Any) -> Callable[[Any], str]:
    """Return the function that writes the values of a column."""
    if arrow.types.is_float32(kind) or arrow.types.is_float16(kind):
        width = np.float32 if arrow.types.is_float32(kind) else np.float16
        return lambda value: "" if math.isnan(value) else str(width(value))
    return _shown


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=_shown)
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)
