"""What a place that holds an index can do, and what its `index.json` says.

Everything that touches paths is in the two kinds of place, `store.local` and `store.bucket`.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from canopy_rag.core.coding import Precision
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Fingerprint
from canopy_rag.store.checksums import Damage

FORMAT_VERSION = 3
OLDER_FORMATS = (1, 2)
"""Format versions that `upgrade` turns into this one."""
_META, _REMOVED = "index.json", "removed.json"

Stamp = tuple[int, int, int] | str
"""Tells one state of `index.json` from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMeta:
    """What `index.json` holds."""

    identity: str
    """Drawn when the index was made; another index in the same place has another one."""
    created: str
    """ISO 8601, UTC."""
    encoder: Fingerprint
    corpora: dict[str, str]
    """Table of each corpus."""
    hybrid: bool = False
    """Whether a full-text index is kept beside the vectors."""
    trained: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of items that each table's vector index was trained on."""
    media: list[str] = dataclasses.field(default_factory=list)
    """Modalities that were embedded from their pixels; the others through their text."""
    adapter: str = ""
    """Folder of the encoder's adapter, absolute; empty: it had none."""
    vectors: Precision = "float16"
    """How the rows of nodes are stored; formats 1 and 2 had float16 alone."""
    format_version: int = FORMAT_VERSION


class Location(abc.ABC):
    """A place that holds an index: its description, its tables, and notes beside them.

    It is named in messages by `str`.
    """

    storage_options: Mapping[str, str] | None = None
    """How the engine reaches the tables; None for a local folder."""
    consistency = datetime.timedelta(0)
    """How old what a search sees may be."""
    took_over = False
    """Whether the writer before this one did not say that it was done, and may only have slept."""

    @property
    @abc.abstractmethod
    def tables(self) -> str:
        """What LanceDB connects to."""

    @property
    @abc.abstractmethod
    def local(self) -> Path:
        """A local folder with the notes beside the index (manifest, roots), those of now.

        What a writer puts there is kept with the index.
        """

    @property
    @abc.abstractmethod
    def staging(self) -> Path:
        """A local folder for what is not written yet; emptied when a writer starts."""

    @abc.abstractmethod
    def versions_of(self, table: str) -> Path | None:
        """The folder into which every commit of a table writes a file; None if it is not local."""

    @abc.abstractmethod
    def stamp(self) -> Stamp | None:
        """Return the state of `index.json`; None if it is not there.

        Raises:
            StoreError: If the place cannot be reached.
        """

    @abc.abstractmethod
    def forget(self) -> None:
        """Have `stamp` look anew the next time, however short ago it looked."""

    @abc.abstractmethod
    def n_bytes(self) -> int:
        """Return the size of all files of the index."""

    @abc.abstractmethod
    def damaged(self) -> list[Damage]:
        """Return the files that are not as they were written.

        Raises:
            StoreError: If one cannot be read.
        """

    @abc.abstractmethod
    def writing(self) -> AbstractContextManager[bool]:
        """Hold the place for one writer; may be nested. Yields whether this is the outermost call.

        Raises:
            StoreError: On entering, if another process writes, or the place cannot be written.
        """

    @abc.abstractmethod
    def failure(self, what: Literal["read", "written"], error: BaseException) -> str:
        """Say why the index cannot be read or written, and what to do."""

    @abc.abstractmethod
    def guard(self) -> AbstractContextManager[None]:
        """Turn an error of this place at writing into a `StoreError` that says what to do."""

    @contextmanager
    def engine(self) -> Iterator[None]:
        """Turn an error of the engine at opening a table into a `StoreError`."""
        try:
            yield
        except BaseException as error:
            if not is_of_engine(error):
                raise
            raise StoreError(self.failure("read", error)) from error

    @abc.abstractmethod
    def _read(self, name: str) -> bytes:
        """Return a file; `FileNotFoundError` if there is none."""

    @abc.abstractmethod
    def _write(self, name: str, data: bytes) -> None:
        """Write a file, all of it or nothing."""

    @abc.abstractmethod
    def _delete(self, name: str) -> None:
        """Remove a file if it is there."""

    @abc.abstractmethod
    def confirm(self) -> None:
        """Check, before a commit, that this process still holds the place it writes to.

        Raises:
            StoreError: If another process took it over.
        """

    @abc.abstractmethod
    def keep(self) -> None:
        """Hear, after a commit, that notes may be kept now."""

    @property
    def has_index(self) -> bool:
        """Whether there is an `index.json`."""
        return self.stamp() is not None

    def read_meta(self, formats: Collection[int] = (FORMAT_VERSION,)) -> IndexMeta:
        """Read `index.json`.

        Args:
            formats: Format versions that will do.

        Raises:
            StoreError: If it is missing, damaged, or of another format version.
        """
        try:
            data = json.loads(self._read(_META))
        except FileNotFoundError as error:
            raise StoreError(
                f"no index in {str(self)!r}; make one with `canopy index PATH --index {self}`"
            ) from error
        except StoreError:
            raise  # of the place; the file may be in order
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self._named(_META)!r} cannot be read ({error}); restore it from a backup, "
                "or index again into a new folder"
            ) from error
        version = data.get("format_version") if isinstance(data, dict) else None
        if version not in formats:
            remedy = "index again into a new folder, or use the canopy-rag version that made it"
            if version in OLDER_FORMATS:
                remedy = f"bring it up to date with `canopy upgrade --index {self}`"
            raise StoreError(
                f"the index in {str(self)!r} has format version {version}, this program reads "
                f"{FORMAT_VERSION}; {remedy}"
            )
        try:
            known = {
                one.name: data[one.name]
                for one in dataclasses.fields(IndexMeta)
                if one.name in data
            }  # a later version of the same format may note more
            return IndexMeta(**{**known, "encoder": Fingerprint(**data["encoder"])})
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"{self._named(_META)!r} does not describe an index ({error}); restore it from "
                "a backup, or index again into a new folder"
            ) from error

    def current_meta(self, meta: IndexMeta, stamp: Stamp | None) -> tuple[IndexMeta, Stamp | None]:
        """Return what `index.json` says now, and its stamp; reads it only if that changed.

        Raises:
            StoreError: If it is missing, damaged, or of another format version.
        """
        now = self.stamp()
        return (meta if now is not None and now == stamp else self.read_meta()), now

    def write_meta(self, meta: IndexMeta) -> None:
        """Write `index.json`, all of it or nothing.

        Raises:
            StoreError: If the place cannot be written.
        """
        self._write(_META, as_json(dataclasses.asdict(meta)))

    @property
    def removal_pending(self) -> bool:
        """Whether removed content may still stand in some file."""
        try:
            self._read(_REMOVED)
        except FileNotFoundError:
            return False
        return True

    def mark_removal(self) -> None:
        """Note, before content is removed, that files must be rewritten afterwards."""
        if not self.removal_pending:
            self._write(_REMOVED, as_json({"pending": True}))

    def clear_removal(self) -> None:
        """Note that nothing of the removed content is left."""
        with self.guard():
            self._delete(_REMOVED)

    def _named(self, name: str) -> str:
        return f"{self}/{name}"


def is_of_engine(error: BaseException) -> bool:
    """Whether an error is one that the engine raises, a panic of its native part included."""
    if isinstance(error, StoreError):
        return False
    panics = {"RustPanic", "PanicException"}  # classes that cannot be imported
    return isinstance(error, OSError | RuntimeError | ValueError) or type(error).__name__ in panics


def as_json(data: Mapping[str, object]) -> bytes:
    """Return the bytes of a small file."""
    return json.dumps(data, indent=2, ensure_ascii=True).encode("ascii")


Place = str | os.PathLike[str] | Location
"""A folder, an address such as `s3://bucket/path`, or what `locate` made of one."""


def locate(
    place: Place,
    storage_options: Mapping[str, str] | None = None,
    *,
    refresh_s: float = 5.0,
) -> Location:
    """Return the place that a path or an address names.

    Args:
        place: A local folder, `s3://bucket/path`, `gs://bucket/path` or `az://container/path`.
        storage_options: How to reach object storage, by the names that its client has; what is
            missing comes from the usual variables of the environment (`AWS_...`).
        refresh_s: How old what a search of an index on object storage sees may be, in seconds.

    Raises:
        StoreError: If the address is of another kind, or names no bucket.
    """
    if isinstance(place, Location):
        return place
    from canopy_rag.store.local import LocalFolder

    name = os.fspath(place)
    if "://" in name:
        from canopy_rag.store.bucket import Bucket

        return Bucket(name, storage_options, refresh_s=refresh_s)
    scheme, colon, rest = name.partition(":/")
    if colon and isinstance(place, os.PathLike) and scheme in {"s3", "gs", "az"}:
        raise StoreError(
            f"{name!r} was an address before it became a path; give {scheme}://{rest} as text"
        )
    return LocalFolder(name)
