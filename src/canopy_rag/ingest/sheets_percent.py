"""Which cells of an XLSX workbook are shown as percentages: calamine tells values, not formats."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

_BUILT_IN = {"9": 0, "10": 2}
"""The formats `0%` and `0.00%`, which files do not spell out."""
_REFERENCE = re.compile(r"([A-Z]+)(\d+)")
_DIGITS = re.compile(r"\.([0#?]+)")

Percents = Mapping[tuple[int, int], int]
"""Row and column, 0-based, of cells shown as percentages: digits after the point."""


def percents_of(path: Path) -> dict[str, Percents]:
    """Return the percentages of each sheet; empty if the workbook has none or is no XLSX.

    Raises:
        xml.etree.ElementTree.ParseError: If a part of the workbook is damaged.
        KeyError: If a part is missing.
    """
    if not zipfile.is_zipfile(path):
        return {}
    with zipfile.ZipFile(path) as archive:
        if "xl/styles.xml" not in archive.namelist():
            return {}
        styles = _percent_styles(ElementTree.fromstring(archive.read("xl/styles.xml")))
        if not styles:
            return {}
        return {
            name: dict(_percent_cells(archive, part, styles)) for name, part in _sheets(archive)
        }


def percent(value: float, digits: int) -> str:
    """Return a share as a percentage: at least `digits` after the point, and none of its own lost.

    >>> percent(0.25, 1), percent(0.256, 0)
    ('25.0%', '25.6%')
    """
    exact, fixed = format(value * 100, ".12g"), format(value * 100, f".{digits}f")
    return f"{fixed if float(fixed) == float(exact) else exact}%"


def _name(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def _attribute(element: ElementTree.Element, name: str) -> str:
    return next((text for key, text in element.items() if key.rpartition("}")[2] == name), "")


def _percent_styles(styles: ElementTree.Element) -> dict[str, int]:
    """Return the positions of the cell styles that are percentages, with their digits."""
    formats = dict(_BUILT_IN)
    for element in styles.iter():
        code = element.get("formatCode", "")
        if _name(element) == "numFmt" and "%" in code:
            digits = _DIGITS.search(code)
            formats[element.get("numFmtId", "")] = len(digits.group(1)) if digits else 0
    cells = next((element for element in styles.iter() if _name(element) == "cellXfs"), ())
    return {
        str(at): formats[element.get("numFmtId", "")]
        for at, element in enumerate(cells)
        if element.get("numFmtId", "") in formats
    }


def _sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield name and part of each worksheet."""
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    targets = {one.get("Id", ""): one.get("Target", "") for one in relations}
    for element in ElementTree.fromstring(archive.read("xl/workbook.xml")).iter():
        target = targets.get(_attribute(element, "id"), "")
        if _name(element) == "sheet" and "worksheets" in target:
            yield element.get("name", ""), posixpath.normpath(posixpath.join("/xl", target))[1:]


def _percent_cells(
    archive: zipfile.ZipFile, part: str, styles: Mapping[str, int]
) -> Iterator[tuple[tuple[int, int], int]]:
    with archive.open(part) as file:
        for _, element in ElementTree.iterparse(file):
            if _name(element) == "row":
                element.clear()
            reference = _REFERENCE.fullmatch(element.get("r", ""))
            if reference is None or _name(element) != "c" or element.get("s") not in styles:
                continue
            column = 0
            for letter in reference.group(1):
                column = 26 * column + ord(letter) - ord("A") + 1
            yield (int(reference.group(2)) - 1, column - 1), styles[element.get("s", "")]
