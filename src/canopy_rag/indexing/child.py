"""A process that parses files, one after the other, for the run that started it.

It takes jobs from standard input and gives JSON Lines back: `["item", ...]`, `["note", uri, text]`
and, at the end of a file, `["end"]` or `["failed", reason]`. What it gives back is data: a parser
that damaged files have taken over can hand over wrong items, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
from base64 import b64decode
from pathlib import Path
from typing import IO, Any

from canopy_rag.core import codec
from canopy_rag.indexing.sources import Parse, reason_of

_BUFFER_BYTES = 262_144
_SIGN_OF_LIFE_S = 0.5
_FIRST_TO_GO = "900"
"""Of -1000 to 1000, to a kernel that runs out of memory: rather this process than the run."""


def main() -> None:
    """Serve until standard input ends."""
    try:
        _main()
    except BrokenPipeError:  # the run is gone, and nobody is left to be told
        os._exit(0)


def _main() -> None:
    replies = os.fdopen(os.dup(1), "wb", buffering=_BUFFER_BYTES)
    os.dup2(2, 1)  # what is printed must not get between the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends this one
    jobs: queue.Queue[bytes] = queue.Queue()
    hello = json.loads(sys.stdin.buffer.readline())
    _limit(hello["address_space"])
    parse: Parse = pickle.loads(b64decode(hello["parse"]))
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    sender = _Sender(replies)
    sender.send("ready")
    sender.flush()
    _silence()
    while True:
        path, uri = json.loads(jobs.get())
        _serve(parse, Path(path), uri, sender)
        sender.flush()


def _silence() -> None:
    """Let what libraries write of damaged files go nowhere: that a file failed, the run tells."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _receive(jobs: queue.Queue[bytes]) -> None:
    """Hand on what comes in; end the process with the run, whatever a parser is doing."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


class _Sender:
    """Writes replies: together, unless some time has gone by."""

    def __init__(self, replies: IO[bytes]) -> None:
        self._replies = replies
        self._flushed = time.monotonic()

    def send(self, kind: str, *content: Any) -> None:
        self._replies.write(json.dumps([kind, *content], separators=(",", ":")).encode() + b"\n")
        if time.monotonic() - self._flushed > _SIGN_OF_LIFE_S:
            self.flush()

    def flush(self) -> None:
        self._replies.flush()
        self._flushed = time.monotonic()


def _serve(parse: Parse, path: Path, uri: str, sender: _Sender) -> None:
    try:
        for item in parse(path, uri, lambda uri, text: sender.send("note", uri, text)):
            sender.send("item", codec.encode(item))
    except Exception as error:  # a parser may fail in any way; the run goes on
        sender.send("failed", reason_of(error))
    else:
        sender.send("end")


def _limit(address_space: int) -> None:
    """Set what the system can watch over, where it can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, "ascii")
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no copy of a document
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
