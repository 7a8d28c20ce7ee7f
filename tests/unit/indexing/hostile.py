"""A parser that does to its process what damaged files do; the file's first word says what."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.unit.indexing import fakes

from canopy_rag.core.types import Item
from canopy_rag.indexing.sources import Note

MEMORY_MB = 400
"""Above what a process holds that has read nothing, below what `MEMORY` takes."""


def parse(path: Path, uri: str, note: Note) -> Iterator[Item]:
    word = path.read_text("utf-8").split()[0]
    if word == "HANG":
        threading.Event().wait()
    if word == "SEGFAULT":
        faulthandler._sigsegv()
    if word == "MEMORY":
        held = b"x" * (2 * MEMORY_MB * 1_000_000)
        threading.Event().wait(len(held))
    if word == "PRINT":
        os.write(1, b'["end"]\n')
        sys.stdout.write('["failed", "by a print"]\n')
        sys.stdout.flush()
    if word == "ONCE":
        # Ends the first process that reads it, as one does that others have worn out.
        mark = path.with_suffix(".mark")
        if not mark.exists():
            mark.touch()
            os._exit(3)
    yield from fakes.parse(path, uri, note)
    if word == "LATE":
        os._exit(9)
