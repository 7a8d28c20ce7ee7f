"""Processes that parse beside the run, so that a file that crashes or hangs a parser fails alone.

Each process has a thread that hands it one file at a time and takes in what it says. A file that
ends a process which had read others before is tried once more in a new one: only then is it the
file's doing. These are plain child processes, since those of `multiprocessing` run the caller's
main module again, which a script without a guard does not survive.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import IO, Any

from canopy_rag.core import codec
from canopy_rag.core.errors import ConfigError, DataError, IngestError
from canopy_rag.core.types import Item
from canopy_rag.indexing.sources import Note, Parse

MEGABYTE = 1_000_000
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from canopy_rag.indexing.child import main; main()"
)
_AHEAD_BYTES = 8 * MEGABYTE
"""What a process may say of a file before anyone asks for it."""
_LONGEST_LINE = 256 * MEGABYTE
"""No item is as long; one that is would be held in memory several times over."""
LOOK_S = 0.1
"""Between two looks at the time and memory of processes."""
_START_S = 300.0
_END_S = 5.0
_BESIDE = 8_000 * MEGABYTE
"""Address space is reserved for threads and caches that are never filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the parser of one file may take before its process is ended."""

    seconds: float = 120.0
    """Longest time without an item or a note; a second more for each megabyte of the file."""
    memory_mb: int = 4096
    """Most memory of the process, in megabytes; watched on Linux."""


class Reading:
    """What one process says of one file; handed from its thread to whoever reads it.

    Args:
        path: The file.
        uri: Its name.
        seconds: Longest time without a reply.
        stopping: Whether the run is to end.
    """

    def __init__(self, path: Path, uri: str, seconds: float, stopping: Callable[[], bool]) -> None:
        self.path, self.uri, self.seconds = path, uri, seconds
        self._stopping = stopping
        self._lines: deque[bytes] = deque()
        self._n_bytes = 0
        self._changed = threading.Condition()
        self.error: Exception | None = None
        self.is_dropped = False
        self.is_untouched = True
        """Whether no reply has come yet."""

    def put(self, line: bytes) -> None:
        """Take in a reply; wait while there are many."""
        with self._changed:
            self.is_untouched = False
            self._changed.wait_for(
                lambda: self.is_dropped or not self._lines or self._n_bytes < _AHEAD_BYTES
            )
            if not self.is_dropped:
                self._lines.append(line)
                self._n_bytes += len(line)
                self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """End with an error."""
        with self._changed:
            self.error = error
            self._changed.notify_all()

    def drop(self) -> None:
        """Let whatever comes go by: nobody reads it."""
        with self._changed:
            self.is_dropped = True
            self._changed.notify_all()

    def parse(self, _path: Path, uri: str, note: Note) -> Iterator[Item]:
        """Yield the items, as the parser in the process does; once this ends, the rest goes by.

        Raises:
            IngestError: With what the parser said, or with what became of its process.
            ConfigError: If no process can be started.
            KeyboardInterrupt: If the run is to end and there is nothing to do but wait.
        """
        try:
            while True:
                kind, *content = self._next()
                if kind == "item":
                    yield codec.decode(Item, content[0])
                elif kind == "note":
                    note(*content)
                elif kind == "failed":
                    raise IngestError(uri, content[0])
                else:
                    return
        finally:  # else the process would wait for somebody to read on
            self.drop()

    def _next(self) -> Any:
        with self._changed:
            while not self._lines:
                if self.error is not None:
                    raise self.error
                if self._stopping():
                    raise KeyboardInterrupt
                self._changed.wait(LOOK_S)
            line = self._lines.popleft()
            self._n_bytes -= len(line)
            self._changed.notify_all()
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the process that parses it said {line[:80]!r}") from error


class Worker:
    """A process that parses, started when there is work, and the thread that feeds it.

    Args:
        parse: Reads one file; must be picklable.
        limits: What a file may take.
        waiting: Files to be read; None ends the thread.
    """

    def __init__(
        self, parse: Parse, limits: Limits, waiting: queue.SimpleQueue[Reading | None]
    ) -> None:
        self._parse, self._limits, self._waiting = parse, limits, waiting
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: Reading | None = None
        self._since: float | None = None
        self._allowed_s = 0.0
        self._ended_for: str | None = None
        self._was_slow = False
        self._thread = threading.Thread(target=self._work, name="canopy-parsing", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """End the process if it has taken too much time or memory."""
        with self._lock:
            process, allowed_s = self._process, self._allowed_s
            if process is None or self._ended_for is not None:
                return
            if self._since is not None and time.monotonic() - self._since > allowed_s:
                self._ended_for = (
                    f"its parser was ended after {allowed_s:.0f} s without a result; if the file "
                    "is sound, raise index.file_timeout_s"
                )
                self._was_slow = True
            elif _memory_of(process.pid) > self._limits.memory_mb * MEGABYTE:
                self._ended_for = (
                    f"its parser was ended when it held more than {self._limits.memory_mb} MB; "
                    "split the file, or raise index.file_memory_mb"
                )
            if self._ended_for is not None:
                process.kill()

    def close(self) -> None:
        """End process and thread; what is being read is lost."""
        with self._lock:
            reading, process = self._reading, self._process
        if reading is not None:
            reading.drop()
            if process is not None:
                process.kill()
        self._thread.join()

    def _work(self) -> None:
        while (reading := self._waiting.get()) is not None:
            try:
                self._read(reading)
            except Exception as error:  # whoever waits for the file must hear of it
                reading.fail(error)
        self._end()

    def _read(self, reading: Reading) -> None:
        had_others = self._process is not None and self._process.poll() is None
        lost = self._try(reading)
        is_doubtful = had_others and reading.is_untouched and not self._was_slow
        if lost is not None and is_doubtful and not reading.is_dropped:
            lost = self._try(reading)
        if lost is not None:
            reading.fail(IngestError(reading.uri, lost))

    def _try(self, reading: Reading) -> str | None:
        """Read a file; return what became of the process if that did not end well."""
        with self._lock:
            self._reading = reading
        try:
            process = self._process
            if process is None or process.poll() is not None:
                self._end()
                process = self._start()
            return self._replies(process, reading)
        finally:
            self._wait(None)
            with self._lock:
                self._reading = None

    def _wait(self, seconds: float | None) -> None:
        """Begin to wait for the process, for so long; None: nothing is expected of it."""
        with self._lock:
            self._since = None if seconds is None else time.monotonic()
            self._allowed_s = seconds or 0.0

    def _replies(self, process: subprocess.Popen[bytes], reading: Reading) -> str | None:
        if not _written(_pipe(process.stdin), [str(reading.path), reading.uri]):
            return self._fate()
        while True:
            self._wait(reading.seconds)
            line = _pipe(process.stdout).readline(_LONGEST_LINE)
            if not line.endswith(b"\n"):
                return self._fate(is_long=len(line) == _LONGEST_LINE)
            self._wait(None)
            reading.put(line)
            if line.startswith((b'["end"', b'["failed"')):
                return None

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process and return it.

        Raises:
            ConfigError: If it does not come up.
        """
        hello = {
            "parse": b64encode(pickle.dumps(self._parse)).decode("ascii"),
            "address_space": 2 * self._limits.memory_mb * MEGABYTE + _BESIDE,
        }
        process = subprocess.Popen(
            # -P: else a json.py in the working folder, which may be the one indexed, would be run.
            [get_executable(), "-P", "-c", _CODE, json.dumps([str(each) for each in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with self._lock:
            self._process, self._ended_for, self._was_slow = process, None, False
        self._wait(_START_S)
        if (
            not _written(_pipe(process.stdin), hello)
            or _pipe(process.stdout).readline(_LONGEST_LINE) != b'["ready"]\n'
        ):
            raise ConfigError(
                f"the process that reads files did not start ({self._fate()}); what it said is "
                "above. Set index.isolate to false to read files without it"
            )
        return process

    def _fate(self, *, is_long: bool = False) -> str:
        """Return why the process has ended, or must end; it is gone afterwards."""
        with self._lock:
            ended_for = self._ended_for
        if is_long:
            ended_for = f"has an item of more than {_LONGEST_LINE // MEGABYTE} MB; split the file"
        code = self._end(at_once=is_long)
        return ended_for or (
            f"ended the process that parsed it ({_how(code)}): a crash in its parser, or no memory "
            "left; save it anew from the program that it came from, or leave it out"
        )

    def _end(self, *, at_once: bool = False) -> int:
        """End the process, if there is one, and return its exit code."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return 0
        if at_once:
            process.kill()
        with contextlib.suppress(OSError):  # what it has not read is of no use any more
            _pipe(process.stdin).close()
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        _pipe(process.stdout).close()
        return code


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without pipes")
    return pipe


def _written(pipe: IO[bytes], message: Any) -> bool:
    """Write a message to a process; whether it still listens."""
    try:
        pipe.write(json.dumps(message).encode("ascii") + b"\n")
        pipe.flush()
    except OSError:
        return False
    return True


def _how(code: int) -> str:
    """Return the end of a process in words.

    >>> _how(-11), _how(7)
    ('SIGSEGV', 'exit code 7')
    """
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _memory_of(pid: int) -> int:
    """Return how many bytes a process holds in memory; 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * mmap.PAGESIZE
