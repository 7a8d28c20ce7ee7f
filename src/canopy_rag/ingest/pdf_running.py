"""Running headers, footers and page numbers: lines at a page's edge that its neighbours repeat."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from canopy_rag.ingest.pdf_layout import lines_of
from canopy_rag.ingest.pdf_page import Page, Run

REACH = 4
"""Pages before and after that are compared: left and right pages may differ, so two of each."""
_ZONE = 0.12
"""Share of the page's height at top and bottom in which running lines stand."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A run at the edge of a page, its numbers apart."""

    words: str
    numbers: tuple[int, ...]
    run: Run


def without_running(pages: Iterable[Page], body_size: float) -> Iterator[Page]:
    """Yield the pages in order, each without the lines that at least two near pages repeat.

    A line is repeated if its words are equal and each number in it is equal or differs as the
    pages' numbers do. Words larger than the body are headings and stay. At most `2 * REACH + 1`
    pages are held at once.

    Args:
        pages: Pages in order.
        body_size: Font size of the body, in points.
    """
    window: deque[tuple[Page, list[_Mark]]] = deque(maxlen=2 * REACH + 1)
    coming = iter(pages)
    done = 0
    seen = 0
    for page in coming:
        window.append((page, _marks(page, body_size)))
        seen += 1
        if seen > REACH:
            yield _cleaned(window, len(window) - 1 - REACH)
            done += 1
    while done < seen:
        yield _cleaned(window, len(window) - (seen - done))
        done += 1


def _cleaned(window: deque[tuple[Page, list[_Mark]]], at: int) -> Page:
    page, marks = window[at]
    near = [
        other
        for position, other in enumerate(window)
        if position != at and abs(other[0].number - page.number) <= REACH
    ]
    running = {
        id(mark.run)
        for mark in marks
        if sum(
            any(_repeats(mark, other, page.number, there.number) for other in others)
            for there, others in near
        )
        >= 2
    }
    return replace(page, runs=tuple(run for run in page.runs if id(run) not in running))


def _repeats(mark: _Mark, other: _Mark, here: int, there: int) -> bool:
    return mark.words == other.words and all(
        second - first in (0, there - here)
        for first, second in zip(mark.numbers, other.numbers, strict=True)
    )


def _marks(page: Page, body_size: float) -> list[_Mark]:
    lines = lines_of([run for run in page.runs if run.upright])
    top = [line for line in lines[:2] if line.box[3] <= _ZONE * page.height]
    bottom = [line for line in lines[-2:] if line.box[1] >= (1 - _ZONE) * page.height]
    runs = [run for line in top + bottom for run in line.runs]
    runs += [run for run in page.runs if not run.upright]
    return [
        _Mark(
            words=" ".join(_NUMBER.sub("#", run.text).split()),
            numbers=tuple(int(number) for number in _NUMBER.findall(run.text)),
            run=run,
        )
        for run in runs
        if run.size < 1.15 * body_size or not any(map(str.isalpha, run.text))
    ]
