"""Bytes of a text file to characters; nothing is guessed in silence where it could be wrong."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from canopy_rag._optional import require
from canopy_rag.core.errors import IngestError
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_BYTES = 200_000
_MULTIBYTE = re.compile(rb"[\xc3-\xf4][\x80-\xbf]{1,3}")
_MOSTLY_UTF8 = 20
_SAME_COHERENCE = 0.03


def read_text(path: Path, uri: str, options: IngestOptions) -> str:
    """Return the characters of a text file, without a byte order mark, line ends as they are.

    Raises:
        IngestError: If the file cannot be read, is empty or not text; see `decode`.
    """
    return decode(read_bytes(path, uri), uri, options)


def read_bytes(path: Path, uri: str) -> bytes:
    """Return the content of a file.

    Raises:
        IngestError: If it cannot be read or holds nothing.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise IngestError(uri, f"cannot be read: {reason}") from error
    if not data:
        raise IngestError(uri, "is empty: 0 bytes")
    return data


def decode(data: bytes, uri: str, options: IngestOptions, declared: str | None = None) -> str:
    """Decode a file: by its byte order mark, as UTF-8, as declared, else by charset-normalizer.

    Args:
        data: The whole file.
        uri: Its name, for errors.
        options: Told of an encoding that had to be guessed.
        declared: The encoding that the file itself names, as HTML may; ignored when the bytes
            are not valid in it.

    Raises:
        IngestError: If the file is binary, in no known encoding, or UTF-8 with broken bytes in it.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding, uri)
    if b"\0" in data:
        raise IngestError(uri, "holds NUL bytes, so it is not text: give it its proper suffix")
    # Bytes beyond ASCII that happen to be valid UTF-8 are UTF-8, whatever a page's head says; only
    # encodings that shift with escapes look like ASCII.
    named = _known(declared)
    candidates = (named, "utf-8") if b"\x1b" in data else ("utf-8", named)
    for candidate in candidates:
        if candidate is not None:
            try:
                return data.decode(candidate)
            except UnicodeDecodeError:
                continue
    return _detected(data, uri, options)


def _known(declared: str | None) -> str | None:
    """Return Python's name of a declared encoding, as browsers understand it."""
    try:
        name = codecs.lookup(declared.strip()).name if declared else None
    except (LookupError, ValueError):
        return None
    if name is None or name.startswith(("utf-16", "utf-32")):
        return None
    return "cp1252" if name in {"iso8859-1", "ascii"} else name


def _decoded(data: bytes, encoding: str, uri: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise IngestError(
            uri, f"is not valid {encoding.upper()}: save it as UTF-8", place=f"byte {error.start}"
        ) from error


def _detected(data: bytes, uri: str, options: IngestOptions) -> str:
    """Return text in a legacy encoding, such as Windows-1252 or Shift-JIS."""
    if len(_MULTIBYTE.findall(data)) >= _MOSTLY_UTF8 * _n_broken(data):
        # Read as anything else, each of its accented characters would turn into two wrong ones.
        return _decoded(data, "utf-8", uri)
    detector = require("charset_normalizer", extra="index", feature="reading text not in UTF-8")
    matches = detector.from_bytes(data[:_SAMPLE_BYTES])
    best = matches.best()
    if best is None:
        raise IngestError(uri, "is in no known text encoding: save it as UTF-8")
    encoding = str(best.encoding)
    # It takes the first of equally good ones by the alphabet; Windows-1252 is by far the commonest.
    if any(
        "cp1252" in match.could_be_from_charset
        and match.chaos <= best.chaos
        and match.coherence >= best.coherence - _SAME_COHERENCE
        for match in matches
    ):
        encoding = "cp1252"
    text = _decoded(data, encoding, uri)
    note(options, uri, f"is not in UTF-8; read as {encoding}, by guess")
    return text


def _n_broken(data: bytes) -> int:
    """Return the number of characters that are not valid UTF-8."""
    return data.decode("utf-8", "replace").count("\ufffd")
