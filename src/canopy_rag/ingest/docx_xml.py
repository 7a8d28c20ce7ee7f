"""What python-docx does not tell: the whole text of paragraphs, content controls, notes, cells."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from canopy_rag._optional import require
from canopy_rag.ingest.grid import MAX_SPAN, Cell

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

_WRAPPERS = frozenset({f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"})
_UNREAD = frozenset(
    {f"{W}pPr", f"{W}rPr", f"{W}del", f"{W}moveFrom", f"{_COMPATIBILITY}Fallback", f"{W}sdtPr"}
)
_BOX = f"{W}txbxContent"
_AS_TEXT = {
    f"{W}tab": " ",
    f"{W}br": "\n",
    f"{W}cr": "\n",
    f"{W}noBreakHyphen": "-",
    f"{W}ptab": " ",
}
_NOTES = {f"{W}footnoteReference": "footnote", f"{W}endnoteReference": "endnote"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParagraphText:
    """What a paragraph holds."""

    text: str
    boxes: tuple[str, ...]
    """Paragraphs of the text boxes anchored in it."""
    notes: tuple[tuple[str, str], ...]
    """Kind and number of the notes that it refers to."""


def inner_blocks(parent: Any, names: Collection[str] = ("p", "tbl")) -> Iterator[tuple[str, Any]]:
    """Yield the nearest descendants of some kinds, in order, through content controls and the like.

    Args:
        parent: An element.
        names: Local names. What stands inside a found element is not looked at.
    """
    wanted = {W + name: name for name in names}
    stack = [iter(parent)]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
        elif element.tag in wanted:
            yield wanted[element.tag], element
        elif element.tag in _WRAPPERS:
            stack.append(iter(element))


def paragraph_text(paragraph: Any) -> ParagraphText:
    """Return a paragraph's text as it stands after accepting tracked changes."""
    parts: list[str] = []
    boxes: list[str] = []
    notes: list[tuple[str, str]] = []
    stack = [iter(paragraph)]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
        elif element.tag == _BOX:
            inner = (paragraph_text(part).text for _, part in inner_blocks(element, ("p",)))
            boxes += filter(None, inner)
        elif element.tag in (f"{W}t", f"{_MATH}t"):
            parts.append(element.text or "")
        elif element.tag in _AS_TEXT:
            parts.append(_AS_TEXT[element.tag])
        elif element.tag in _NOTES:
            notes.append((_NOTES[element.tag], element.get(f"{W}id") or ""))
        elif element.tag not in _UNREAD:
            stack.append(iter(element))
    text = "".join(parts).strip()
    return ParagraphText(text=text, boxes=tuple(boxes), notes=tuple(notes))


def notes_of(part: Any) -> dict[tuple[str, str], list[str]]:
    """Return the paragraphs of a document's foot- and endnotes by kind and number."""
    parse_xml = require("docx.oxml", extra="index", feature="reading Word documents").parse_xml
    found: dict[tuple[str, str], list[str]] = {}
    for relation in part.rels.values():
        kind = relation.reltype.rpartition("/")[2].removesuffix("s")
        if relation.is_external or kind not in _NOTES.values():
            continue
        for note in parse_xml(relation.target_part.blob).iter(W + kind):
            if note.get(f"{W}type") is None:
                texts = [paragraph_text(paragraph).text for paragraph in note.iter(f"{W}p")]
                found[kind, note.get(f"{W}id") or ""] = list(filter(None, texts))
    return found


def table_cells(table: Any) -> tuple[list[list[Cell]], int]:
    """Return a table's rows of cells, and how many of the first are marked as header rows."""
    rows: list[list[Cell]] = []
    n_head = 0
    above: dict[int, str] = {}
    for _, row in inner_blocks(table, ("tr",)):
        cells: list[Cell] = []
        column = _number(row, f"{W}trPr/{W}gridBefore")
        if column:
            cells.append(Cell(text="", columns=column))
        texts: dict[int, str] = {}
        for _, cell in inner_blocks(row, ("tc",)):
            merge = cell.find(f"{W}tcPr/{W}vMerge")
            goes_on = merge is not None and merge.get(f"{W}val", "continue") == "continue"
            text = above.get(column, "") if goes_on else _cell_text(cell)
            width = min(_number(cell, f"{W}tcPr/{W}gridSpan") or 1, MAX_SPAN)
            cells.append(Cell(text=text, columns=width))
            texts[column] = text
            column += width
        above = texts
        mark = row.find(f"{W}trPr/{W}tblHeader")
        if mark is not None and mark.get(f"{W}val") not in ("0", "false") and n_head == len(rows):
            n_head += 1
        rows.append(cells)
    return rows, n_head


def _number(element: Any, path: str) -> int:
    found = element.find(path)
    written = "" if found is None else found.get(f"{W}val") or ""
    return int(written) if written.isdecimal() and len(written) < 6 else 0


def _cell_text(cell: Any) -> str:
    """Return the paragraphs of a cell, those of tables inside it included, a line each."""
    texts: list[str] = []
    pending = [inner_blocks(cell)]
    while pending:
        kind, element = next(pending[-1], ("", None))
        if not kind:
            pending.pop()
        elif kind == "p":
            texts.append(paragraph_text(element).text)
        else:
            pending.append(inner_blocks(element, ("p", "tbl", "tr", "tc")))
    return "\n".join(filter(None, texts))


class Styles:
    """The levels of a document's paragraph styles.

    Args:
        element: The root of the styles.
    """

    def __init__(self, element: Any) -> None:
        self._levels: dict[str, int] = {}
        self._captions: set[str] = set()
        parents: dict[str, str] = {}
        for style in element.iter(f"{W}style"):
            name = style.find(f"{W}name")
            style_id = style.get(f"{W}styleId") or ""
            words = (name.get(f"{W}val") or "").lower() if name is not None else ""
            based_on = style.find(f"{W}basedOn")
            if based_on is not None:
                parents[style_id] = based_on.get(f"{W}val") or ""
            if words == "caption":
                self._captions.add(style_id)
            level = _named_level(words) or _outline_level(style)
            if level is not None:
                self._levels[style_id] = level
        for style_id in parents:
            self._levels.setdefault(style_id, self._inherited(style_id, parents))

    def _inherited(self, style_id: str, parents: dict[str, str]) -> int:
        seen: set[str] = set()
        while style_id in parents and style_id not in seen:
            if style_id in self._levels:
                return self._levels[style_id]
            seen.add(style_id)
            style_id = parents[style_id]
        return self._levels.get(style_id, 0)

    def level(self, paragraph: Any) -> int:
        """Return 1 to 6 for a heading, by its own outline level or its style's; else 0."""
        own = _outline_level(paragraph)
        return own if own is not None else self._levels.get(_style_id(paragraph), 0)

    def is_caption(self, paragraph: Any) -> bool:
        """Tell whether a paragraph has the style of captions."""
        return _style_id(paragraph) in self._captions


def _style_id(paragraph: Any) -> str:
    style = paragraph.find(f"{W}pPr/{W}pStyle")
    return "" if style is None else style.get(f"{W}val") or ""


def _named_level(name: str) -> int | None:
    if name == "title":
        return 1
    word, _, number = name.partition(" ")
    if word == "heading" and number.isdecimal():
        return min(max(int(number), 1), 6)
    return None


def _outline_level(element: Any) -> int | None:
    """Return the level that a paragraph or style sets: 1 to 6, 0 for body text, None if not."""
    mark = element.find(f"{W}pPr/{W}outlineLvl")
    written = "" if mark is None else mark.get(f"{W}val") or ""
    if not written.isdecimal():
        return None
    return 0 if int(written) > 8 else min(int(written) + 1, 6)
