"""The job: scan, parse, encode, write. Incremental, resumable, one writer at a time."""

from __future__ import annotations

from canopy_rag.indexing.job import IndexOptions, index_files, remove_files
from canopy_rag.indexing.processes import Limits
from canopy_rag.indexing.report import Failure, IndexReport, Progress
from canopy_rag.indexing.roots import Roots
from canopy_rag.indexing.sources import SourceReader, settings_key

__all__ = [
    "Failure",
    "IndexOptions",
    "IndexReport",
    "Limits",
    "Progress",
    "Roots",
    "SourceReader",
    "index_files",
    "remove_files",
    "settings_key",
]
