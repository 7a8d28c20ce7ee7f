"""Walking an HTML tree without recursion, past what a reader of the page does not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


TEXT = "-text"
BLOCK_TAGS = _names(
    "address article aside blockquote body caption center dd details dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu ol p pre "
    "search section summary table tbody td tfoot th thead tr ul"
)
HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}

_UNREAD_TAGS = _names(
    "script style noscript template svg iframe object embed canvas audio video map head nav button "
    "select textarea input datalist -comment -doctype"
)
_UNREAD_ROLES = _names(
    "navigation search banner contentinfo complementary menu menubar toolbar dialog alertdialog"
)
_UNREAD_CLASSES = _names(
    "noprint navbox sidebar printfooter mw-editsection sr-only visually-hidden screen-reader-text"
)
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_PAGE_PARTS = frozenset({"header", "footer", "aside"})
_SECTIONS = frozenset({"article", "main", "section", "blockquote", "figure"})
_CONTENT = "p, h1, h2, h3, table, article"
_PICTURE_NAME = re.compile(r".*\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?)", re.I)

MAX_DEPTH = 10_000
"""The time that an HTML parser takes grows with the square of the depth; browsers stop at 512."""
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)", re.I)
_NEVER_NESTED = _names(
    "area base br col embed hr img input link meta param source track wbr p li dt dd option "
    "optgroup tr td th thead tbody tfoot colgroup rb rt rtc rp html head body a b big code em font "
    "i nobr s small strike strong tt u"
)
"""Elements without content, those whose end the next one implies, and those that the parser itself
keeps from piling up."""

_MAIN = ("#mw-content-text", "main", "[role=main]", "article", "#content")
_MIN_MAIN_CHARS = 140


class Walker:
    """Steps through everything visible below a node, in document order, without recursion.

    Iterating yields `(node, True)` where a node begins and `(node, False)` where it ends.

    Args:
        root: The node whose descendants are visited.
    """

    def __init__(self, root: LexborNode) -> None:
        self._root = root
        self._whole_page = root.tag == "body"
        self._skipped = False

    def skip(self) -> None:
        """Leave out what is below the node that has just begun; it ends at once."""
        self._skipped = True

    def __iter__(self) -> Iterator[tuple[LexborNode, bool]]:
        """Yield the beginnings and ends of nodes."""
        node = self._root.first_child
        while node is not None:
            if not is_unread(node, whole_page=self._whole_page):
                yield node, True
                child = None if self._skipped else node.first_child
                self._skipped = False
                if child is not None:
                    node = child
                    continue
                yield node, False
            while node.next is None:
                node = node.parent
                if node is None or node.mem_id == self._root.mem_id:
                    return
                yield node, False
            node = node.next


def is_unread(node: LexborNode, *, whole_page: bool = False) -> bool:
    """Tell whether a node is invisible, a control, or for finding one's way.

    Args:
        node: Any node.
        whole_page: Whether the whole body is read, for want of a marked main part: then the page's
            own header, footer and asides are left out as well.
    """
    tag = node.tag
    if tag == TEXT:
        return False
    if tag is None or tag in _UNREAD_TAGS:
        return True
    attributes = node.attributes
    if not attributes:
        unread = False
    else:
        classes = (attributes.get("class") or "").split()
        unread = (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or attributes.get("role") in _UNREAD_ROLES
            or not _UNREAD_CLASSES.isdisjoint(classes)
            or (tag == "sup" and "reference" in classes)
            or _INVISIBLE.search(attributes.get("style") or "") is not None
        )
    if tag == "form" and not unread:
        return node.css_first(_CONTENT) is None
    return unread or (whole_page and tag in _PAGE_PARTS and not _in_section(node))


def _in_section(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None and parent.tag not in _SECTIONS:
        parent = parent.parent
    return parent is not None


def depth_of(page: str) -> int:
    """Return about how deep a page's elements are nested, without parsing it."""
    depth = deepest = 0
    for mark in _TAG.finditer(page):
        if mark[2].lower() not in _NEVER_NESTED:
            depth = max(0, depth - 1) if mark[1] else depth + 1
            deepest = max(deepest, depth)
    return deepest


def main_part(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the node that holds the page's main text, or the body; None for an empty page."""
    for selector in _MAIN:
        found = tree.css(selector)
        if selector == "article" and len(found) > 1:
            continue
        for node in found:
            if not is_unread(node) and _has_text(node):
                return node
    return tree.body


def _has_text(root: LexborNode) -> bool:
    n_chars = 0
    for node, begins in Walker(root):
        if begins and node.tag == TEXT:
            n_chars += len((node.text_content or "").strip())
            if n_chars >= _MIN_MAIN_CHARS:
                return True
    return False


def replacement(node: LexborNode) -> str | None:
    """Return the text that stands for a picture or formula; None for any other node."""
    if node.tag == "img":
        alt = (node.attributes.get("alt") or "").strip()
        return "" if _PICTURE_NAME.fullmatch(alt) else alt
    if node.tag == "math":
        return node.attributes.get("alttext")
    return None


def visible_text(root: LexborNode) -> str:
    """Return the text of a small part of the page, such as a cell; a line for each block."""
    parts: list[str] = []
    walker = Walker(root)
    for node, begins in walker:
        if node.tag == TEXT:
            if begins:
                parts.append(re.sub(r"\s+", " ", node.text_content or ""))
        elif begins and (text := replacement(node)) is not None:
            parts.append(f" {text} ")
            walker.skip()
        elif node.tag in BLOCK_TAGS or node.tag == "br":
            parts.append("\n")
    return clean("".join(parts))


def clean(text: str) -> str:
    """Return a text with single spaces and line breaks, and none around it."""
    return re.sub(r" *\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
