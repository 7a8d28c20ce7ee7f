"""Items and their places in words."""

from __future__ import annotations

from canopy_rag.cli.wording import one_line
from canopy_rag.core.evidence import Fragment
from canopy_rag.core.provenance import Location
from canopy_rag.core.render import clock
from canopy_rag.core.types import Item, Node


def heading(item: Item) -> str:
    """Return an item's title and section path, outermost first."""
    return (
        one_line(" > ".join(part for part in (item.title, *item.section) if part)) or "(untitled)"
    )


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
