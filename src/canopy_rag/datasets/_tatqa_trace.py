"""Where a TAT-QA answer comes from, in files that do not tell: found by its words and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from canopy_rag.datasets.gold import answer_spans

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Places on a page."""

    cells: tuple[tuple[int, int], ...] = ()
    """Row, header rows included, and column of each, 0-based."""
    spans: tuple[tuple[int, int, int], ...] = ()
    """Paragraph's order and half-open character interval in it."""


def trace(
    *,
    answers: Iterable[str],
    derivation: str,
    rows: Sequence[Sequence[str]],
    paragraphs: Mapping[int, str],
) -> Evidence:
    """Return the cells and spans that hold an answer, or else the numbers it is derived from.

    A cell holds an answer if it is nothing else, or has the same number. All places count,
    although the same number may stand in several by chance.

    Args:
        answers: Spans of the answer; empty for one that is computed.
        derivation: The formula, or the counted things with `##` between them.
        rows: Of the table; empty if the answer does not come from it.
        paragraphs: Those that the answer comes from, by their order.
    """
    wanted = [each for each in answers if each.strip()]
    if not wanted:
        wanted = derivation.split("##") if "##" in derivation else _NUMBER.findall(derivation)
    cells = {
        (row, column)
        for each in wanted
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
        if _same(text, each)
    }
    spans = {
        (order, *span)
        for each in wanted
        for order, text in paragraphs.items()
        for span in answer_spans(text, each.strip(" :"))
    }
    return Evidence(tuple(sorted(cells)), tuple(sorted(spans)))


def _same(cell: str, wanted: str) -> bool:
    words = cell.strip(" :").casefold()
    if words == wanted.strip(" :").casefold():
        return bool(words)
    left, right = _NUMBER.findall(cell), _NUMBER.findall(wanted)
    return len(left) == len(right) == 1 and _value(left[0]) == _value(right[0])


def _value(number: str) -> float:
    return float(number.replace(",", ""))
