"""Reading order of a page: runs of text to columns of lines. Pure geometry, no parser.

A page is cut at rules that reach across it, then at gutters (a stretch of white that hardly any
line crosses), lines that do cross one being cuts of their own. A gutter between short entries that
share their baselines is a table without rules; it is read row by row, not column by column.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from canopy_rag.ingest.pdf_page import Run
from canopy_rag.ingest.pdf_rules import Box, Edge, union

WIDE_GAP = 1.5
"""Gap in font sizes between runs of one line that makes the line a row of entries."""
PROSE_CHARS = 18
"""Lines shorter than this, on shared baselines, are entries of a table and no column of prose."""
_RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_GLUED = re.compile(r"\w[-‐‑–—/@_\u00ad]$|[/\u00ad]$")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
)


def joint(before: str, after: str) -> str:
    """Return what stands between two lines of a paragraph: a space, or nothing.

    Nothing after a hyphen, dash or slash at the line's end (which stays: the parser's text is never
    changed), and nothing between characters of scripts that are written without spaces.

    >>> joint("Soekarno-", "Hatta"), joint("a pre-trained", "model"), joint("日本", "語")
    ('', ' ', '')
    """
    if not before or not after:
        return ""
    if _GLUED.search(before) and not after[0].isspace():
        return ""
    if _UNSPACED.match(before[-1]) and _UNSPACED.match(after[0]):
        return ""
    return " "


@dataclass(frozen=True)
class Line:
    """Runs on one baseline, in reading order."""

    runs: tuple[Run, ...]

    @cached_property
    def box(self) -> Box:
        """The box around all runs."""
        return union(run.box for run in self.runs)

    @cached_property
    def size(self) -> float:
        """Font size of the longest run, in points."""
        return max(self.runs, key=lambda run: len(run.text)).size

    @cached_property
    def bold(self) -> bool:
        """Whether every run is."""
        return all(run.bold for run in self.runs)

    @cached_property
    def text(self) -> str:
        """The runs joined."""
        text = self.runs[0].text
        for run in self.runs[1:]:
            text += joint(text, run.text) + run.text
        return text

    @cached_property
    def is_row(self) -> bool:
        """Whether gaps as wide as a table's separate its runs."""
        return any(
            max(right.box[0] - left.box[2], left.box[0] - right.box[2]) > WIDE_GAP * self.size
            for left, right in zip(self.runs, self.runs[1:], strict=False)
        )

    @property
    def table(self) -> int | None:
        """Position of the table that the line stands for; None for text."""
        return self.runs[0].table


def reading_order(runs: Sequence[Run], edges: Sequence[Edge]) -> list[list[Line]]:
    """Return the columns of a page in reading order, each a list of lines from top to bottom.

    Args:
        runs: The page's runs; turned ones come last, one line each, in the parser's order.
        edges: Rules of the page; those of tables left out.

    Of a page written from right to left, lines come with boxes turned over left and right, so that
    begin and end of a line are what they are elsewhere; the characters keep their own.
    """
    upright = [run for run in runs if run.upright]
    if _right_to_left(upright):
        upright = [_mirror(run) for run in upright]
        edges = [Edge(-edge.right, edge.top, -edge.left, edge.bottom) for edge in edges]
    columns = [lines_of(region) for region in _regions(upright, edges)]
    turned = [[Line((run,))] for run in runs if not run.upright]
    return [column for column in columns if column] + turned


def lines_of(runs: Sequence[Run]) -> list[Line]:
    """Return the lines that runs form, from top to bottom, each from left to right."""
    rows: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.box[1] + run.box[3], run.box[0])):
        if rows and _same_row(rows[-1], run):
            rows[-1].append(run)
        else:
            rows.append([run])
    return [Line(tuple(sorted(row, key=lambda run: run.box[0]))) for row in rows]


def _same_row(row: Sequence[Run], run: Run) -> bool:
    if run.table is not None or row[0].table is not None:
        return False
    tallest = max(row, key=lambda other: other.box[3] - other.box[1])
    shared = min(tallest.box[3], run.box[3]) - max(tallest.box[1], run.box[1])
    return shared >= 0.5 * min(tallest.box[3] - tallest.box[1], run.box[3] - run.box[1])


def _right_to_left(runs: Sequence[Run]) -> bool:
    text = "".join(run.text for run in runs)
    letters = sum(char.isalpha() for char in text)
    return 2 * len(_RTL.findall(text)) > max(letters, 1)


def _mirror(run: Run) -> Run:
    """Return a run with its box turned over left and right; characters keep theirs."""
    left, top, right, bottom = run.box
    return replace(run, box=(-right, top, -left, bottom))


def _regions(runs: Sequence[Run], edges: Sequence[Edge]) -> Iterator[list[Run]]:
    """Yield the single-column regions of `runs` in reading order."""
    if len(runs) < 2:
        if runs:
            yield list(runs)
        return
    gutters = _gutters(lines_of(runs))
    # Rules in a single column would only take its paragraphs apart.
    parts = (_cut_at_rule(runs, edges) or _cut_at_gutter(runs, gutters)) if gutters else None
    if parts is None:
        yield list(runs)
        return
    for part in parts:
        yield from _regions(part, edges)


def _cut_at_rule(runs: Sequence[Run], edges: Sequence[Edge]) -> list[list[Run]] | None:
    """Cut at a rule that spans the region and crosses no run; None without one."""
    region = union(run.box for run in runs)
    for edge in edges:
        axis = 1 if edge.horizontal else 0  # the axis along which the rule cuts
        low, high = (edge.left, edge.right) if edge.horizontal else (edge.top, edge.bottom)
        wall = edge.top if edge.horizontal else edge.left
        first, last = region[1 - axis], region[3 - axis]
        shared = min(high, last) - max(low, first)
        if shared < (0.9 if edge.horizontal else 0.8) * (last - first):
            continue
        before = [run for run in runs if run.box[axis] + run.box[axis + 2] < 2 * wall]
        after = [run for run in runs if run.box[axis] + run.box[axis + 2] >= 2 * wall]
        crossed = any(run.box[axis] + 2 < wall < run.box[axis + 2] - 2 for run in runs)
        if before and after and not crossed:
            return [before, after]
    return None


def _cut_at_gutter(runs: Sequence[Run], gutters: Sequence[float]) -> list[list[Run]] | None:
    """Cut into columns, and at the runs that span them; None if the region is one column."""
    for middle in gutters:
        spanning = [run for run in runs if run.box[0] < middle < run.box[2]]
        parts: list[list[Run]] = []
        groups = _groups(runs, spanning)
        beside = [group for group, spans in groups if not spans]
        halves = [_halves(group, middle) for group in beside]
        if _is_table([(left, right) for left, right in halves if left and right]):
            continue
        for group, spans in groups:
            parts += [group] if spans else [half for half in _halves(group, middle) if half]
        if len(parts) > 1:
            return parts
    return None


def _halves(runs: Sequence[Run], middle: float) -> tuple[list[Run], list[Run]]:
    left = [run for run in runs if run.box[0] + run.box[2] < 2 * middle]
    right = [run for run in runs if run.box[0] + run.box[2] >= 2 * middle]
    return left, right


def _groups(runs: Sequence[Run], spanning: Sequence[Run]) -> list[tuple[list[Run], bool]]:
    """Group runs from top to bottom into those beside the gutter and those that span it."""
    groups: list[tuple[list[Run], bool]] = []
    crossing = {id(run) for run in spanning}
    for line in lines_of(runs):
        spans = any(id(run) in crossing for run in line.runs)
        if not groups or groups[-1][1] != spans:
            groups.append(([], spans))
        groups[-1][0].extend(line.runs)
    return groups


def _gutters(lines: Sequence[Line]) -> list[float]:
    """Return the middles of the stretches of white that few lines cross, the clearest first."""
    if len(lines) < 2:
        return []
    size = statistics.median(line.size for line in lines)
    allowed = int(0.15 * len(lines))
    start = min(line.box[0] for line in lines)
    crossed = [0] * (int(max(line.box[2] for line in lines) - start) + 2)
    for line in lines:
        for low, high in _covered(line):
            for position in range(round(low - start), round(high - start)):
                crossed[position] += 1
    found: list[tuple[int, int, float]] = []
    for clear, stretch in groupby(range(len(crossed)), key=lambda at: crossed[at] <= allowed):
        positions = list(stretch)
        if clear and len(positions) >= max(5.0, 0.5 * size):
            # Where lines reach unevenly into the white, the middle of the clearest part counts.
            least = min(crossed[at] for at in positions)
            clearest = [at for at in positions if crossed[at] == least]
            middle = start + (clearest[0] + clearest[-1] + 1) / 2
            found.append((least, -len(positions), middle))
    return [middle for _, _, middle in sorted(found) if _both_sides(lines, middle)]


def _covered(line: Line) -> list[tuple[float, float]]:
    """Return the stretches of a line without gaps as wide as a column's."""
    stretches: list[tuple[float, float]] = []
    for run in line.runs:
        if stretches and run.box[0] - stretches[-1][1] < 0.5 * line.size:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], run.box[2]))
        else:
            stretches.append((run.box[0], run.box[2]))
    return stretches


def _both_sides(lines: Sequence[Line], middle: float) -> bool:
    needed = 2 if len(lines) < 8 else 3
    left = sum(any(run.box[2] <= middle for run in line.runs) for line in lines)
    right = sum(any(run.box[0] >= middle for run in line.runs) for line in lines)
    return left >= needed and right >= needed


def _is_table(halves: Sequence[tuple[list[Run], list[Run]]]) -> bool:
    """Whether the runs left and right of a gutter are entries of rows, not columns of prose."""
    shared = total = 0
    lengths: tuple[list[int], list[int]] = ([], [])
    for sides in halves:
        lefts, rights = lines_of(sides[0]), lines_of(sides[1])
        few, many = sorted((lefts, rights), key=len)
        centres = [line.box[1] + line.box[3] for line in many]
        total += len(few)
        for line in few:
            centre = line.box[1] + line.box[3]
            shared += any(abs(centre - other) <= 0.6 * line.size for other in centres)
        lengths[0].extend(len(run.text) for line in lefts for run in line.runs)
        lengths[1].extend(len(run.text) for line in rights for run in line.runs)
    if not total:
        return False
    shortest = min(statistics.median(side) for side in lengths)
    return shared >= 0.7 * total and shortest < PROSE_CHARS
