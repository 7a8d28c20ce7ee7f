"""Evidence and sources as an agent gets them: quoted material that cannot pass itself off as more.

Material stands between tags whose code is drawn for each reply, so that no document can hold the
end of its own block; control tokens and fragment numbers inside it are broken up. The structured
form beside it is verbatim and for programs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from canopy_rag.core.answer import Answer
from canopy_rag.core.evidence import Evidence, Fragment
from canopy_rag.core.prompts import neutral, neutral_numbers
from canopy_rag.core.provenance import Location
from canopy_rag.core.render import ELISION, Region, Style, clock, render_item
from canopy_rag.core.types import Item

RESOURCE = "canopy://items/{item_id}"
"""Address of an item's text."""
EXCERPT_CHARS = 300
"""Shown of a fragment that an answer cites; `read_source` shows all of it."""


def fenced(text: str) -> str:
    """Return material between tags that no document can know beforehand."""
    code = secrets.token_hex(8)
    return f"<evidence-{code}>\n{text}\n</evidence-{code}>"


def quoted(text: str) -> str:
    """Return a document's text with all broken up that could pass for something else."""
    return neutral(neutral_numbers(text))


def written(evidence: Evidence, first: int) -> str:
    """Return evidence with the source above each item and numbers before fragments.

    Args:
        evidence: What to show.
        first: Number of the first fragment.
    """
    blocks: list[str] = []
    for entry in evidence.entries:
        regions = [
            Region(node=node, n=n, cut=entry.cut) for n, node in enumerate(entry.kept, start=first)
        ]
        first += len(regions)
        parts = render_item(entry.item, regions, Style(numbered=True))
        # The numbers are ours by now, and the documents' own are broken up.
        body = neutral("\n".join(part for part in parts if isinstance(part, str)))
        blocks.append(f"{headline(entry.item)}\n{body}")
    return "\n\n".join(blocks)


def headline(item: Item) -> str:
    """Return an item's id and source on one line."""
    return f"item {item.id} from {quoted(json.dumps(item.source.uri, ensure_ascii=False))}"


def evidence_record(evidence: Evidence, first: int) -> dict[str, Any]:
    """Return the JSON interface's `evidence`, numbered from `first`, items with their address."""
    record = evidence.to_dict()
    for item in record["items"]:
        item["resource"] = RESOURCE.format(item_id=item["id"])
        for fragment in item["fragments"]:
            fragment["n"] += first - 1
    return record


def sources(answer: Answer) -> str:
    """Return the fragments that an answer cites, one a line, each with its item and place."""
    numbers = sorted({citation.fragment for citation in answer.citations})
    by_number = {fragment.n: fragment for fragment in answer.evidence.fragments}
    return "\n".join(_source_line(by_number[n]) for n in numbers if n in by_number)


def _source_line(fragment: Fragment) -> str:
    text = " ".join((fragment.text or fragment.media or "").split())
    if len(text) > EXCERPT_CHARS:
        text = f"{text[:EXCERPT_CHARS]} {ELISION}"
    uri = json.dumps(fragment.source.uri, ensure_ascii=False)
    line = f"{uri}{place(fragment.source)}: {text}"
    return f"[{fragment.n}] item {fragment.item_id} from {quoted(line)}"


def place(source: Location) -> str:
    """Return a place in words, with a comma before it; empty if the format cannot tell.

    >>> place(Location(uri="a.pdf", rows=(3, 4)))
    ', rows 3 to 4'
    """
    if source.places:
        pages: Sequence[int] = sorted({each.page for each in source.places})
        return f", page {', '.join(map(str, pages))}"
    if source.time is not None:
        return f", {clock(source.time[0])} to {clock(source.time[1])}"
    if source.rows:
        sheet = f", sheet {source.sheet}" if source.sheet else ""
        return f"{sheet}, rows {source.rows[0]} to {source.rows[-1]}"
    return ""
