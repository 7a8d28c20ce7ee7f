"""The original around a fragment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canopy_rag.api import Index
from canopy_rag.core.errors import DataError, StoreError
from canopy_rag.core.render import head_lines, node_body, row_line
from canopy_rag.core.types import UNIT_OF, Item, TablePayload, Unit, item_id

AROUND: dict[Unit, float] = {"char": 600, "row": 10, "second": 30, "image": 0}
"""What is shown on either side of a fragment unless the agent says otherwise, by unit."""
MAX_CHARS = 20_000
"""Longest text of one reply; an agent reads on from `stop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stretch of an item as it stands in its source."""

    item: Item
    start: float
    stop: float
    """Half-open, in the item's unit."""
    text: str
    truncated: bool
    """Whether the text ends before `stop` for its length."""
    previous: str | None
    """Id of the item before it in the same source."""
    next: str | None

    @property
    def written(self) -> str:
        """The text below the header row that it needs to be read."""
        payload = self.item.payload
        if isinstance(payload, TablePayload) and payload.header:
            return f"{row_line(payload.header)}\n{self.text}"
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        root = self.item.nodes[0]
        return {
            "item": self.item.id,
            "modality": self.item.modality,
            "title": self.item.title,
            "section": list(self.item.section),
            "uri": self.item.source.uri,
            "unit": UNIT_OF[self.item.modality],
            "start": self.start,
            "stop": self.stop,
            "of": [root.start, root.stop],
            "text": self.text,
            "truncated": self.truncated,
            "previous": self.previous,
            "next": self.next,
        }


def read(
    index: Index, name: str, start: float | None, stop: float | None, around: float | None
) -> Passage:
    """Return the original around an interval of an item, or all of it.

    Args:
        index: Where the item is.
        name: The item's id.
        start: Begin of the interval in the item's unit; None: that of the item.
        stop: End of it; None: that of the item.
        around: How much more on either side; None: by unit, nothing if no interval is given.

    Raises:
        StoreError: If there is no such item.
        DataError: If the interval is none.
    """
    item = index.item(name)
    root = item.nodes[0]
    if around is None:
        around = 0 if start is None and stop is None else AROUND[UNIT_OF[item.modality]]
    low = root.start if start is None else start
    high = root.stop if stop is None else stop
    if not (low <= high and around >= 0):
        raise DataError(f"from {low:g} to {high:g}, {around:g} around it, is no interval")
    low = min(max(root.start, low - around), root.stop)
    high = max(min(root.stop, high + around), low)
    if item.modality == "image":
        low, high = root.start, root.stop
    if item.modality in ("text", "table"):
        low, high = int(low), int(-(-high // 1))
    body = node_body(item, low, high)
    return Passage(
        item=item,
        start=low,
        stop=low + MAX_CHARS if item.modality == "text" and len(body) > MAX_CHARS else high,
        text=body[:MAX_CHARS],
        truncated=len(body) > MAX_CHARS,
        previous=_neighbour(index, item, -1),
        next=_neighbour(index, item, 1),
    )


def whole(item: Item) -> str:
    """Return an item with its title, headings and header row."""
    root = item.nodes[0]
    return "\n".join([*head_lines(item), node_body(item, root.start, root.stop)])


def _neighbour(index: Index, item: Item, step: int) -> str | None:
    """Return the id of the item before or after it in the same source, if there is one."""
    ordinal = item.source.ordinal + step
    name = item_id(item.source.uri, ordinal)
    if ordinal < 0:
        return None
    try:
        return index.item(name).id
    except StoreError:
        return None
