"""What is reported of selections and encoders, by data set and over them: figures with intervals.

Intervals are 95 %, by resampling questions; whatever is compared is paired by question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.evaluation.bootstrap import (
    RESAMPLES,
    Interval,
    difference_interval,
    mean_interval,
    ratio_difference_interval,
    ratio_interval,
)
from canopy_rag.evaluation.frontier import Comparison, Mixture, choose, compare
from canopy_rag.evaluation.quality import FAMILIES, NOTHING, RULES, Measured

ONE_HOP = ("nq", "tatqa")
MULTI_HOP = ("hotpotqa", "musique", "ottqa")
BENCHMARKS = ("nq", "hotpotqa", "musique", "ottqa", "tatqa")
SCOPES: Mapping[str, Sequence[str]] = {
    "all": BENCHMARKS,
    **{name: (name,) for name in BENCHMARKS},
    "one-hop": ONE_HOP,
    "multi-hop": MULTI_HOP,
}
"""What figures are averaged over, each question weighing the same."""
DECISION_SCOPES: Mapping[str, Sequence[str]] = {
    **SCOPES,
    "hotpotqa + musique": ("hotpotqa", "musique"),
    "tables": ("ottqa", "tatqa"),
}
ENVELOPE = "envelope"
"""The strongest rival: the envelope over all families."""
Body = dict[str, Any]


def selections(chosen: Measured, tested: Measured, resamples: int = RESAMPLES) -> Body:
    """Return, for every scope with questions in both, the rules, their rivals and the curves.

    Args:
        chosen: The questions that rivals' settings are chosen on.
        tested: Those that are reported; the same columns.
        resamples: Of every interval.
    """
    return {
        name: _scope(chosen.of(own), tested.of(own), resamples)
        for name, own in SCOPES.items()
        if chosen.has(own) and tested.has(own)
    }


def decision_accuracy(tested: Measured, resamples: int = RESAMPLES) -> Body:
    """Return the share of right decisions (P11) of every scope; `n_decisions` counts them."""
    return {
        name: {
            **_json(ratio_interval(right, total, resamples=resamples)),
            "n_decisions": int(total.sum()),
        }
        for name, own in DECISION_SCOPES.items()
        if tested.has(own)
        for right, total in (tested.of(own).decided.T,)
        if total.sum()
    }


def against(
    chosen: tuple[Measured, Measured],
    tested: tuple[Measured, Measured],
    scopes: Sequence[str] = tuple(SCOPES),
    resamples: int = RESAMPLES,
) -> Body:
    """Return how an encoder differs from a reference, both with the selection `set`.

    Args:
        chosen: The encoder and the reference on the questions that settings are chosen on.
        tested: The same on those that are reported; rows are the same questions.
        scopes: Names of scopes.
        resamples: Of every interval.

    Raises:
        ValueError: If the questions of encoder and reference differ.
    """
    for first, second in (chosen, tested):
        if first.ids != second.ids:
            raise ValueError("encoder and reference were measured on different questions")
    return {
        name: _against(
            (chosen[0].of(own), chosen[1].of(own)),
            (tested[0].of(own), tested[1].of(own)),
            resamples,
        )
        for name, own in DECISION_SCOPES.items()
        if name in scopes and chosen[0].has(own) and tested[0].has(own)
    }


def _against(
    chosen: tuple[Measured, Measured], tested: tuple[Measured, Measured], resamples: int
) -> Body:
    own, reference = tested
    column = own.column("set")
    target = float(chosen[0].tokens[:, chosen[0].column("set")].mean())
    columns = reference.family(*FAMILIES)
    mixture = choose(chosen[1].tokens[:, columns], chosen[1].recall[:, columns], target)
    found = _compared(mixture, columns, reference, own, column, resamples)
    theirs = reference.column("set")
    pairs = {
        "recall": (own.recall[:, column], reference.recall[:, theirs]),
        "tokens": (own.tokens[:, column], reference.tokens[:, theirs]),
        "items_retrieved": (own.items_found, reference.items_found),
    }
    differences = {
        name: _json(difference_interval(first, second, resamples=resamples))
        for name, (first, second) in pairs.items()
    }
    decided = [(each.decided[:, 0], each.decided[:, 1]) for each in tested]
    if own.decided[:, 1].sum():
        differences["decisions"] = _json(
            ratio_difference_interval(decided[0], decided[1], resamples=resamples)
        )
    return {**differences, "its_envelope": _rival(found, mixture, columns, reference)}


def _scope(chosen: Measured, tested: Measured, resamples: int) -> Body:
    def mean(values: NDArray[np.float64]) -> Body:
        return _json(mean_interval(values, resamples=resamples))

    return {
        "n": len(tested.ids),
        "tokens_whole": round(float(tested.tokens_full.mean()), 1),
        "leaves_retrieved": mean(tested.n_found / tested.n_gold),
        "items_retrieved": mean(tested.items_found),
        "rules": {rule: _rule(tested, rule, resamples) for rule in RULES},
        "rivals": {
            "set": _rivals(chosen, tested, "set", (*FAMILIES, ENVELOPE), resamples),
            "paper": _rivals(chosen, tested, "paper", (ENVELOPE,), resamples),
        },
        "curves": {family: _curve(tested, family) for family in FAMILIES},
    }


def _rule(tested: Measured, rule: str, resamples: int) -> Body:
    column = tested.column(rule)
    kept, tokens = tested.kept[:, column], tested.tokens[:, column]
    brought = tested.n_found > 0
    fragments = tested.fragments[:, RULES.index(rule)]  # (n_questions, 2)
    body = {
        "recall": _json(mean_interval(tested.recall[:, column], resamples=resamples)),
        "tokens": round(float(tokens.mean()), 1),
        "share_of_tokens": _json(ratio_interval(tokens, tested.tokens_full, resamples=resamples)),
    }
    if brought.any():
        shares = kept[brought] / tested.n_found[brought]
        body["of_retrieved"] = _json(ratio_interval(kept, tested.n_found, resamples=resamples))
        body["of_retrieved_by_question"] = _json(mean_interval(shares, resamples=resamples))
    if fragments[:, 0].sum():
        body["dangling"] = {
            **_json(ratio_interval(fragments[:, 1], fragments[:, 0], resamples=resamples)),
            "fragments": int(fragments[:, 0].sum()),
        }
    return body


def _rivals(
    chosen: Measured, tested: Measured, rule: str, names: Sequence[str], resamples: int
) -> Body:
    column = tested.column(rule)
    target = float(chosen.tokens[:, column].mean())
    body: Body = {}
    for name in names:
        columns = tested.family(*(FAMILIES if name == ENVELOPE else (name,)))
        mixture = choose(chosen.tokens[:, columns], chosen.recall[:, columns], target)
        found = _compared(mixture, columns, tested, tested, column, resamples)
        body[name] = _rival(found, mixture, columns, tested)
    return body


def _compared(
    mixture: Mixture,
    columns: Sequence[int],
    rival: Measured,
    own: Measured,
    column: int,
    resamples: int,
) -> Comparison:
    return compare(
        mixture,
        rival.tokens[:, columns],
        rival.recall[:, columns],
        own.tokens[:, column],
        own.recall[:, column],
        resamples=resamples,
    )


def _rival(found: Comparison, mixture: Mixture, columns: Sequence[int], rival: Measured) -> Body:
    shares = {mixture.low: 1 - mixture.share, mixture.high: mixture.share}
    return {
        "settings": {
            rival.methods[columns[place]].name: round(share, 3)
            for place, share in shares.items()
            if share
        },
        "recall": round(found.recall, 4),
        "tokens": round(found.tokens, 1),
        "difference": _json(found.difference),
        "at_equal_tokens": _json(found.at_equal_tokens),
        "tokens_difference": _json(found.tokens_difference),
    }


def _curve(tested: Measured, family: str) -> Body:
    """Return setting -> mean tokens and mean recall."""
    return {
        tested.methods[column].name: [
            round(float(tested.tokens[:, column].mean()), 1),
            round(float(tested.recall[:, column].mean()), 4),
        ]
        for column in tested.family(family)
        if tested.methods[column].family != NOTHING
    }


def _json(interval: Interval) -> Body:
    return {
        "value": round(interval.value, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "n": interval.n,
    }
