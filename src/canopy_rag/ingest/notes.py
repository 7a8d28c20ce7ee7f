"""What of a source could not be used while the rest was: told, never dropped in silence."""

from __future__ import annotations

import logging

from canopy_rag.ingest.options import IngestOptions

_log = logging.getLogger("canopy_rag.ingest")


def note(options: IngestOptions, uri: str, message: str) -> None:
    """Tell what of a source could not be used, while the rest of it is indexed.

    Args:
        options: Its `note` is called; without one the message goes to the log.
        uri: The source.
        message: What is missing, as a sentence about the source.
    """
    if options.note is None:
        _log.warning("%s: %s", uri, message)
    else:
        options.note(uri, message)
