"""What is known of each source file, so that an unchanged one costs a look at its time stamp.

An SQLite file beside the index. It is derived: written after the store has the items, and made anew
when it is lost, damaged, or of another index; the files are then read again, never lost or doubled.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from canopy_rag.core.errors import StoreError

_NAME = "manifest.sqlite"
_FORMAT = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    uri BLOB PRIMARY KEY, path BLOB NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    companions TEXT NOT NULL, sha256 TEXT NOT NULL, settings TEXT NOT NULL,
    checked_ns INTEGER NOT NULL, n_items INTEGER NOT NULL, status TEXT NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;
"""
_COLUMNS = (
    "uri, path, size, mtime_ns, companions, sha256, settings, checked_ns, n_items, status, reason"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one source file."""

    uri: str
    path: str
    """Where it was seen; empty when only the store knows it."""
    size: int = -1
    mtime_ns: int = -1
    companions: str = ""
    """Its sidecar files with their sizes and times."""
    sha256: str = ""
    settings: str = ""
    """Key of what it was indexed with."""
    checked_ns: int = 0
    """When size, time and checksum were taken, in nanoseconds of the clock."""
    n_items: int = 0
    """Items of it in the store."""
    status: Literal["indexed", "failed"] = "indexed"
    reason: str = ""
    """Why it failed."""


class Manifest:
    """The records of one index.

    Args:
        folder: The index's folder.
        identity: Of the store; records of another one are dropped.

    Raises:
        StoreError: If the file cannot be written.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._path = folder / _NAME
        try:
            self._db = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._failure(error) from error
            self._path.unlink()  # not a database: derived, so made anew
            self._db = self._opened()
        with self._guard():
            known = dict(self._db.execute("SELECT name, value FROM meta"))
            self.is_new = known != {"format": _FORMAT, "identity": identity}
            """Whether nothing was known yet."""
            if self.is_new:
                self._db.execute("DELETE FROM files")
                self._db.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [("format", _FORMAT), ("identity", identity)],
                )

    def get(self, uri: str) -> Record | None:
        """Return the record of a source, or None."""
        with self._guard():
            query = f"SELECT {_COLUMNS} FROM files WHERE uri = ?"
            row = self._db.execute(query, (_bytes(uri),)).fetchone()
        return None if row is None else _record(row)

    def all(self) -> Iterator[Record]:
        """Yield all records, by uri."""
        with self._guard():
            yield from map(_record, self._db.execute(f"SELECT {_COLUMNS} FROM files ORDER BY uri"))

    def put(self, records: Iterable[Record]) -> None:
        """Write records; they are safe when this returns."""
        rows = [
            (
                _bytes(each.uri),
                _bytes(each.path),
                each.size,
                each.mtime_ns,
                each.companions,
                each.sha256,
                each.settings,
                each.checked_ns,
                each.n_items,
                each.status,
                each.reason.encode("utf-8", "backslashreplace").decode(),
            )
            for each in records
        ]
        with self._guard():
            marks = ", ".join("?" * 11)
            self._db.executemany(f"INSERT OR REPLACE INTO files VALUES ({marks})", rows)

    def drop(self, uris: Iterable[str]) -> None:
        """Forget sources."""
        with self._guard():
            rows = [(_bytes(uri),) for uri in uris]
            self._db.executemany("DELETE FROM files WHERE uri = ?", rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _opened(self) -> sqlite3.Connection:
        # Manual transactions; used by one thread at a time, under the index's lock.
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            db.executescript(_SCHEMA)
            if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("the file is damaged")
        except sqlite3.Error:
            db.close()
            raise
        return db

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Run one transaction; turn an error of the database into a `StoreError`."""
        try:
            self._db.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"{str(self._path)!r} cannot be written ({error}); make room or give write permission, "
            "and run the same command again"
        )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _record(row: tuple[bytes, bytes, int, int, str, str, str, int, int, str, str]) -> Record:
    uri, path, size, mtime_ns, companions, sha256, settings, checked_ns, n_items, _, reason = row
    return Record(
        uri=uri.decode("utf-8", "surrogatepass"),
        path=path.decode("utf-8", "surrogatepass"),
        size=size,
        mtime_ns=mtime_ns,
        companions=companions,
        sha256=sha256,
        settings=settings,
        checked_ns=checked_ns,
        n_items=n_items,
        status="failed" if row[9] == "failed" else "indexed",
        reason=reason,
    )
