"""Drawing an item's tree with what refinement saw and decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from canopy_rag.cli.places import heading, interval
from canopy_rag.cli.wording import count, one_line
from canopy_rag.core.refine import Outcome
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Hit, Item, Node

if TYPE_CHECKING:
    from canopy_rag.pipeline.compressor import Explained

STYLES: Mapping[Outcome, str] = {"keep": "green", "split": "yellow", "drop": "red"}
STYLES_OF_TEXT: Mapping[Outcome, str] = {"keep": "default", "split": "dim", "drop": "dim"}
FOLD_ABOVE = 40
"""A tree with more visited nodes is drawn without lines of their own for dropped nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guides:
    """The characters that draw a tree."""

    branch: str
    """Before a node that has a later sibling."""
    last: str
    """Before the last of its siblings."""
    down: str
    """Under a node that has a later sibling."""
    ellipsis: str


UNICODE = Guides(branch="├─", last="└─", down="│ ", ellipsis="…")
ASCII = Guides(branch="|-", last="`-", down="| ", ellipsis="...")


def draw(
    item: Item,
    hit: Hit,
    similarities: Sequence[float],
    outcomes: Mapping[int, Outcome],
    *,
    width: int,
    guides: Guides = UNICODE,
) -> list[Text]:
    """Return the drawing of one hit: lines about the item, then a line per visited node.

    A node that was not visited lies under a kept or dropped one and is counted on its line. Kept
    is green, split yellow, dropped red; the words are there without colours, too.

    Args:
        item: The item.
        hit: How it was found.
        similarities: Of the query and each node, `(n_nodes,)`, node order.
        outcomes: Node index -> outcome, for the visited nodes.
        width: Columns to use; longer lines end in an ellipsis.
        guides: The characters that draw the tree.
    """
    drawing = _Drawing(item, similarities, outcomes, guides, fold=len(outcomes) > FOLD_ABOVE)
    lines = [*_head(item, hit, outcomes, width), *drawing.lines()]
    for line in lines:
        _shorten(line, width, guides.ellipsis)
    return lines


def _head(item: Item, hit: Hit, outcomes: Mapping[int, Outcome], width: int) -> list[Text]:
    kept = [index for index, outcome in outcomes.items() if outcome == "keep"]
    n_kept = sum(len(leaves(item.nodes, index)) for index in kept)
    n_leaves = len(leaves(item.nodes))
    shown = f"keeps {n_kept} of {count(n_leaves, 'leaf', 'leaves')}"
    title = Text.assemble((f"{hit.rank}. {heading(item)}", "bold"))
    uri = Text.assemble((f"   {one_line(item.source.uri)}", "cyan"))
    about = f"   {item.modality}, similarity {hit.similarity:.3f}, {shown}"
    if uri.cell_len + len(about) <= width:
        return [title, uri.append(about, "dim")]
    return [title, uri, Text.assemble((about, "dim"))]


def _shorten(line: Text, width: int, ellipsis: str) -> None:
    if line.cell_len > width:
        line.truncate(width - len(ellipsis))
        line.append(ellipsis)


class _Drawing:
    """One tree on its way to lines."""

    def __init__(
        self,
        item: Item,
        similarities: Sequence[float],
        outcomes: Mapping[int, Outcome],
        guides: Guides,
        *,
        fold: bool,
    ) -> None:
        self._item = item
        self._similarities = similarities
        self._outcomes = outcomes
        self._guides = guides
        self._fold = fold

    def lines(self) -> list[Text]:
        """Return a line per drawn node, in preorder."""
        found: list[Text] = []
        stack = [(0, "", "")]  # node, guide before it, guides before its children
        while stack:
            index, guide, below = stack.pop()
            folded, drawn = self._children(index)
            found.append(self._line(index, guide, folded))
            for child in reversed(drawn):
                is_last = child == drawn[-1]
                mark = self._guides.last if is_last else self._guides.branch
                under = "  " if is_last else self._guides.down
                stack.append((child, below + mark, below + under))
        return found

    def _children(self, index: int) -> tuple[list[int], list[int]]:
        """Return the children to sum up in the node's own line, and those to draw."""
        visited = [each for each in self._node(index).children if each in self._outcomes]
        if not self._fold:
            return [], visited
        folded = [each for each in visited if self._outcomes[each] == "drop"]
        return folded, [each for each in visited if each not in folded]

    def _line(self, index: int, guide: str, folded: Sequence[int]) -> Text:
        node, outcome = self._node(index), self._outcomes[index]
        line = Text.assemble(
            ("  ", ""),
            (f"{self._similarities[index]:7.3f} ", "dim" if outcome == "drop" else ""),
            (f"{outcome:<6}", STYLES[outcome]),
            (f"{guide} " if guide else "", "dim"),
        )
        details = [part for part in (interval(self._item, node), self._size(node)) if part]
        line.append(", ".join(details), "cyan")
        if outcome != "split":
            words = one_line(node_body(self._item, node.start, node.stop))
            line.append(f"{'  ' if details else ''}{words[:1000]}", STYLES_OF_TEXT[outcome])
        if folded:
            best = max(self._similarities[each] for each in folded)
            n_leaves = sum(len(leaves(self._item.nodes, each)) for each in folded)
            dropped = count(n_leaves, "leaf", "leaves")
            line.append(f"  drops {dropped}, at most {best:.3f}", "dim red")
        return line

    def _size(self, node: Node) -> str:
        """Return how many leaves lie under a node that has some."""
        return count(len(leaves(self._item.nodes, node.index)), "leaf", "leaves") * bool(
            node.children
        )

    def _node(self, index: int) -> Node:
        return self._item.nodes[index]


def drawings(explained: Sequence[Explained], width: int, *, unicode: bool) -> list[Text]:
    """Return the drawings of all hits, an empty line between them."""
    lines: list[Text] = []
    for each in explained:
        if lines:
            lines.append(Text())
        lines += draw(
            each.found.item,
            each.found.hit,
            each.similarities.tolist(),
            each.refinement.outcomes,
            width=width,
            guides=UNICODE if unicode else ASCII,
        )
    return lines
