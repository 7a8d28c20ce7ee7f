"""Reading official files as streams of records whose errors name file, record and field.

JSON arrays are read record by record: the largest benchmarks' files hold gigabytes, of which a
loader keeps little. Every file may be gzipped.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from canopy_rag.core.errors import DataError

T = TypeVar("T")

_CHUNK_CHARS = 1 << 20
_CUT_OFF = "the JSON ends too early; the file is incomplete"
_BROKEN = "is not valid JSON (expected a comma or the end of the array)"
_NAMES: dict[type, str] = {
    str: "text",
    list: "a list",
    dict: "an object",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a file, with its place for messages."""

    path: Path
    where: str
    """Such as `record 3`, counted from 1, or `line 3`."""
    fields: Mapping[str, Any]

    def error(self, reason: str) -> DataError:
        """Return the error that something is wrong with this record."""
        return DataError(f"{self.path.name} ({self.where}): {reason}")

    def want(self, name: str, kind: type[T]) -> T:
        """Return a field that must be there.

        Raises:
            DataError: If it is missing or of another kind.
        """
        if name not in self.fields:
            raise self.error(f"the field {name!r} is missing")
        value: Any = self.fields[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(f"the field {name!r} must be {_NAMES[kind]}, got {shown(value)}")
        return value

    def optional(self, name: str, kind: type[T], default: T) -> T:
        """Return a field, or `default` if it is missing or null.

        Raises:
            DataError: If it is of another kind.
        """
        return default if self.fields.get(name) is None else self.want(name, kind)

    def texts(self, name: str) -> list[str]:
        """Return a field that must be a list of texts.

        Raises:
            DataError: If it is missing or anything else.
        """
        values = self.want(name, list)
        for value in values:
            if not isinstance(value, str):
                raise self.error(f"the field {name!r} must hold texts only, got {shown(value)}")
        return values

    def part(self, name: str) -> Record:
        """Return an object inside this one, such as `metadata`.

        Raises:
            DataError: If it is missing or no object.
        """
        return Record(self.path, f"{self.where}, {name}", self.want(name, dict))

    def parts(self, name: str) -> list[Record]:
        """Return the objects of a list inside this one.

        Raises:
            DataError: If the list is missing or holds something else.
        """
        found: list[Record] = []
        for number, value in enumerate(self.want(name, list), start=1):
            where = f"{self.where}, {name} {number}"
            if not isinstance(value, dict):
                raise DataError(
                    f"{self.path.name} ({where}): must be an object, got {shown(value)}"
                )
            found.append(Record(self.path, where, value))
        return found


def shown(value: object) -> str:
    """Return a value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def found_files(folder: Path, *names: str) -> list[Path]:
    """Return those of the official files that are in a folder, plain or with `.gz`, in order.

    Args:
        folder: The benchmark's folder.
        names: Paths relative to it, with `/`; a name may hold `*`, whose matches are sorted.

    Raises:
        DataError: If there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    found: list[Path] = []
    for name in names:
        if "*" in name:
            found += sorted({*folder.glob(name), *folder.glob(f"{name}.gz")} - set(found))
            continue
        path = folder / name
        for candidate in (path, path.with_name(f"{path.name}.gz")):
            if candidate.is_file() and candidate not in found:
                found.append(candidate)
                break
    return found


def nothing_found(benchmark: str, folder: Path, expected: Sequence[str]) -> DataError:
    """Return the error that a folder has none of a benchmark's files."""
    names = ", ".join(expected)
    return DataError(f"{folder}: holds no file of {benchmark}. Expected one or more of: {names}")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 file, gzipped or not; what goes wrong while it is read becomes a `DataError`.

    Raises:
        DataError: Naming the file, if it cannot be opened, is not UTF-8 or its gzip is damaged.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as stream:
                yield stream
        else:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                yield stream
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: is not UTF-8 text ({error.reason})") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path.name}: the gzip file is incomplete or damaged") from error
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {error.strerror or error}") from error


def json_value(path: Path) -> Any:
    """Return a whole JSON file, for small ones.

    Raises:
        DataError: Naming file and place, if it is no JSON or ends too early.
    """
    with open_text(path) as stream:
        text = stream.read()
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = _json_problem(error, at_end=error.pos >= len(text.rstrip()))
        raise DataError(f"{path.name} (line {error.lineno}): {reason}") from error


def json_records(path: Path, inside: str | None = None) -> Iterator[Record]:
    """Yield the objects of a JSON array, one at a time.

    Args:
        path: The file.
        inside: The key of the array in an object that holds nothing else, as `{"data": [...]}`;
            None: the file is the array.

    Raises:
        DataError: Naming file and place, if it is no JSON array of objects or ends too early.
    """
    with open_text(path) as stream:
        buffer = _Buffer(path, stream)
        if inside is not None:
            buffer.enter(inside)
        if buffer.next_char() != "[":
            raise DataError(f"{path.name}: must be a JSON array")
        buffer.skip(1)
        number = 0
        while buffer.next_char() != "]":
            if number:
                buffer.take_comma(f"after record {number}")
            number += 1
            value = buffer.value(f"record {number}")
            if not isinstance(value, dict):
                raise buffer.error(f"record {number}", f"must be an object, got {shown(value)}")
            yield Record(path, f"record {number}", value)
        buffer.skip(1)
        if inside is not None and buffer.next_char() == "}":
            buffer.skip(1)
        if buffer.next_char():
            raise buffer.error("after the array", "nothing may follow")


def json_lines(path: Path) -> Iterator[Record]:
    """Yield the objects of a JSON Lines file; blank lines are passed over.

    Raises:
        DataError: Naming file and line, if a line is no JSON object.
    """
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                reason = _json_problem(error, at_end=error.pos >= len(line.rstrip()))
                place = f"line {number}, character {error.pos + 1}"
                raise DataError(f"{path.name} ({place}): {reason}") from error
            if not isinstance(value, dict):
                raise DataError(f"{path.name} (line {number}): must be an object")
            yield Record(path, f"line {number}", value)


def tsv_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a tab separated file with a header, each with its line number.

    Fields may be quoted with `"`, doubled inside.

    Raises:
        DataError: Naming file and line, if the header is not `columns` or a row has another length.
    """
    with open_text(path) as stream:
        rows = csv.reader(stream, delimiter="\t")
        try:
            header = next(rows, [])
            if header != list(columns):
                wanted = " ".join(columns)
                raise DataError(f"{path.name} (line 1): must name the columns {wanted}")
            for row in rows:
                if len(row) != len(columns):
                    reason = f"has {len(row)} fields instead of {len(columns)}"
                    raise DataError(f"{path.name} (line {rows.line_num}): {reason}")
                yield rows.line_num, row
        except csv.Error as error:
            raise DataError(f"{path.name} (line {rows.line_num}): {error}") from error


class _Buffer:
    """The part of a JSON text that is being read."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path = path
        self._stream = stream
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._before = 0
        """Characters that were read and let go."""

    def error(self, where: str, reason: str) -> DataError:
        place = f"{where}, character {self._before + self._at + 1}"
        return DataError(f"{self._path.name} ({place}): {reason}")

    def skip(self, n_chars: int) -> None:
        self._at += n_chars

    def enter(self, key: str) -> None:
        """Take the beginning of an object up to the value of its first key, which must be `key`."""
        if self.next_char() == "{":
            self._at += 1
            if self.value("its first key") == key and self.next_char() == ":":
                self._at += 1
                return
        raise DataError(f"{self._path.name}: must be an object whose first key is {key!r}")

    def take_comma(self, where: str) -> None:
        char = self.next_char()
        if char != ",":
            raise self.error(where, _BROKEN if char else _CUT_OFF)
        self._at += 1

    def next_char(self) -> str:
        """Return the next character that is not white space, without taking it; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(_CHUNK_CHARS):
                return ""

    def value(self, where: str) -> object:
        """Take the next JSON value."""
        if not self.next_char():
            raise self.error(where, _CUT_OFF)
        size = _CHUNK_CHARS
        while True:
            try:
                value, self._at = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # A value that the buffer cuts off fails near its end, or in a string that began
                # anywhere; all else is an error of the file.
                unterminated = error.msg.startswith("Unterminated")
                failed_at, length = error.pos - self._at, len(self._text.rstrip()) - self._at
                if (unterminated or failed_at >= length - 16) and self._more(size):
                    size *= 2
                    continue
                self._at += failed_at
                reason = _json_problem(error, at_end=unterminated or failed_at >= length)
                raise self.error(where, reason) from error
            return value

    def _more(self, n_chars: int) -> bool:
        """Read on; let go of what was taken. Return whether there was more."""
        chunk = self._stream.read(n_chars)
        if chunk:
            self._text = self._text[self._at :] + chunk
            self._before += self._at
            self._at = 0
        return bool(chunk)


def _json_problem(error: json.JSONDecodeError, *, at_end: bool) -> str:
    if at_end:
        return _CUT_OFF
    return f"is not valid JSON ({error.msg})"
