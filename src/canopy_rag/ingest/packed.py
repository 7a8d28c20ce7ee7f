"""Office files are zip archives: a look at what they would unpack to, before anything is."""

from __future__ import annotations

import zipfile
from pathlib import Path

from canopy_rag.core.errors import IngestError

MAX_UNPACKED = 1_000_000_000
"""Bytes. A document of this size is a trap, or would not fit into memory as a tree."""


def check_unpacked(path: Path, uri: str) -> None:
    """Refuse an archive that would unpack to more than `MAX_UNPACKED` bytes.

    Raises:
        IngestError: If it would.
        zipfile.BadZipFile: If it is no archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except (NotImplementedError, ValueError, EOFError) as error:  # of a damaged directory
        raise zipfile.BadZipFile(str(error)) from error
    if unpacked > MAX_UNPACKED:
        raise IngestError(uri, f"would unpack to {unpacked // 10**6} MB: refused")
