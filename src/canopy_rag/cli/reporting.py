"""What an indexing run did, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import count, one_line
from canopy_rag.core.types import MODALITIES

if TYPE_CHECKING:
    from canopy_rag.api import Index
    from canopy_rag.indexing import IndexReport

_PARTS = {
    "indexed": "new",
    "replaced": "changed",
    "unchanged": "unchanged",
    "removed": "removed",
    "ignored": "ignored",
}


def show_report(output: Output, report: IndexReport, index: Index) -> None:
    """Write what was done, what the index now holds, and what failed and why.

    Args:
        output: Where to; failures go to stderr even where it is quiet.
        report: What was done.
        index: Where; it is read only if something changed, so that an unchanged folder stays
            cheap.
    """
    files = report.to_dict()["files"]
    if not output.quiet:
        parts = [f"{files[key]:,} {word}" for key, word in _PARTS.items() if files[key]]
        if report.failed:
            parts.append(f"{len(report.failed):,} failed")
        output.show(Text.assemble(("files  ", "bold"), ", ".join(parts) or "none found"))
        if report.indexed or report.replaced or report.removed:
            output.show(Text.assemble(("items  ", "bold"), _holdings(index)))
        output.show(Text.assemble(("index  ", "bold"), index.place))
    for note in _gathered(report.notes):
        output.warn(one_line(note))
    for failure in report.failed:
        output.error(f"{one_line(failure.path)}: {one_line(failure.reason)}")
    if report.failed:
        n_done = report.indexed + report.replaced + report.unchanged
        output.note(
            f"{count(len(report.failed), 'file')} could not be read; the other {n_done:,} are in "
            "the index. Failed files are tried again at the next run."
        )


def _holdings(index: Index) -> str:
    """Return how many items of which modality the index holds."""
    items = index.info()["items"]
    by_modality = [
        count(items[modality], modality) for modality in MODALITIES if items.get(modality)
    ]
    return f"{items['total']:,}: {', '.join(by_modality)}"


def _gathered(notes: Sequence[str]) -> list[str]:
    """Return notes with those that many files share said once."""
    sources: dict[str, list[str]] = {}
    for note in notes:
        uri, _, message = note.partition(": ")
        sources.setdefault(message, []).append(uri)
    return [
        f"{uris[0]}: {message}"
        if len(uris) == 1
        else f"{len(uris):,} files, {uris[0]} first: {message}"
        for message, uris in sources.items()
    ]
