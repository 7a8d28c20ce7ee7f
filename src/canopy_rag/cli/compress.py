"""`canopy compress`: documents of your own into the parts that a query needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from canopy_rag.cli.options import (
    Budget,
    Cap,
    Debug,
    Encoder,
    Json,
    Offline,
    Quiet,
    Select,
    settings,
)
from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import of
from canopy_rag.core.errors import CanopyError, DataError, EncodeError

if TYPE_CHECKING:
    from canopy_rag.api import Compressor
    from canopy_rag.core.evidence import Evidence


class Line(NamedTuple):
    """One line of the input: a query and its documents."""

    query: str
    documents: list[Any]


def compress(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Files to read as documents; without any, JSON Lines are read from stdin.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="The query of lines without one, or of the files."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            metavar="N",
            help="Only the N items most similar to the query. Default: all.",
            show_default=False,
        ),
    ] = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    encoder: Encoder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Cut documents down to the parts that a query needs; no index.

    Each line of stdin is `{"query": "...", "documents": [...]}`; a document is a string or
    `{"id", "modality", "title", "text" | "table": {"header", "rows"} | "path"}`. Each line gives
    one evidence object, in input order, as soon as it is done. A line that cannot be read gives
    `{"error": ...}` in its place, and the exit code is 1.
    """
    from canopy_rag.api import Compressor

    output = Output(as_json=as_json, quiet=quiet)
    if files and query is None:
        raise typer.BadParameter("files need a query: canopy compress --query Q FILE...")
    if not files and sys.stdin.isatty():
        raise typer.BadParameter("name files, or send JSON Lines to stdin")
    flags = {
        "select.select": select,
        "select.budget": budget,
        "select.cap": cap,
        "encoder.name": encoder,
    }
    config = settings(offline=offline, output=output, flags=flags)
    compressor = Compressor(config=config)
    if files:
        _show(output, _compressed(compressor, Line(query or "", list(files)), k))
    elif not _each_line(output, compressor, query, k):
        raise typer.Exit(1)


def _each_line(output: Output, compressor: Compressor, query: str | None, k: int | None) -> bool:
    """Compress stdin line by line; return whether all went well."""
    from canopy_rag.cli.opening import warn_of_language

    all_well, warned = True, False
    for number, raw in _lines():
        try:
            line = _parsed(raw, query)
            warned = warned or warn_of_language(output, compressor.encoder, line.query)
            evidence = _compressed(compressor, line, k)
        except CanopyError as error:
            all_well = False
            output.error(f"line {number}: {error}")
            if output.as_json:
                kind = type(error).__name__
                output.json({"error": {"type": kind, "message": str(error), "line": number}})
            continue
        _show(output, evidence)
    return all_well


def _lines() -> Iterator[tuple[int, bytes]]:
    """Yield the lines of stdin with their numbers from 1, without empty ones."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        if raw.strip():
            yield number, raw


def _parsed(raw: bytes, query: str | None) -> Line:
    """Return what a line asks for.

    Raises:
        DataError: If it is no JSON object with a query and a list of documents.
    """
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"not JSON in UTF-8: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("documents"), list):
        raise DataError('expected an object with "documents": [...]')
    unknown = sorted(data.keys() - {"query", "documents"})
    if unknown:
        raise DataError(f"unknown key {unknown[0]!r}; known: documents, query")
    asked = data.get("query", query)
    if not isinstance(asked, str) or not asked.strip():
        raise DataError('no query: put "query" into the line, or give --query')
    return Line(asked, data["documents"])


def _compressed(compressor: Compressor, line: Line, k: int | None) -> Evidence:
    """Compress a line's documents, or only the `k` most similar ones, in the order given."""
    if k is None or (len(line.documents) <= k and not _any_file(line.documents)):
        return compressor.compress(line.query, line.documents)
    try:
        explained = compressor.explain(line.query, line.documents)
    except EncodeError:  # the compressor then returns the documents whole, and says so
        return compressor.compress(line.query, line.documents)
    best = sorted(explained, key=lambda each: (-each.found.hit.similarity, each.found.hit.rank))
    chosen = sorted(best[:k], key=lambda each: each.found.hit.rank)
    return compressor.compress(line.query, [each.found.item for each in chosen])


def _any_file(documents: list[Any]) -> bool:
    """Whether a document is a file, which may hold several items."""
    return any(
        isinstance(each, Path) or (isinstance(each, dict) and "path" in each) for each in documents
    )


def _show(output: Output, evidence: Evidence) -> None:
    if output.as_json:
        output.json(evidence.to_dict())
        return
    output.write(f"{evidence.text}\n\n")
    counted = "" if evidence.meter.exact else ", estimated"
    output.note(f"{of(evidence.tokens, evidence.tokens_full)}{counted}")
    for note in evidence.fallbacks:
        output.warn(f"{note.stage}: {note.reason}")
