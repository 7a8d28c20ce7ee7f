"""What is shown of the retrieved items: accumulated over rounds, measured, written out.

Evidence is immutable: `add` returns a new object, and so does `budget.fit`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from canopy_rag.core.protocols import MediaPart, TokenCounter
from canopy_rag.core.provenance import Location, locate
from canopy_rag.core.render import Cut, Region, Style, node_body, render_item
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import UNIT_OF, ImagePayload, Item, Node, Unit, VideoPayload

Why = Literal["refined", "image", "aggregate", "whole"]
Repeat = Literal["keep", "union"]


def estimate_tokens(text: str) -> int:
    """Count words and punctuation marks: a rough stand-in where no tokenizer is known.

    >>> estimate_tokens("It costs $3, twice.")
    7
    """
    return len(re.findall(r"\w+|[^\w\s]", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """How evidence is written for its reader, and how its tokens are counted."""

    count: TokenCounter = estimate_tokens
    count_media: Callable[[MediaPart], int] | None = None
    """Tokens of a picture; None: the reader sees none."""
    exact: bool = False
    """Whether these are the reader's own tokens."""
    numbered: bool = False
    """Whether the reader cites fragment numbers."""

    @property
    def style(self) -> Style:
        """The style of writing that this reader gets."""
        return Style(numbered=self.numbered, media=self.count_media is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """A step that degraded, and why; counted in every report."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A retrieved item of which nothing is shown."""

    item_id: str
    rank: int
    reason: str
    item: Item | None = field(default=None, compare=False, repr=False)
    """Of what selection left out; None: it had to give way to the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is shown of one item. The item is held from its round on."""

    item: Item
    kept: tuple[int, ...]
    """Kept nodes, ascending, none an ancestor of another, at least one."""
    why: Why
    query: str
    """The query of the round that found the item."""
    round: int
    rank: int
    similarity: float
    """Of query and item, as retrieved."""
    node_similarities: tuple[float, ...] = ()
    """Of query and each node, node order; empty when unknown."""
    cut: Cut | None = None
    """Show only the beginning of the single kept node (D8)."""

    def value(self, node: int) -> float:
        """Return the similarity of one node, that of the item when unknown."""
        return self.node_similarities[node] if self.node_similarities else self.similarity

    def parent_value(self, node: int) -> float | None:
        """Return the similarity of a node's parent; None for the root."""
        parent = self.item.nodes[node].parent
        return None if parent is None else self.value(parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A kept node as shown."""

    n: int
    """Number in the evidence, from 1; what answers cite."""
    item_id: str
    node: int
    start: float
    stop: float
    unit: Unit
    text: str | None
    """Verbatim text of the interval; None when there is none."""
    media: str | None
    """Image or video file, with `#t=start,stop` for a stretch of video."""
    similarity: float
    parent_similarity: float | None
    source: Location


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The shown parts of the retrieved items, in order of retrieval."""

    entries: tuple[Shown, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    bare: bool = False
    """Headings and times are dropped, since nothing fitted with them (D8); the number of a single
    fragment too."""
    meter: Meter = field(default_factory=Meter, compare=False, repr=False)

    def add(self, shown: Sequence[Shown], repeat: Repeat = "keep") -> Evidence:
        """Return the evidence with one round's items added, those already held once only.

        Args:
            shown: The round's items, in rank order.
            repeat: What to do with an item that is held: `keep` its first regions (P5), or
                `union`: add the regions that the new query selects (D7).
        """
        entries = list(self.entries)
        positions = {entry.item.id: position for position, entry in enumerate(entries)}
        for new in shown:
            position = positions.get(new.item.id)
            if position is None:
                positions[new.item.id] = len(entries)
                entries.append(new)
            elif repeat == "union":
                entries[position] = _united(entries[position], new)
        held = positions.keys()
        left_out = tuple(each for each in self.left_out if each.item_id not in held)
        return replace(self, entries=tuple(entries), left_out=left_out)

    @cached_property
    def held(self) -> frozenset[str]:
        """Ids of the items of which something is shown."""
        return frozenset(entry.item.id for entry in self.entries)

    def holds(self, item_id: str) -> bool:
        """Whether something of the item is shown."""
        return item_id in self.held

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The kept nodes, numbered in the order in which they are written."""
        return tuple(
            _fragment(shown, region) for shown, regions in self._regions() for region in regions
        )

    @cached_property
    def text(self) -> str:
        """The evidence as plain text: context, regions and elision marks, without numbers."""
        plain = Style()
        return _texts(self.parts(None if self.meter.style == plain else plain))

    def parts(self, style: Style | None = None) -> tuple[str | MediaPart, ...]:
        """Return texts and pictures in order, one text per item.

        Args:
            style: How to write; None: as the meter's reader gets it.
        """
        return self._own_parts if style is None else self._parts(style)

    @cached_property
    def _own_parts(self) -> tuple[str | MediaPart, ...]:
        """What the reader gets: written once, and looked at by budget, count and prompt."""
        return self._parts(self.meter.style)

    def _parts(self, style: Style) -> tuple[str | MediaPart, ...]:
        if self.bare:
            alone = sum(len(entry.kept) for entry in self.entries) == 1
            style = replace(style, headings=False, numbered=style.numbered and not alone)
        return tuple(
            part
            for shown, regions in self._regions()
            for part in render_item(shown.item, regions, style)
            if part != ""
        )

    @cached_property
    def tokens(self) -> int:
        """Tokens of the evidence as its reader gets it, pictures included."""
        return self.meter.count(self.prompt_text) + self.picture_tokens

    @cached_property
    def picture_tokens(self) -> int:
        """Tokens of the pictures alone."""
        media = self.meter.count_media
        return sum(media(part) for part in self.parts() if media and isinstance(part, MediaPart))

    @cached_property
    def tokens_full(self) -> int:
        """Tokens of the same items shown whole."""
        return self.whole.tokens

    @property
    def whole(self) -> Evidence:
        """The same items shown whole."""
        entries = tuple(replace(entry, kept=(0,), cut=None) for entry in self.entries)
        return Evidence(entries=entries, meter=self.meter)

    @cached_property
    def prompt_text(self) -> str:
        """The words of the evidence as its reader gets them, numbers included."""
        return _texts(self.parts())

    def to_messages(self, load: Callable[[MediaPart], str] | None = None) -> list[dict[str, Any]]:
        """Return the evidence as one user message in OpenAI's form.

        Args:
            load: Turns a picture into a URL or `data:` URI. None: only pictures that are `data:`
                URIs already are put in; the others are left to their captions.
        """
        content: list[dict[str, Any]] = []
        for part in self.parts(replace(self.meter.style, media=True)):
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            elif load is not None or part.media.startswith("data:"):
                url = part.media if load is None else load(part)
                content.append({"type": "image_url", "image_url": {"url": url}})
        return [{"role": "user", "content": content}]

    def to_dict(self) -> dict[str, Any]:
        """Return the `evidence` object of the JSON interface."""
        fragments: dict[str, list[dict[str, Any]]] = {}
        for fragment in self.fragments:
            fragments.setdefault(fragment.item_id, []).append(_fragment_dict(fragment))
        return {
            "tokens": self.tokens,
            "tokens_full": self.tokens_full,
            "tokens_are": "exact" if self.meter.exact else "estimated",
            "items": [_shown_dict(each, fragments[each.item.id]) for each in self.entries],
            "left_out": [
                {"id": each.item_id, "rank": each.rank, "reason": each.reason}
                for each in self.left_out
            ],
            "fallbacks": [{"stage": each.stage, "reason": each.reason} for each in self.fallbacks],
        }

    def _regions(self) -> list[tuple[Shown, list[Region]]]:
        numbered: list[tuple[Shown, list[Region]]] = []
        n = 0
        for shown in self.entries:
            regions = [
                Region(node=node, n=n + place, cut=shown.cut)
                for place, node in enumerate(shown.kept, start=1)
            ]
            numbered.append((shown, regions))
            n += len(regions)
        return numbered


def _united(old: Shown, new: Shown) -> Shown:
    """Return the item with the regions of both rounds; a kept whole item stays whole."""
    nodes = old.item.nodes
    both = set(old.kept) | set(new.kept)
    kept = tuple(sorted(node for node in both if not _has_ancestor(nodes, node, both)))
    if kept == old.kept:
        return old
    values = old.node_similarities
    if values and new.node_similarities:  # what a region was selected by, by either query
        values = tuple(map(max, values, new.node_similarities))
    return replace(old, kept=kept, node_similarities=values)


def _has_ancestor(nodes: Sequence[Node], index: int, among: set[int]) -> bool:
    parent = nodes[index].parent
    while parent is not None:
        if parent in among:
            return True
        parent = nodes[parent].parent
    return False


def _texts(parts: Sequence[str | MediaPart]) -> str:
    return "\n\n".join(part for part in parts if isinstance(part, str))


def _fragment(shown: Shown, region: Region) -> Fragment:
    item, node = shown.item, shown.item.nodes[region.node]
    start, stop = node.start, node.stop
    text = node_body(item, start, stop)
    if region.cut is not None:
        text = text[: region.cut.chars].rstrip()
        stop = start + len(text) if item.modality == "text" else stop
    return Fragment(
        n=region.n,
        item_id=item.id,
        node=node.index,
        start=start,
        stop=stop,
        unit=UNIT_OF[item.modality],
        text=text or None,
        media=_media(item, start, stop),
        similarity=shown.value(node.index),
        parent_similarity=shown.parent_value(node.index),
        source=locate(item, start, stop),
    )


def _media(item: Item, start: float, stop: float) -> str | None:
    if isinstance(item.payload, ImagePayload):
        return item.payload.media
    if isinstance(item.payload, VideoPayload):
        return f"{item.payload.media}#t={start:g},{stop:g}"
    return None


def _shown_dict(shown: Shown, fragments: list[dict[str, Any]]) -> dict[str, Any]:
    nodes = shown.item.nodes
    return {
        "id": shown.item.id,
        "corpus": shown.item.corpus,
        "modality": shown.item.modality,
        "title": shown.item.title,
        "section": list(shown.item.section),
        "round": shown.round,
        "query": shown.query,
        "rank": shown.rank,
        "similarity": shown.similarity,
        "why": shown.why,
        "n_leaves": len(leaves(nodes)),
        "n_leaves_kept": sum(len(leaves(nodes, node)) for node in shown.kept),
        "fragments": fragments,
    }


def _fragment_dict(fragment: Fragment) -> dict[str, Any]:
    source = fragment.source
    return {
        "n": fragment.n,
        "node": fragment.node,
        "start": fragment.start,
        "stop": fragment.stop,
        "unit": fragment.unit,
        "text": fragment.text,
        "media": fragment.media,
        "similarity": fragment.similarity,
        "parent_similarity": fragment.parent_similarity,
        "source": {
            "uri": source.uri,
            "places": [
                {"page": place.page, "box": None if place.box is None else list(place.box)}
                for place in source.places
            ],
            "char": None if source.char is None else list(source.char),
            "sheet": source.sheet,
            "range": source.range,
            "rows": None if source.rows is None else list(source.rows),
            "time": None if source.time is None else list(source.time),
            "anchor": source.anchor,
        },
    }
