"""Text trees: document, sections, paragraphs, sentences; then halving (D1)."""

from __future__ import annotations

from collections.abc import Sequence

from canopy_rag.core.trees.build import Group, tree_from_groups
from canopy_rag.core.types import Heading, Node

Interval = tuple[int, int]


def text_tree(
    length: int,
    paragraphs: Sequence[Sequence[Interval]],
    headings: Sequence[Heading] = (),
    branching: int = 2,
) -> tuple[Node, ...]:
    """Build the tree of a passage.

    A heading opens a section that reaches to the next heading of its level or a higher one. The
    section's interval includes the heading line; the line itself is no leaf (it is context, D2),
    unless the section holds nothing else.

    Args:
        length: Length of the text in characters.
        paragraphs: The sentences of each paragraph as half-open character intervals, in order.
            White space between sentences belongs to none.
        headings: Heading lines, in order, disjoint from all sentences.
        branching: Most children of a node (2: halving).

    Returns:
        Nodes in preorder. A text without a sentence is a single node.
    """
    blocks: list[tuple[int, Heading | None, Sequence[Interval]]] = [
        (heading.start, heading, ()) for heading in headings
    ]
    blocks += [(sentences[0][0], None, sentences) for sentences in paragraphs if sentences]
    blocks.sort(key=lambda block: block[0])
    children = _sections(blocks, 0, len(blocks), length)
    return tree_from_groups(Group(start=0, stop=length, children=children), branching)


def _sections(
    blocks: Sequence[tuple[int, Heading | None, Sequence[Interval]]],
    begin: int,
    end: int,
    stop: int,
) -> tuple[Group, ...]:
    """Group `blocks[begin:end]`; a section's interval ends where the next block starts."""
    groups: list[Group] = []
    position = begin
    while position < end:
        _, heading, sentences = blocks[position]
        if heading is None:
            groups.append(_paragraph(sentences))
            position += 1
            continue
        after = position + 1
        while after < end:
            following = blocks[after][1]
            if following is not None and following.level <= heading.level:
                break
            after += 1
        inner = _sections(blocks, position + 1, after, stop)
        last = inner[-1].stop if inner else heading.stop
        groups.append(Group(start=heading.start, stop=last, children=inner))
        position = after
    return tuple(groups)


def _paragraph(sentences: Sequence[Interval]) -> Group:
    leaves = tuple(Group(start=start, stop=stop) for start, stop in sentences)
    return Group(start=sentences[0][0], stop=sentences[-1][1], children=leaves)
