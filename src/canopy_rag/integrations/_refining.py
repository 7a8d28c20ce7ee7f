"""Retrieved documents in, the same documents with refined text out: what the adapters share.

The promise is that of a drop-in: order and everything but the text stay; the text is part of the
original or the original itself; whatever fails gives the original back with the reason on record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from canopy_rag.api import Compressor
from canopy_rag.core.budget import Cap, fit
from canopy_rag.core.errors import ConfigError, DataError, MissingDependencyError
from canopy_rag.core.evidence import Evidence, Fallback, Shown
from canopy_rag.core.render import ELISION
from canopy_rag.core.select import Select
from canopy_rag.core.types import Item
from canopy_rag.integrations._tables import (
    Interval,
    PipeTable,
    pipe_tables,
    shown_intervals,
    with_rows,
)
from canopy_rag.pipeline import factory

KEY = "canopy"
"""Where in a document's metadata the record stands."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A document as a framework hands it over."""

    text: str
    title: str = ""
    """Context for the encoder; not shown, since it was not part of the text."""
    uri: str = ""
    """The framework's own name of the source; empty: by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """A document of which something is shown."""

    position: int
    """Among the documents given, from 0."""
    text: str
    record: dict[str, Any]
    """JSON: the item of the evidence, with `spans` and `fallbacks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A document that could be read, with its tree."""

    position: int
    text: str
    item: Item
    tables: tuple[PipeTable, ...]


def make_compressor(
    compressor: Compressor | None = None,
    *,
    encoder: str | None = None,
    select: Select | None = None,
    budget: int | None = None,
    cap: Cap | None = None,
    min_tokens: int | None = None,
) -> Compressor:
    """Return the compressor of an adapter's settings, or the caller's own.

    Raises:
        ConfigError: If a setting cannot work, or stands beside a compressor.
    """
    settings = {
        "encoder": encoder,
        "select": select,
        "budget": budget,
        "cap": cap,
        "min_tokens": min_tokens,
    }
    if compressor is None:
        return Compressor(encoder, select=select, budget=budget, cap=cap, min_tokens=min_tokens)
    if given := [name for name, value in settings.items() if value is not None]:
        raise ConfigError(f"give the compressor or {', '.join(given)}, not both")
    return compressor


class Refiner:
    """Refines the text of documents; knows no framework.

    Args:
        compressor: What decides.
    """

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor

    def refine(self, query: str | None, documents: Sequence[Given]) -> list[Refined]:
        """Return the documents of which something is shown, in order.

        One that is blank, or cannot be read, comes back as it is; so do all without a query and
        when the compression fails.

        Args:
            query: The question or search query; None or blank: nothing can be refined.
            documents: Retrieved documents, best first.

        Raises:
            ConfigError: If a setting cannot work.
            MissingDependencyError: If the encoder needs an extra that is not installed.
        """
        if query is None or not query.strip():
            note = Fallback(stage="query", reason="no query was given; the documents are whole")
            return [_original(at, each, query, note) for at, each in enumerate(documents)]
        done: dict[int, Refined] = {}
        read: list[_Read] = []
        for position, document in enumerate(documents):
            if not document.text.strip():
                done[position] = _original(position, document, query)
                continue
            try:
                read.append(self._read(position, document))
            except DataError as error:
                note = Fallback(stage="read", reason=str(error))
                done[position] = _original(position, document, query, note)
        for each in self._compressed(query, read, documents):
            done[each.position] = each
        return [done[position] for position in sorted(done)]

    def _read(self, position: int, document: Given) -> _Read:
        name = f"document-{position + 1}"
        ingest = self._compressor.config.ingest
        fields: dict[str, object] = {
            "id": name,
            "title": document.title,
            "text": document.text,
        }
        (item,) = factory.read_document(fields, document.uri or name, ingest)
        tables = pipe_tables(document.text)
        if tables:
            nodes = with_rows(item, document.text, tables, ingest.branching)
            item = replace(item, nodes=nodes, section=_header_path(document.text, tables))
        return _Read(position=position, text=document.text, item=item, tables=tables)

    def _compressed(
        self, query: str, read: Sequence[_Read], documents: Sequence[Given]
    ) -> list[Refined]:
        if not read:
            return []
        try:
            evidence = self._compressor.compress(query, [each.item for each in read])
            return self._within_budget(evidence, {each.item.id: each for each in read})
        except (ConfigError, MissingDependencyError):  # a set-up that never works is no accident
            raise
        except Exception as error:
            _log.warning("documents could not be refined and stay whole", exc_info=error)
            note = Fallback(stage="compress", reason=f"{type(error).__name__}: {error}")
            return [
                _original(each.position, documents[each.position], query, note) for each in read
            ]

    def _within_budget(self, evidence: Evidence, read: dict[str, _Read]) -> list[Refined]:
        """Write the evidence out; what tables add to its count is taken off the budget."""
        selection = self._compressor.selection
        limit = selection.budget
        failed = any(note.stage == "encode" for note in evidence.fallbacks)
        while True:
            refined = _refined(evidence, read)
            if limit is None or failed or selection.budget is None:
                return refined
            total = evidence.meter.count("\n\n".join(each.text for each in refined))
            if total <= selection.budget or limit == 1:
                return refined
            limit = max(1, min(limit, evidence.tokens) - (total - selection.budget))
            evidence = fit(evidence, limit, selection.cap)


def _header_path(text: str, tables: Sequence[PipeTable]) -> tuple[str, ...]:
    """Return the column names as context of the rows, where the document is one table alone."""
    if len(tables) > 1 or text[: tables[0].start].strip() or text[tables[0].stop :].strip():
        return ()
    line = text[slice(*tables[0].header)].split("\n", 1)[0]
    return ("; ".join(filter(None, map(str.strip, line.split("|")))),)


def _refined(evidence: Evidence, read: dict[str, _Read]) -> list[Refined]:
    notes = [{"stage": each.stage, "reason": each.reason} for each in evidence.fallbacks]
    refined: list[Refined] = []
    for entry, record in zip(evidence.entries, evidence.to_dict()["items"], strict=True):
        each = read[entry.item.id]
        text, spans = _written(entry, record["fragments"], each, bare=evidence.bare)
        record |= {"spans": [list(span) for span in spans], "fallbacks": list(notes)}
        refined.append(Refined(position=each.position, text=text, record=record))
    return refined


def _written(
    entry: Shown, fragments: Sequence[dict[str, Any]], read: _Read, *, bare: bool
) -> tuple[str, list[Interval]]:
    """Return what is shown of a document, and which of its characters that is."""
    whole = (read.text, [(0, len(read.text))])
    if entry.kept == (0,) and entry.cut is None:
        return whole
    kept = [(int(each["start"]), int(each["stop"])) for each in fragments]
    spans = shown_intervals(kept, read.tables, bare=bare)
    mark = f" {ELISION}" if entry.cut is not None and entry.cut.mark else ""
    text = _joined(read.text, spans, read.tables) + mark
    return (text, spans) if len(text) < len(read.text) else whole


def _joined(text: str, spans: Sequence[Interval], tables: Sequence[PipeTable]) -> str:
    """Write spans one after the other; neighbours as in the source, others with a mark between."""
    written = ""
    position: int | None = None
    for start, stop in spans:
        if position is not None:
            written += _between(text, position, start, tables)
        written += text[start:stop]
        position = stop
    return written


def _between(text: str, stop: int, start: int, tables: Sequence[PipeTable]) -> str:
    gap = text[stop:start]
    if gap.isspace():
        return gap
    if any(table.header[1] == stop for table in tables):
        return "\n"  # rows left out below the header; the rows shown are still its own
    in_lines = any(table.start <= stop <= table.stop or start == table.start for table in tables)
    return f"\n{ELISION}\n" if in_lines else f" {ELISION} "


def _original(
    position: int, document: Given, query: str | None, note: Fallback | None = None
) -> Refined:
    record = {
        "id": f"document-{position + 1}",
        "modality": "text",
        "title": document.title,
        "query": query,
        "rank": position + 1,
        "why": "whole",
        "fragments": [],
        "spans": [[0, len(document.text)]] if document.text else [],
        "fallbacks": [] if note is None else [{"stage": note.stage, "reason": note.reason}],
    }
    return Refined(position=position, text=document.text, record=record)
