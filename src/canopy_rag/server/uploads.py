"""Files that callers add: stored under a harmless name, indexed one after the other in a thread."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import secrets
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import anyio

from canopy_rag.api import Index
from canopy_rag.config import ServerConfig
from canopy_rag.core.errors import CanopyError, ConfigError
from canopy_rag.ingest import registry
from canopy_rag.server.errors import ApiError, OverloadedError

FOLDER = "uploads"
PART = ".part"
"""Suffix of a file that has not arrived whole."""
MAX_AT_ONCE = 8
"""Files that arrive at the same time."""
MAX_WAITING = 200
MAX_TOLD = 1000
"""Uploads of which the state can be asked."""
MAX_NAME_BYTES = 120
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
State = Literal["waiting", "indexing", "done", "failed"]
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file on its way into the index."""

    id: str
    name: str
    n_bytes: int
    state: State = "waiting"
    n_items: int = 0
    error: str | None = None
    report: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what a caller is told."""
        return {
            "id": self.id,
            "name": self.name,
            "bytes": self.n_bytes,
            "state": self.state,
            "items": self.n_items,
            "error": self.error,
            "report": self.report,
        }


class Uploads:
    """Takes files and indexes them. They stay in the folder `uploads` of the index, or as set.

    Args:
        index: Where items go.
        config: Limits, and the folder.
        ended: Called with the state of each upload that has ended.

    Raises:
        ConfigError: If the index is on object storage and no folder is set.
    """

    def __init__(self, index: Index, config: ServerConfig, ended: Callable[[str], None]) -> None:
        self._index = index
        self._config = config
        self._ended = ended
        self._folder = _folder(index, config)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Upload] = OrderedDict()
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._n_arriving = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    async def take(self, name: str, body: AsyncIterator[bytes]) -> Upload:
        """Store a file and put it in the queue.

        Args:
            name: As the caller calls it.
            body: Its content.

        Raises:
            ApiError: If it is of a kind that is not read, too long, or there is no room.
        """
        safe = harmless(name)
        if not registry.is_supported(Path(safe)):
            kinds = " ".join(sorted(registry.suffixes()))
            raise ApiError(415, f"files like {safe!r} are not read; these are: {kinds}")
        if self._n_arriving >= MAX_AT_ONCE:
            raise OverloadedError("uploads", MAX_AT_ONCE)
        if sum(each.state == "waiting" for each in self.latest()) >= MAX_WAITING:
            raise OverloadedError("uploads", MAX_WAITING)
        self._n_arriving += 1
        try:
            n_bytes = await self._store(safe, body)
        finally:
            self._n_arriving -= 1
        return self._queue(safe, n_bytes)

    def resume(self) -> None:
        """Queue the files of an earlier run, and remove what arrived in part.

        What was indexed is unchanged and costs a checksum; what was still waiting, or was cut off,
        is indexed now.
        """
        if not self._folder.is_dir():
            return
        for path in sorted(self._folder.iterdir()):
            if path.suffix == PART:
                path.unlink(missing_ok=True)
            elif path.is_file() and registry.is_supported(path):
                self._queue(path.name, path.stat().st_size)

    def get(self, upload_id: str) -> Upload:
        """Return an upload as it stands.

        Raises:
            ApiError: If there is none of this id.
        """
        with self._lock:
            if upload_id not in self._known:
                raise ApiError(404, f"there is no upload {upload_id[:100]!r}")
            return self._known[upload_id]

    def latest(self) -> list[Upload]:
        """Return the uploads that are remembered, newest first."""
        with self._lock:
            return list(reversed(self._known.values()))

    def close(self) -> None:
        """End the thread after the file at work; what waits is left to the next start."""
        self._closed = True
        self._waiting.put(None)

    async def _store(self, name: str, body: AsyncIterator[bytes]) -> int:
        """Write the whole file or nothing; return its size."""
        room = self._config.max_uploads_bytes - await anyio.to_thread.run_sync(self._stored_bytes)
        limit = min(self._config.max_upload_bytes, room)
        part = self._folder / f".{secrets.token_hex(8)}{PART}"
        n_bytes = 0
        try:
            async with await anyio.open_file(part, "xb") as file:
                async for chunk in body:
                    n_bytes += len(chunk)
                    if n_bytes > limit:
                        raise _too_large(limit, self._config.max_upload_bytes)
                    await file.write(chunk)
            if not n_bytes:
                raise ApiError(400, "the file is empty")
            if await anyio.to_thread.run_sync(self._stored_bytes) > self._config.max_uploads_bytes:
                raise _no_room()  # others arrived meanwhile
            await anyio.to_thread.run_sync(os.replace, part, self._folder / name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        return n_bytes

    def _stored_bytes(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        total = 0
        for each in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another upload may end meanwhile
                total += each.stat().st_size if each.is_file() else 0
        return total

    def _queue(self, name: str, n_bytes: int) -> Upload:
        upload = Upload(id=secrets.token_hex(8), name=name, n_bytes=n_bytes)
        self._put(upload)
        self._start()
        self._waiting.put(upload.id)
        return upload

    def _put(self, upload: Upload) -> None:
        with self._lock:
            self._known[upload.id] = upload
            while len(self._known) > MAX_TOLD:
                self._known.popitem(last=False)

    def _start(self) -> None:
        if self._thread is None:
            # A daemon: what was committed is kept, and indexing again goes on from there.
            self._thread = threading.Thread(target=self._work, name="canopy-uploads", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (wanted := self._waiting.get()) is not None and not self._closed:
            with self._lock:
                upload = self._known.get(wanted)
            if upload is not None:
                ended = self._indexed(replace(upload, state="indexing"))
                self._put(ended)
                self._ended(ended.state)

    def _indexed(self, upload: Upload) -> Upload:
        """Index a file and return how it ended."""
        self._put(upload)

        def tell(done: int, total: int, current: str, items: int) -> None:
            self._put(replace(upload, n_items=items))

        path = self._folder / upload.name
        try:
            report = self._index.add(path, on_progress=tell)
        except Exception as error:  # the thread lives on, whatever a file does to a parser
            logger.error("upload %r: %s", upload.name, error, exc_info=error)
            known = isinstance(error, CanopyError)
            reason = _without(self._folder, str(error)) if known else "it could not be indexed"
            return replace(upload, state="failed", error=reason)
        if report.failed:
            reason = _without(self._folder, report.failed[0].reason)
            return replace(upload, state="failed", error=reason)
        files = report.to_dict()
        return replace(upload, state="done", n_items=report.items, report=files)


def _folder(index: Index, config: ServerConfig) -> Path:
    if config.upload_folder is not None:
        return Path(config.upload_folder)
    if "://" in index.place:
        raise ConfigError(
            f"uploaded files need a folder of their own, since the index is in {index.place!r}; "
            "set server.upload_folder"
        )
    return index.path / FOLDER


def harmless(name: str) -> str:
    r"""Return what is left of a file's name when all that could do harm is gone.

    Folders, control and direction characters, characters that some file system refuses, leading
    and trailing dots and spaces go; names of devices get an underscore; a long name is cut before
    its suffix.

    >>> harmless("../../etc/Report 1.PDF"), harmless("C:\\x\\con.txt"), harmless("..")
    ('Report 1.PDF', '_con.txt', 'file')
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join(each for each in last if each.isprintable() and each not in '<>:"|?*')
    kept = kept.encode("utf-8", "ignore").decode("utf-8").strip(" .")
    if not kept:
        return "file"
    if _RESERVED.fullmatch(kept):
        kept = f"_{kept}"
    path = Path(kept)
    suffix = path.suffix[:16]
    room = MAX_NAME_BYTES - len(suffix.encode("utf-8"))
    stem = path.stem.encode("utf-8")[:room].decode("utf-8", "ignore")
    return f"{stem}{suffix}"


def _too_large(limit: int, most: int) -> ApiError:
    if limit < most:
        return _no_room()
    return ApiError(413, f"the file is longer than the {most} bytes allowed")


def _no_room() -> ApiError:
    return ApiError(413, "there is no room left for uploads; see server.max_uploads_bytes")


def _without(folder: Path, message: str) -> str:
    """Return a message without the place of the server's folder."""
    plain = message.replace(f"{folder}{os.sep}", "").replace(str(folder), FOLDER)
    return plain.replace(str(folder.parent), folder.parent.name)
