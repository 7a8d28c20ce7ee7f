"""One writer at a time where there are no file locks: an object that its holder keeps renewing.

Every step is a conditional write, so that of two processes one fails. Ages are told by the
storage's own clock: clocks of the writers may be wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import StoreError
from canopy_rag.store.objects import ChangedError, Objects, Stored

TTL_S = 60.0
"""A lease that was not renewed for as long is free."""
_NAME, _PROBE = "write.lock", "write.probe"


class Lease:
    """The right to write to an index.

    Args:
        objects: Where the index lies.
        place: The index, for messages.
    """

    def __init__(self, objects: Objects, place: str) -> None:
        self._objects = objects
        self._place = place
        self._lock = threading.Lock()
        self._tag = ""
        self._note: dict[str, Any] = {}
        self._lost = False
        self.took_over = False
        """Whether the holder before did not give the lease back."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lease.

        Raises:
            StoreError: If another process holds it, naming it.
        """
        self._note = {
            "owner": uuid.uuid4().hex,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "machine": _machine(),
            "n": 0,
        }
        self._lost = self.took_over = False
        try:
            try:
                self._tag = self._objects.put(_NAME, self._body(), new=True)
            except ChangedError:
                self._tag = self._objects.put(_NAME, self._body(), tag=self._free_tag())
        except (ChangedError, FileNotFoundError) as error:
            raise StoreError(
                f"the index in {self._place!r} is being written by another process, which was "
                "faster; wait until it is done"
            ) from error
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="canopy-lease", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """Renew the lease now.

        Raises:
            StoreError: If another process took it over, or the storage cannot be reached.
        """
        with self._lock:
            self._beat()
        if self._lost:
            raise StoreError(
                f"another process took over the index in {self._place!r} while this one stood "
                f"still for more than {TTL_S:.0f} s; what was committed before is kept. Run the "
                "same command again"
            )

    def release(self) -> None:
        """Give the lease back; another process may take it at once.

        Where the storage cannot be reached, it expires: that is no failure of what was written.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if not self._lost:
                self._note["released"] = True
                with contextlib.suppress(StoreError):
                    self._beat()

    def _free_tag(self) -> str:
        """Return the tag of a lease that nobody holds any more.

        Raises:
            StoreError: If somebody does.
        """
        seen = self._objects.get(_NAME)
        try:
            note = dict(json.loads(seen.data))
        except (ValueError, TypeError):
            note = {}  # not ours; it expires like any other
        self.took_over = not note.get("released")
        if note.get("released") or _has_ended(note):
            return seen.tag
        age_s = self._age_s(seen)
        if age_s > TTL_S:
            return seen.tag
        who = f"process {note['pid']} on {note['host']}" if "pid" in note else "another process"
        raise StoreError(
            f"the index in {self._place!r} is being written by {who}, which showed life "
            f"{max(0, round(age_s))} s ago; wait until it is done, or end it. If it was killed, "
            f"run this again in {max(1, round(TTL_S - age_s) + 1)} s"
        )

    def _age_s(self, seen: Stored) -> float:
        self._objects.put(_PROBE, uuid.uuid4().bytes)
        now = self._objects.get(_PROBE).modified
        return (now - seen.modified).total_seconds()

    def _renew(self) -> None:
        while not self._ended.wait(TTL_S / 4):
            with self._lock:
                try:
                    self._beat()
                except StoreError:
                    continue  # perhaps later; every commit asks again
                if self._lost:
                    return

    def _beat(self) -> None:
        if self._lost:
            return
        self._note["n"] += 1
        try:
            self._tag = self._objects.put(_NAME, self._body(), tag=self._tag)
        except (ChangedError, FileNotFoundError):
            self._lost = not self._is_mine()

    def _is_mine(self) -> bool:
        """Whether the object is ours: the answer to a write that went through may get lost."""
        try:
            seen = self._objects.get(_NAME)
            mine = json.loads(seen.data).get("owner") == self._note["owner"]
        except (FileNotFoundError, ValueError, AttributeError):
            return False
        if mine:
            self._tag = seen.tag
        return bool(mine)

    def _body(self) -> bytes:
        return json.dumps(self._note).encode("ascii")


def _machine() -> str:
    """Return what is the same for two processes only if one can see whether the other lives."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""  # not Linux: it expires


def _has_ended(note: dict[str, Any]) -> bool:
    """Whether a holder on this very machine is gone."""
    if not note.get("machine") or note["machine"] != _machine():
        return False
    try:
        os.kill(int(note["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    return False
