"""Evidence for people: what is shown of each item, where it came from, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

from canopy_rag.cli.layout import block, single
from canopy_rag.cli.output import Output
from canopy_rag.cli.places import heading, place
from canopy_rag.cli.wording import clean, count, of, one_line
from canopy_rag.core.evidence import Evidence, Fragment, Shown
from canopy_rag.core.render import head_lines
from canopy_rag.core.trees import leaves

WHY = {
    "refined": "refined",
    "whole": "shown whole",
    "image": "a picture, always whole",
    "aggregate": "whole, since the question needs the whole table",
}
INDENT = 3
LINES_OF_FRAGMENT = 6
"""Longer fragments are cut for people, unless they want all."""


def show_evidence(output: Output, evidence: Evidence, *, full: bool = False) -> None:
    """Write every item with its fragments, then what it all amounts to.

    Args:
        output: Where to.
        evidence: What was found.
        full: Whole fragments; otherwise the first lines of each.
    """
    if not evidence.entries:
        output.show("Nothing was found: the index is empty.")
        return
    numbers = iter(evidence.fragments)
    for shown in evidence.entries:
        fragments = [next(numbers) for _ in shown.kept]
        output.show(*_item(output, shown, fragments, full=full), "")
    show_totals(output, evidence)


def show_totals(output: Output, evidence: Evidence) -> None:
    """Write how many tokens the evidence has, of how many, and what degraded."""
    if not evidence.entries:
        return
    n_items, n_fragments = len(evidence.entries), len(evidence.fragments)
    size = of(evidence.tokens, evidence.tokens_full)
    counted = "" if evidence.meter.exact else ", estimated"
    output.show(
        Text.assemble(
            (f"{size}{counted}", "bold"),
            f" in {count(n_fragments, 'fragment')} of {count(n_items, 'item')}",
            f"; {count(len(evidence.left_out), 'item')} left out" if evidence.left_out else "",
        )
    )
    for note in evidence.fallbacks:
        output.warn(f"{note.stage}: {note.reason}")


def excerpt(fragment: Fragment) -> str:
    """Return a fragment's text on one line; what else it is where it has no words."""
    return one_line(fragment.text or "") or f"({fragment.media or 'no words'})"


def source(fragment: Fragment) -> str:
    """Return a fragment's file and the place in it."""
    return ", ".join(part for part in (one_line(fragment.source.uri), place(fragment)) if part)


def _item(output: Output, shown: Shown, fragments: list[Fragment], *, full: bool) -> Iterator[Text]:
    nodes = shown.item.nodes
    n_kept = sum(len(leaves(nodes, node)) for node in shown.kept)
    kept = f"{n_kept} of {count(len(leaves(nodes)), 'leaf', 'leaves')}"
    yield from block(output, Text(f"{shown.rank}. {heading(shown.item)}", "bold"), INDENT, first=0)
    about = f"  {WHY[shown.why]}: {kept}, similarity {shown.similarity:.3f}"
    uri = one_line(shown.item.source.uri)
    yield from block(output, Text.assemble((uri, "cyan"), (about, "dim")), INDENT)
    for line in head_lines(shown.item)[1:]:
        header = Text(one_line(line), "dim")
        yield from (
            block(output, header, INDENT + 4) if full else [single(output, header, INDENT + 4)]
        )
    for fragment in fragments:
        yield from _fragment(output, fragment, full=full)


def _fragment(output: Output, fragment: Fragment, *, full: bool) -> Iterator[Text]:
    """Yield a fragment's lines: its number and place, then its text, rows a line each."""
    where = place(fragment)
    label = Text.assemble((f"[{fragment.n}]", "green"), (f" {where}" if where else "", "cyan"))
    words = re.sub(r"\n\s*\n", "\n", clean(fragment.text or ""))
    text = Text(words or f"({fragment.media or 'no words'})")
    is_table = fragment.unit == "row"
    if is_table:
        yield Text(" " * INDENT).append_text(label)
        lines = [
            single(output, row, INDENT + 4) if not full else row
            for row in text.split("\n", allow_blank=True)
        ]
        if full:
            lines = [line for row in lines for line in block(output, row, INDENT + 4)]
    else:
        lines = block(output, label.append("  ").append_text(text), INDENT)
    most = len(lines) if full or len(lines) <= LINES_OF_FRAGMENT else LINES_OF_FRAGMENT - 1
    yield from lines[:most]
    if most < len(lines):
        rest = count(len(lines) - most, "more row" if is_table else "more line")
        yield Text(f"{' ' * (INDENT + 4)}({rest}; --full shows all)", "dim")
