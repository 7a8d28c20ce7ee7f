"""Hold evidence to an exact number of the reader's tokens (P9, D8), never above the whole (D9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.evidence import Evidence, Fallback, LeftOut, Meter, Shown
from canopy_rag.core.protocols import MediaPart
from canopy_rag.core.render import Cut, node_body
from canopy_rag.core.trees import leaves

Cap = Literal["margin", "tail"]
Fragment = tuple[int, int]
"""Position of an entry, and one of its kept nodes."""


def fit(evidence: Evidence, budget: int | None, cap: Cap = "margin") -> Evidence:
    """Return evidence of at most `budget` tokens, media included; never empty if it was not.

    Fragments are removed until the rest fits: with `margin` those that stand out least from the
    retrieved items' mean similarity first, which is the order of similarity; with `tail` the
    latest retrieved first (the paper's rule, P9). The margin over the parent alone, which D8 names,
    loses far more gold at the same budget (`benchmarks/budget.py`): a good leaf of a good parent
    stands out little from it. If not even one fragment fits,
    headings are dropped; then the most similar leaf that fits is taken; then the most similar one
    is cut at a word. Each of these three is recorded as a `Fallback`. Ties: the later fragment
    goes first.

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
    if _certainly_fits(evidence, budget) or evidence.tokens <= budget:
        return evidence
    order = _removal_order(evidence, cap)
    fitted = _fewest_removed(evidence, order, budget)
    if fitted is not None:
        return fitted
    bare = _fewest_removed(replace(evidence, bare=True), order, budget)
    if bare is not None:
        return _noted(bare, f"headings dropped: no fragment fits {budget} tokens with them")
    return _smallest(replace(evidence, bare=True), budget)


def never_longer(shown: Shown, meter: Meter) -> Shown:
    """Return the item whole if its regions, as written for the reader, would not be shorter (D9).

    Only numbers and times can make it so: all else that is written stands in the whole item too.
    """
    if shown.kept == (0,):
        return shown
    if not (meter.numbered or shown.item.modality == "video"):
        return shown
    whole = replace(shown, kept=(0,), why="whole")
    if _count(shown, meter) >= _count(whole, meter):
        return whole
    return shown


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


def _fewest_removed(evidence: Evidence, order: Sequence[Fragment], budget: int) -> Evidence | None:
    """Return the evidence with the fewest leading fragments of `order` removed, or None.

    Fewer fragments are almost always fewer tokens (an elision mark may come), so bisection finds
    the border and a walk makes sure of it.
    """
    low, high = 0, len(order) - 1
    while low < high:
        middle = (low + high) // 2
        if _without(evidence, order[:middle]).tokens <= budget:
            high = middle
        else:
            low = middle + 1
    for removed in range(low, len(order)):
        candidate = _without(evidence, order[:removed])
        if candidate.tokens <= budget and _has_content(candidate):
            return candidate
    return None


def _without(evidence: Evidence, removed: Sequence[Fragment]) -> Evidence:
    gone = set(removed)
    entries: list[Shown] = []
    left_out = list(evidence.left_out)
    for position, entry in enumerate(evidence.entries):
        kept = tuple(node for node in entry.kept if (position, node) not in gone)
        if kept:
            entries.append(replace(entry, kept=kept))
        else:
            left_out.append(LeftOut(item_id=entry.item.id, rank=entry.rank, reason="budget"))
    return replace(evidence, entries=tuple(entries), left_out=tuple(left_out))


def _smallest(evidence: Evidence, budget: int) -> Evidence:
    """Return the best leaf that fits, or the beginning of the best one, or words for pictures."""
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
    for position, leaf in found:
        alone = _only(evidence, position, leaf, None)
        if alone.tokens <= budget and _has_content(alone):
            return _noted(alone, f"one leaf shown: nothing larger fits {budget} tokens")
    for position, leaf in found:
        for cut in _cuts(evidence.entries[position], leaf):
            alone = _only(evidence, position, leaf, cut)
            if alone.tokens <= budget:
                return _noted(alone, f"one leaf cut: no leaf fits {budget} tokens")
    position, leaf = found[0]
    return _noted(_only(evidence, position, leaf, None), f"nothing fits {budget} tokens")


def _only(evidence: Evidence, position: int, leaf: int, cut: Cut | None) -> Evidence:
    entry = replace(evidence.entries[position], kept=(leaf,), cut=cut)
    others = tuple(
        LeftOut(item_id=each.item.id, rank=each.rank, reason="budget")
        for at, each in enumerate(evidence.entries)
        if at != position
    )
    return replace(evidence, entries=(entry,), left_out=evidence.left_out + others)


def _has_content(evidence: Evidence) -> bool:
    return any(part for part in evidence.parts())


def _cuts(shown: Shown, leaf: int) -> list[Cut]:
    """Return cuts of a leaf's text to try, longest first: at words, then single characters."""
    node = shown.item.nodes[leaf]
    text = node_body(shown.item, node.start, node.stop)
    if not text.strip():
        return []
    ends = [match.end() for match in re.finditer(r"\S+", text[:20_000])]
    first = len(text) - len(text.lstrip()) + 1
    within = range(ends[0] - 1, first, -max(1, (ends[0] - first) // 16))
    return [
        *(Cut(chars=end) for end in reversed(ends[:-1])),
        *(Cut(chars=end) for end in within),
        Cut(chars=first),
        Cut(chars=first, mark=False),
    ]


def _noted(evidence: Evidence, reason: str) -> Evidence:
    return replace(
        evidence, fallbacks=(*evidence.fallbacks, Fallback(stage="budget", reason=reason))
    )
