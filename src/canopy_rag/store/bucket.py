"""An index on object storage: S3 and what is compatible with it, Google's and Azure's.

LanceDB reads and writes the tables there by itself, each commit a conditional write. What is beside
them in a local folder is objects here: `index.json`, the lease of the writer, and under `notes/`
copies of the local files (manifest, roots), which a writer fetches first and puts back.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import shutil
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from canopy_rag.core.errors import StoreError
from canopy_rag.store.checksums import Damage
from canopy_rag.store.lease import Lease
from canopy_rag.store.location import Location, Stamp
from canopy_rag.store.objects import ChangedError, Objects

_NOTES = "notes"
_NOTE = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9_-]+)*")
_KEEP_S = 5.0  # at least; a kill costs the work of as long
_SHARE = 20  # of the time that keeping notes took before they are kept again
_LANCE = {"client_max_retries": "5", "client_retry_timeout": "30", "download_retry_count": "3"}
"""Options that LanceDB alone knows."""


class Bucket(Location):
    """A path in a bucket that holds an index.

    Args:
        address: `s3://bucket/path` and the like.
        storage_options: For the client; what is missing comes from the environment.
        refresh_s: How old what a search sees may be, in seconds.

    Raises:
        StoreError: If the address names no bucket.
        ConfigError: If there is no such option.
        MissingDependencyError: Without `obstore`.
    """

    def __init__(
        self,
        address: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        refresh_s: float = 5.0,
    ) -> None:
        options = dict(storage_options or {})
        self._address = address.rstrip("/")
        ours = {name: value for name, value in options.items() if name not in _LANCE}
        self._objects = Objects(self._address, ours)
        self.storage_options = {**_LANCE, **options}
        self.consistency = datetime.timedelta(seconds=refresh_s)
        self._lease = Lease(self._objects, self._address)
        self._depth = 0
        self._holder: int | None = None
        self._gate = threading.RLock()
        self._looked: tuple[float, Stamp | None] | None = None
        self._temporary: Path | None = None
        self._tags: dict[str, str] = {}
        self._kept: dict[str, tuple[int, int]] = {}
        self._next_keep = 0.0
        self._next_fetch = 0.0

    def __str__(self) -> str:
        return self._address

    @property
    def tables(self) -> str:
        """What LanceDB connects to."""
        return f"{self._address}/tables"

    @property
    def local(self) -> Path:
        """A temporary folder with copies of the notes, not older than `refresh_s`."""
        with self._gate:
            if not self._depth and time.monotonic() >= self._next_fetch:
                self._fetch()
            return self._folder()

    @property
    def staging(self) -> Path:
        """A folder in the temporary one."""
        return self._folder() / "staging"

    def versions_of(self, table: str) -> Path | None:
        """Nothing local tells of commits."""
        return None

    def stamp(self) -> Stamp | None:
        """Return the tag of `index.json`, not older than `refresh_s`; None if it is not there."""
        looked = self._looked
        if looked is None or time.monotonic() - looked[0] >= self.consistency.total_seconds():
            self._looked = looked = (time.monotonic(), self._objects.tag("index.json"))
        return looked[1]

    def forget(self) -> None:
        """Have `stamp` ask the storage the next time."""
        self._looked = None

    def n_bytes(self) -> int:
        """Return the size of all objects of the index."""
        return sum(size for size, _ in self._objects.list().values())

    def damaged(self) -> list[Damage]:
        """Return nothing: object storage checks what it keeps by itself."""
        return []

    @contextlib.contextmanager
    def writing(self) -> Iterator[bool]:
        """Hold the place by a lease; may be nested. Yields whether this is the outermost call.

        Raises:
            StoreError: If another process or thread writes, or the storage refuses.
        """
        with self._gate:
            if self._depth and self._holder != threading.get_ident():
                raise StoreError(
                    f"the index in {self._address!r} is being written by another thread of this "
                    "process; wait until it is done"
                )
            if not self._depth:
                self._check_conditions()
                self._lease.acquire()
                self.took_over = self._lease.took_over
                self._holder = threading.get_ident()
                self._looked = None
            self._depth += 1
        try:
            if self._depth > 1:
                yield False
                return
            self._fetch()
            self._empty_staging()
            with self._keeping():
                yield True
        finally:
            with self._gate:
                self._depth -= 1
                if not self._depth:
                    self._holder = None
                    self._lease.release()

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        """Put the notes back in the end, also after a failure or Ctrl-C; the first error counts."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(StoreError):
                self._lease.confirm()
                self._put_back()
            raise
        self._lease.confirm()
        self._put_back()

    def confirm(self) -> None:
        """Check, before a commit, that this process still holds the lease.

        Raises:
            StoreError: If another one took it over.
        """
        self._lease.confirm()

    def keep(self) -> None:
        """Put notes back now and then, so that a kill costs little."""
        if self._depth and time.monotonic() >= self._next_keep:
            self._put_back()

    def failure(self, what: Literal["read", "written"], error: BaseException) -> str:
        """Say why the index cannot be read or written, and what to do."""
        return self._objects.failure(what, error)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Turn an operating system's error into a `StoreError`: here that of temporary files."""
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{str(self._folder())!r}, where rows of {self._address!r} wait, cannot be "
                f"written ({error}); make room, or set TMPDIR to a folder with room"
            ) from error

    def _read(self, name: str) -> bytes:
        return self._objects.get(name).data

    def _write(self, name: str, data: bytes) -> None:
        self._looked = None
        self._objects.put(name, data)

    def _delete(self, name: str) -> None:
        self._objects.delete(name)

    def _folder(self) -> Path:
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="canopy-"))
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary

    def _empty_staging(self) -> None:
        if self.staging.is_dir():
            for left_over in self.staging.iterdir():
                left_over.unlink(missing_ok=True)

    def _check_conditions(self) -> None:
        """Refuse a storage that ignores conditions: it would let two writers in.

        Asked once per index, when it is empty.
        """
        if self._objects.tag("index.json") is not None:
            return
        name = f"write-{uuid.uuid4().hex}.test"  # of its own: others may ask at the same time
        self._objects.put(name, b"1", new=True)
        try:
            self._objects.put(name, b"2", new=True)
        except ChangedError:
            return
        finally:
            self._objects.delete(name)
        raise StoreError(
            f"the storage of {self._address!r} ignores conditional writes (If-None-Match), which "
            "keep two writers apart; take a newer version of it, or a local folder"
        )

    def _fetch(self) -> None:
        """Fetch the notes that have changed."""
        folder = self._folder()
        for name, (_, tag) in self._objects.list(_NOTES).items():
            note = name.rpartition("/")[2]
            if not _NOTE.fullmatch(note):  # not ours: whoever writes to a bucket names objects
                continue
            path = folder / note
            if self._tags.get(path.name) == tag and path.exists():
                continue
            with contextlib.suppress(FileNotFoundError):  # taken away since
                data = self._objects.get(name).data
                temporary = path.with_name(f".{path.name}")
                with self.guard():
                    temporary.write_bytes(data)
                    temporary.replace(path)
                self._tags[path.name] = tag
                self._kept[path.name] = _state(path)
        self._next_fetch = time.monotonic() + self.consistency.total_seconds()

    def _put_back(self) -> None:
        """Put the notes that have changed back."""
        begun = time.monotonic()
        for path in sorted(self._folder().iterdir()):
            if not path.is_file() or path.name.startswith(".") or path.name.endswith("-journal"):
                continue
            state = _state(path)
            if self._kept.get(path.name) != state:
                self._tags[path.name] = self._objects.put(f"{_NOTES}/{path.name}", path)
                self._kept[path.name] = state
        took = time.monotonic() - begun
        self._next_keep = time.monotonic() + max(_KEEP_S, _SHARE * took)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size
