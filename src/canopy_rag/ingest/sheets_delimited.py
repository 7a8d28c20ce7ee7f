"""CSV and TSV, streaming: delimiter and header are told from the first rows, cells never changed.

Rows shorter than the header are filled up with empty cells; longer ones keep theirs. Blank lines,
and rows of empty cells at the end, are no rows. Lines of one cell above the first wide row are the
caption.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item
from canopy_rag.ingest.assemble import Assembler
from canopy_rag.ingest.decode import read_text
from canopy_rag.ingest.header import SAMPLE_ROWS, has_header
from canopy_rag.ingest.options import IngestOptions

Row = list[str]

_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t,;|"}
_NO_DELIMITER = "\x1f"
"""For a file of one column: a character that no text holds."""
_SAMPLE_CHARS = 262_144
_BLOCK_BYTES = 1 << 20
_MAX_CAPTION_ROWS = 10
_MOST_ADDED = 20_000_000
_MOST_ADDED_SHARE = 50
"""A small file could fill up any memory with empty cells."""
_MAX_CELL_CHARS = 2**31 - 1


def tables(path: Path, uri: str, options: IngestOptions, assembler: Assembler) -> Iterator[Item]:
    """Yield the items of the one table in a file of delimited text.

    Raises:
        IngestError: If the file is not text or holds no row.
    """
    # The limit is the process's; its default would refuse a cell above 128 KiB.
    csv.field_size_limit(_MAX_CELL_CHARS)
    with _opened(path, uri, options) as file:
        sample = file.read(_SAMPLE_CHARS)
        file.seek(0)
        if sample.startswith("\ufeff"):
            file.read(1)
        delimiter = _delimiter(sample, _DELIMITERS[path.suffix.lower()])
        rows = _filled(csv.reader(file, delimiter=delimiter))
        try:
            first = list(islice(rows, SAMPLE_ROWS + _MAX_CAPTION_ROWS + 1))
            if not first:
                raise IngestError(uri, "holds no rows, only blank lines")
            captions, first = _without_captions(first)
            header = first.pop(0) if has_header(first) else []
            width = len(header) or max(map(len, first))
            padded = _padded(chain(first, rows), width, uri)
            yield from assembler.table_items(header, padded, caption=" ".join(captions))
        except csv.Error as error:
            raise IngestError(uri, f"is no table that can be read: {error}") from error


def _opened(path: Path, uri: str, options: IngestOptions) -> TextIO:
    """Open a file for reading by lines: UTF-8 from the disk, other encodings from memory."""
    if _is_utf8(path):
        return path.open(encoding="utf-8", newline="")
    return io.StringIO(read_text(path, uri, options), newline="")


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while block := file.read(_BLOCK_BYTES):
                if b"\0" in block:
                    return False
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _delimiter(sample: str, candidates: str) -> str:
    """Return the delimiter that gives most rows the same number of cells, at least two.

    Fewer than half: the file has one column. Equal shares: more cells, then order of candidates.
    """
    best, best_key = _NO_DELIMITER, (0.5, 0)
    cut = len(sample) >= _SAMPLE_CHARS
    for delimiter in candidates:
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        widths = [len(row) for row in islice(reader, SAMPLE_ROWS) if row]
        if cut and len(widths) > 1:
            widths.pop()
        if not widths:
            continue
        width, count = Counter(widths).most_common(1)[0]
        key = (count / len(widths), width)
        if width > 1 and (key > best_key or (best == _NO_DELIMITER and key[0] == best_key[0])):
            best, best_key = delimiter, key
    return best


def _filled(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows without blank lines and without empty rows at the end."""
    held: list[Row] = []
    for row in rows:
        if any(row):
            yield from held
            held.clear()
            yield row
        elif row:
            held.append(row)


def _padded(rows: Iterable[Row], width: int, uri: str) -> Iterator[Row]:
    """Yield rows with cells for all columns, unless nearly all of them would be made up."""
    n_cells = n_added = 0
    for row in rows:
        added = max(0, width - len(row))
        n_cells += len(row)
        n_added += added
        if n_added > _MOST_ADDED and n_added > _MOST_ADDED_SHARE * n_cells:
            raise IngestError(
                uri, f"has {width:,} columns and rows of a few cells: mend its first line"
            )
        yield row + [""] * added


def _without_captions(rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Take off the leading rows of one filled cell above a table of several columns."""
    width = Counter(sum(map(bool, row)) for row in rows).most_common(1)[0][0]
    captions: list[str] = []
    for row in rows[:_MAX_CAPTION_ROWS]:
        filled = [cell for cell in row if cell]
        if width < 2 or len(filled) != 1 or len(captions) == len(rows) - 1:
            break
        captions += filled
    return captions, list(rows[len(captions) :])
