"""Opening the index of a command that asks it something."""

from __future__ import annotations

from canopy_rag.api import Index
from canopy_rag.cli.output import Output
from canopy_rag.config import Config
from canopy_rag.core.protocols import Encoder


def open_index(config: Config, output: Output, query: str) -> Index:
    """Open the configured index, and warn if its encoder does not know the query's language.

    Raises:
        StoreError: If there is no index, or it belongs to another encoder or version.
    """
    index = Index.open(config=config)
    warn_of_language(output, index.encoder, query)
    return index


def warn_of_language(output: Output, encoder: Encoder, query: str) -> bool:
    """Warn if an encoder for English alone gets a query in another language.

    Returns:
        Whether it warned.
    """
    from canopy_rag.text import looks_non_english

    if encoder.languages != frozenset({"en"}) or not looks_non_english(query):
        return False
    name = encoder.fingerprint.model
    output.warn(
        f"the encoder {name!r} was trained for English; with a query in another language, what "
        "is found and kept may be wrong"
    )
    return True
