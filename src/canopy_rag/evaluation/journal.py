"""A file of JSON lines that is only ever appended to, each with the checksum of itself.

What was written is never touched again, but for a last line that a killed process left unfinished:
it is taken away, and the question that it stood for is asked anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from canopy_rag.core.errors import DataError

_MARK = ',"sha256":"'
_HEX_CHARS = 16


def sealed(record: Mapping[str, Any]) -> str:
    """Return a record as one line that ends in the checksum of what stands before it.

    Args:
        record: JSON of at least one field; `sha256` is not among them.

    >>> sealed({"question": "q1"})
    '{"question":"q1","sha256":"189b0ade5deaf3f3"}'
    """
    body = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f'{body[:-1]}{_MARK}{_checksum(body)}"}}'


def unsealed(line: str) -> dict[str, Any]:
    """Return the record of a line.

    Raises:
        ValueError: If it is no line of `sealed`, or not whole.
    """
    head, mark, tail = line.rpartition(_MARK)
    body = f"{head}}}"
    if not mark or tail != f'{_checksum(body)}"}}':
        raise ValueError("its checksum is missing or of something else")
    record: dict[str, Any] = json.loads(body)
    return record


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:_HEX_CHARS]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file one by one; a file that is not there has none.

    An unfinished last line is passed over.

    Raises:
        DataError: Naming the line, if another one is damaged.
    """
    for _, record in _lines(path):
        yield record


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield where each whole line ends, in bytes, and its record."""
    if not path.exists():
        return
    end, torn = 0, ""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if torn:
                raise DataError(
                    f"{path}, line {number - 1}: {torn}; somebody changed the file. Take the line "
                    "out to have it done again, or begin with another folder"
                )
            try:
                record = unsealed(line.decode("utf-8").rstrip("\n"))
                if not line.endswith(b"\n"):
                    raise ValueError("it has no end")
            except ValueError as error:
                torn = str(error)
                continue
            end += len(line)
            yield end, record


class Journal:
    """Appends records to a file; every one is there, whole, when `append` returns.

    A process that is killed loses nothing that was appended; `sync` holds it against a failure of
    the machine too. One process may write a file at a time.

    Args:
        path: The file; made with the first record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def open(self) -> Iterator[dict[str, Any]]:
        """Yield the records that are there, then cut off an unfinished last line.

        Raises:
            DataError: Naming the line, if one before the last is damaged.
        """
        end = 0
        for position, record in _lines(self.path):
            end = position
            yield record
        if self.path.exists() and end < self.path.stat().st_size:
            os.truncate(self.path, end)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        line = memoryview(f"{sealed(record)}\n".encode())
        while line:
            line = line[os.write(self._file, line) :]

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
