"""Tables in files of their own to items: CSV and TSV, workbooks, Parquet.

Cells are strings as the file writes them (CSV), as the sheet shows them as far as its reader tells
(workbooks), or in JSON's spelling (Parquet). A missing value is an empty string.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import Assembler
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.sidecar import readable_name

_MODULES = {
    ".csv": "sheets_delimited",
    ".tsv": "sheets_delimited",
    ".xlsx": "sheets_workbook",
    ".xlsm": "sheets_workbook",
    ".ods": "sheets_workbook",
    ".parquet": "sheets_parquet",
}


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the items of a file of tables, at most `options.max_rows` rows each.

    Args:
        path: The file; its suffix tells the format.
        uri: Its name in items and errors.
        options: Sizes, where notes go.

    Raises:
        IngestError: If the file is empty, damaged, protected by a password, or no table.
        MissingDependencyError: If the format's library is not installed.
    """
    try:
        if path.stat().st_size == 0:
            raise IngestError(uri, "is empty: 0 bytes")
        module = importlib.import_module(f"canopy_rag.ingest.{_MODULES[path.suffix.lower()]}")
        assembler = Assembler(uri, readable_name(Path(uri)), options)
        yield from module.tables(path, uri, options, assembler)
    except OSError as error:
        raise IngestError(uri, f"cannot be read: {error.strerror or error}") from error
