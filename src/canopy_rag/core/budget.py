"""Hold evidence to an exact number of the reader's tokens (P9, D8), never above the whole (D9)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Literal

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.evidence import Evidence, Fallback, LeftOut, Meter, Shown
from canopy_rag.core.protocols import MediaPart
from canopy_rag.core.render import Cut, node_body
from canopy_rag.core.trees import leaves

Cap = Literal["margin", "tail"]
FILL_TRIES = 16
"""Leaves tried to fill a budget; each costs a count of the evidence's tokens."""
CUT_TRIES = 64
"""Leaves tried alone, then cut, when not even one of the best fits with the others."""
TOKEN_CHARS = 64
"""Characters that no token of running text has on average."""
CUT_CHARS = 20_000
"""Of a leaf to be cut, so many characters are looked at; a blob of fewer may be a single token."""
MARK_CHARS = 16
"""An elision mark is shorter than this many characters, in tokens of any kind."""
Fragment = tuple[int, int]
"""Position of an entry, and one of its kept nodes."""


def fit(evidence: Evidence, budget: int | None, cap: Cap = "margin") -> Evidence:
    """Return evidence of at most `budget` tokens, media included; never empty if it was not.

    Fragments are removed until the rest fits, and what then is left of the budget is filled with
    single leaves of those removed. With `margin` the fragments that stand out least from the
    retrieved items' mean similarity go first, which is the order of similarity, and the most
    similar leaves come back. (The margin over the parent alone, which D8 names, loses far more gold
    at the same budget: `benchmarks/bench_budget.py`.) With `tail` the latest retrieved go first,
    and the first of them is cut between leaves (the paper's rule, P9).

    If not even one leaf fits, headings are dropped; then the most similar leaf that fits alone is
    taken; then one is cut at a word, or inside its first one. Headings dropped and leaves cut are
    recorded as a `Fallback`. Ties: the later fragment goes first. Where not even one character
    fits, that character is shown and the `Fallback` says so.

    Args:
        evidence: What would be shown without a limit.
        budget: Most tokens, as the evidence's meter counts them; None: no limit.
        cap: Which fragments go first.

    Raises:
        ConfigError: If the budget is below 1.
        UnknownNameError: If `cap` is neither rule.
    """
    if cap not in ("margin", "tail"):
        raise UnknownNameError("cap", cap, ("margin", "tail"))
    if budget is None or not evidence.entries:
        return evidence
    if budget < 1:
        raise ConfigError(f"the evidence budget must be at least 1 token, got {budget}")
    # A caller's own way of counting may be any: it is always asked.
    certain = not evidence.meter.exact and _certainly_fits(evidence, budget)
    if certain or evidence.tokens <= budget:
        return evidence
    order = _removal_order(evidence, cap)
    bare = replace(evidence, bare=True)
    fitted = _fitted(evidence, order, budget, cap)
    if fitted is not None:
        return fitted
    fitted = _fitted(bare, order, budget, cap)
    if fitted is not None:
        return _noted(fitted, f"headings dropped: nothing fits {budget} tokens with them")
    return _cut_short(bare, budget)


def never_longer(shown: Shown, meter: Meter) -> Shown:
    """Return the item whole if its regions, as written for the reader, would not be shorter (D9).

    Numbers, times and elision marks can make it so: all else stands in the whole item too.
    """
    if shown.kept == (0,) or not _may_be_longer(shown, meter):
        return shown
    whole = replace(shown, kept=(0,), why="whole")
    return whole if _count(shown, meter) >= _count(whole, meter) else shown


def _may_be_longer(shown: Shown, meter: Meter) -> bool:
    """Whether what is added to the regions may outweigh what is left out; counts no tokens."""
    if shown.item.modality == "video":
        return True
    if len(shown.kept) == 1:  # no mark; the whole item has a number too
        return False
    return meter.numbered or any(0 < len(gap) < MARK_CHARS for gap in map(str.strip, _gaps(shown)))


def _gaps(shown: Shown) -> Iterator[str]:
    """Yield the text between neighbouring regions, the first part of it where it is long."""
    regions = [shown.item.nodes[node] for node in shown.kept]
    for left, right in pairwise(regions):
        # More than a mark's length, since white space around sentences is between them too.
        yield node_body(shown.item, left.stop, min(right.start, left.stop + 4 * MARK_CHARS))


def _count(shown: Shown, meter: Meter) -> int:
    return Evidence(entries=(shown,), meter=meter).tokens


def _certainly_fits(evidence: Evidence, budget: int) -> bool:
    """Whether the text's bytes fit: no tokenizer makes more tokens than bytes."""
    parts = evidence.parts()
    if any(isinstance(part, MediaPart) for part in parts):
        return False
    size = sum(len(part.encode("utf-8", "replace")) for part in parts if isinstance(part, str))
    return size + 2 * len(parts) <= budget


def _removal_order(evidence: Evidence, cap: Cap) -> list[Fragment]:
    """Return all fragments, the first to go first."""
    fragments = [
        (position, node) for position, entry in enumerate(evidence.entries) for node in entry.kept
    ]
    if cap == "tail":
        latest = sorted(
            range(len(evidence.entries)),
            key=lambda at: (evidence.entries[at].round, evidence.entries[at].rank),
        )
        place = {position: order for order, position in enumerate(latest)}
        return sorted(fragments, key=lambda each: (place[each[0]], each[1]), reverse=True)
    return sorted(
        fragments,
        key=lambda each: (evidence.entries[each[0]].value(each[1]), -each[0], -each[1]),
    )


def _fitted(
    evidence: Evidence, order: Sequence[Fragment], budget: int, cap: Cap
) -> Evidence | None:
    """Return what fits, whole fragments first, then leaves; None if not even one leaf does."""
    removed = _n_removed(evidence, order, budget)
    chosen = list(order[removed:])
    for leaf in _fillers(evidence, order[:removed], cap):
        if _fits(_showing(evidence, [*chosen, leaf]), budget):
            chosen.append(leaf)
        elif cap == "tail":
            break
    fitted = _none_longer(_showing(evidence, chosen), evidence, budget, cap)
    return fitted if _has_content(fitted) else None  # a mark between blank regions is none


def _none_longer(fitted: Evidence, given: Evidence, budget: int, cap: Cap) -> Evidence:
    """Return the evidence without items that marks between regions made longer than whole (D9).

    Such an item is shown whole where all of it was given; elsewhere its regions go one by one, as
    the cap has it, since a budget shows nothing that selection did not.
    """
    kept = {entry.item.id: entry.kept for entry in given.entries}
    entries = tuple(
        _not_longer(entry, kept[entry.item.id], fitted.meter, cap) for entry in fitted.entries
    )
    if entries == fitted.entries:
        return fitted
    shorter = replace(fitted, entries=entries)
    return shorter if shorter.tokens <= budget else fitted


def _not_longer(shown: Shown, given: Sequence[int], meter: Meter, cap: Cap) -> Shown:
    """Return one item's regions, fewer or all of it, no longer than the item whole."""
    nodes = shown.item.nodes
    while (best := never_longer(shown, meter)) is not shown:
        if sum(len(leaves(nodes, node)) for node in given) == len(leaves(nodes)):
            return best
        if len(shown.kept) == 1:
            return shown
        # The same order as between items: ties, and with `tail` all, the later one first.
        value = (lambda node: 0.0) if cap == "tail" else shown.value
        worst = min(shown.kept, key=lambda node: (value(node), -node))
        shown = replace(shown, kept=tuple(node for node in shown.kept if node != worst))
    return shown


def _fits(evidence: Evidence, budget: int) -> bool:
    if len(evidence.text) > CUT_CHARS + TOKEN_CHARS * budget:
        return False  # counting megabytes takes seconds
    return evidence.tokens <= budget


def _n_removed(evidence: Evidence, order: Sequence[Fragment], budget: int) -> int:
    """Return how many leading fragments of `order` must go for the rest to fit.

    Fewer fragments are almost always fewer tokens (an elision mark may come), so bisection finds
    the border and a walk makes sure of it.
    """
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if _fits(_showing(evidence, order[middle:]), budget):
            high = middle
        else:
            low = middle + 1
    while low < len(order) and not _fits(_showing(evidence, order[low:]), budget):
        low += 1
    return low


def _fillers(evidence: Evidence, removed: Sequence[Fragment], cap: Cap) -> list[Fragment]:
    """Return the leaves that may fill the rest of the budget, in the order to be tried."""
    entries = evidence.entries
    if cap == "tail":
        cut = removed[-1:]
        return [(at, leaf) for at, node in cut for leaf in leaves(entries[at].item.nodes, node)]
    found = [(at, leaf) for at, node in removed for leaf in leaves(entries[at].item.nodes, node)]
    found.sort(key=lambda each: (-entries[each[0]].value(each[1]), each))
    return found[:FILL_TRIES]


def _showing(evidence: Evidence, chosen: Sequence[Fragment]) -> Evidence:
    """Return the evidence with the chosen nodes alone; items of which nothing is left are named."""
    kept: dict[int, list[int]] = {}
    for position, node in chosen:
        kept.setdefault(position, []).append(node)
    gone = tuple(
        LeftOut(item_id=entry.item.id, rank=entry.rank, reason="budget")
        for position, entry in enumerate(evidence.entries)
        if position not in kept
    )
    entries = tuple(
        _reduced(entry, tuple(sorted(kept[position])))
        for position, entry in enumerate(evidence.entries)
        if position in kept
    )
    return replace(evidence, entries=entries, left_out=evidence.left_out + gone)


def _reduced(shown: Shown, kept: tuple[int, ...]) -> Shown:
    """Return the item with these nodes; one that is no longer whole does not say that it is."""
    if kept == shown.kept:
        return shown
    return replace(shown, kept=kept, why="image" if shown.why == "image" else "refined")


def _cut_short(evidence: Evidence, budget: int) -> Evidence:
    """Return the best leaf that fits alone, or the beginning of one, or words for pictures."""
    if evidence.meter.count_media is not None:
        blind = replace(evidence, bare=False, meter=replace(evidence.meter, count_media=None))
        return _noted(fit(blind, budget), f"pictures left out: they do not fit {budget} tokens")
    found = [
        (position, leaf)
        for position, entry in enumerate(evidence.entries)
        for node in entry.kept
        for leaf in leaves(entry.item.nodes, node)
    ]
    found.sort(key=lambda each: (-evidence.entries[each[0]].value(each[1]), each))
    worded = list(islice((each for each in found if _words(evidence, each)), CUT_TRIES))
    if not worded:
        return _noted(_showing(evidence, found[:1]), "there are no words to show")
    for each in worded:
        alone = _showing(evidence, [each])
        if _fits(alone, budget):
            return _noted(alone, f"headings dropped: nothing fits {budget} tokens with them")
    for each in worded:
        shortened = _shortened(evidence, each, budget)
        if shortened is not None:
            return _noted(shortened, f"one leaf cut: no leaf fits {budget} tokens")
    least = _cut_at(evidence, worded[0], _cuts(_words(evidence, worded[0]))[0])
    return _noted(least, f"not even one character fits {budget} tokens")


def _words(evidence: Evidence, leaf: Fragment) -> str:
    """Return the text of a leaf, or nothing where it is blank."""
    item = evidence.entries[leaf[0]].item
    node = item.nodes[leaf[1]]
    text = node_body(item, node.start, node.stop)
    return text if text.strip() else ""


def _shortened(evidence: Evidence, leaf: Fragment, budget: int) -> Evidence | None:
    """Return the longest beginning of a leaf that fits, found by bisection; None without one."""
    cuts = _cuts(_words(evidence, leaf))
    low, high = 0, len(cuts)  # cuts below `low` fit, those from `high` on do not
    while low < high:
        middle = (low + high) // 2
        if _fits(_cut_at(evidence, leaf, cuts[middle]), budget):
            low = middle + 1
        else:
            high = middle
    return _cut_at(evidence, leaf, cuts[low - 1]) if low else None


def _cut_at(evidence: Evidence, leaf: Fragment, cut: Cut) -> Evidence:
    alone = _showing(evidence, [leaf])
    return replace(alone, entries=(replace(alone.entries[0], cut=cut),))


def _has_content(evidence: Evidence) -> bool:
    return any(not isinstance(part, str) or part.strip() for part in evidence.parts())


def _cuts(text: str) -> list[Cut]:
    """Return cuts of a leaf's text, shortest first: single characters, then at words."""
    ends = [match.end() for match in re.finditer(r"\S+", text[:CUT_CHARS])]
    first = len(text) - len(text.lstrip()) + 1
    within = range(first + 1, ends[0], max(1, (ends[0] - first) // 16))
    return [
        Cut(chars=first, mark=False),
        Cut(chars=first),
        *(Cut(chars=end) for end in within),
        *(Cut(chars=end) for end in ends[:-1] if end > first),
    ]


def _noted(evidence: Evidence, reason: str) -> Evidence:
    return replace(
        evidence, fallbacks=(*evidence.fallbacks, Fallback(stage="budget", reason=reason))
    )
