"""Items, places and sizes in words, safe to print."""

from __future__ import annotations

import unicodedata

from canopy_rag.core.evidence import Fragment
from canopy_rag.core.provenance import Location
from canopy_rag.core.render import clock
from canopy_rag.core.types import Item, Node


def clean(text: str) -> str:
    r"""Return `text` without control characters, which could make a terminal do things.

    >>> clean("a\x1b[31mb\tc")
    'a[31mb\tc'
    """
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one) != "Cc")


def one_line(text: str) -> str:
    """Return `text` on one line, without control characters."""
    return " ".join(clean(text).split())


def heading(item: Item) -> str:
    """Return an item's title and section path.

    A title that repeats the file name is all that many files have, so nothing else is put in.
    """
    return (
        one_line(" > ".join(part for part in (item.title, *item.section) if part)) or "(untitled)"
    )


def count(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count(1, "leaf", "leaves"), count(3, "file")
    ('1 leaf', '3 files')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def place(fragment: Fragment) -> str:
    """Return where in its file a fragment stands: sheet, page, rows or time; else nothing."""
    return ", ".join(_places(fragment.source))


def _places(source: Location) -> list[str]:
    found: list[str] = []
    if source.sheet:
        found.append(f"sheet {one_line(source.sheet)}")
    if source.places:
        found.append(_numbers("page", sorted({each.page for each in source.places})))
    if source.rows:
        found.append(_numbers("row", [row + 1 for row in source.rows]))
    if source.time:
        found.append(f"{clock(source.time[0])}-{clock(source.time[1])}")
    return found


def _numbers(noun: str, numbers: list[int]) -> str:
    """Return ascending numbers as `row 3`, `rows 3-7` or `rows 3, 5, 9`."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"{noun} {first}"
    if last - first == len(numbers) - 1:
        return f"{noun}s {first}-{last}"
    return f"{noun}s {', '.join(map(str, numbers))}"


def interval(item: Item, node: Node) -> str:
    """Return a node's rows or seconds; empty for text and images, whose words say enough."""
    if item.modality == "table":
        first = item.source.first_row + int(node.start) + 1
        last = item.source.first_row + int(node.stop)
        return f"row {first}" if first >= last else f"rows {first}-{last}"
    if item.modality == "video":
        return f"{clock(node.start)}-{clock(node.stop)}"
    return ""


def of(part: int, whole: int) -> str:
    """Return a share of tokens in words.

    >>> of(57, 229)
    '57 of 229 tokens (25 %)'
    """
    share = f" ({100 * part / whole:.0f} %)" if whole else ""
    return f"{part:,} of {whole:,} tokens{share}"


def size(n_bytes: int) -> str:
    """Return a number of bytes in words.

    >>> size(2_345_678), size(512)
    ('2.3 MB', '512 bytes')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.1f} {unit}"
    return count(n_bytes, "byte")
