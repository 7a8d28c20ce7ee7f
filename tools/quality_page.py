"""The numbers and plots of `docs/quality.md`, from the results of `benchmarks/quality.py`.

`python tools/quality_page.py` draws the plots; `tools/make_docs.py` puts the tables in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
ASSETS = ROOT / "docs/assets"
PAPER_TUNED = {"nq": 70.7, "hotpotqa": 71.9, "hotpotqa + musique": 71.9, "ottqa": 55.0}
"""Decision accuracy of the paper's tuned 2B encoder on its own instances, percent (P11)."""
PAPER_TUNED_TABLES = 55.0
DECISIONS = (
    *("nq", "hotpotqa", "musique", "hotpotqa + musique", "ottqa", "tatqa", "tables", "all"),
)
FAMILIES = {
    "envelope": "envelope over all",
    "global": "n best leaves of all",
    "threshold": "fixed threshold",
    "deviations": "mean + c sd of the set",
    "whole": "first n items whole",
    "flat": "m best leaves of each item",
}
Body = Mapping[str, Any]


def result(results: Path = RESULTS) -> dict[str, Any]:
    """Return the result on the test part; on validation where that was not measured yet."""
    names = ("quality-test", "quality-validation")
    path = next(p for name in names if (p := results / f"{name}.json").exists())
    body: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return body


def tables(results: Path = RESULTS) -> str:
    """Return the generated part of the page as Markdown."""
    body = result(results)
    parts = [_measured(body), "## Decision accuracy (P11)", _decisions(body)]
    parts += ["![Decision accuracy](assets/quality-decisions.png)"]
    for pool in ("hard", "easy"):
        parts += [
            f"## The {pool} pool",
            f"![Gold-leaf recall against tokens, {pool} pool](assets/quality-{pool}.png)",
            _selections(body, pool),
            f"`set` of `{body['default']}` less each rival at the same tokens, points of "
            "gold-leaf recall:",
            _rivals(body, pool),
            "The strongest rival as it was chosen, before its tokens are made equal:",
            _chosen(body, pool),
        ]
    parts += ["## Readability", _readability(body), "## Encoders", _retrieval(body)]
    if body["left_out"]:
        parts += ["## Trained without a data set, measured on it", _left_out(body)]
    parts += ["## The curves", _curves(body)]
    return "\n\n".join(parts)


def plots(assets: Path = ASSETS) -> list[Path]:
    """Draw the plots of the page."""
    from canopy_rag.evaluation.quality_plots import plot_decisions, plot_frontier

    body = result()
    encoders, default, reference = body["encoders"], body["default"], body["reference"]
    drawn = [
        plot_frontier(
            encoders[default]["pools"][pool],
            assets / f"quality-{pool}.png",
            title=f"{pool} pool, {body['part']} part, encoder {default}",
            reference=None if default == reference else encoders[reference]["pools"][pool],
        )
        for pool in ("hard", "easy")
    ]
    return [*drawn, plot_decisions(_deciding(body), assets / "quality-decisions.png", DECISIONS)]


def _measured(body: Body) -> str:
    questions = ", ".join(f"{name} {n}" for name, n in body["questions"].items())
    easy = ", ".join(f"{name} {n:,}" for name, n in body["items"]["easy"].items())
    names = "; ".join(
        f"`{label}` is {own['model']} {own['revision']}" for label, own in body["encoders"].items()
    )
    return (
        f"Part: **{body['part']}** ({questions}); rivals' settings chosen on {body['chosen_on']}. "
        f"k = {body['k']}. Hard pool: {body['items']['hard']:,} items; easy pools: {easy}. "
        f"Encoders: {names}. Intervals: {body['interval']}."
    )


def _deciding(body: Body) -> Body:
    """Return the encoders whose decisions were judged, by label."""
    return {**body["encoders"], **body.get("inside", {})}


def _decisions(body: Body) -> str:
    rows = []
    for scope in DECISIONS:
        own = [each["decisions"].get(scope) for each in _deciding(body).values()]
        first = next((each for each in own if each), None)
        if first is None:
            continue
        paper = PAPER_TUNED.get(scope, PAPER_TUNED_TABLES if scope == "tables" else None)
        cells = [_share(each) if each else "-" for each in own]
        rows.append([scope, f"{first['n_decisions']:,}", *cells, f"{paper}" if paper else ""])
    head = ["", "decisions", *(f"`{label}` %" for label in _deciding(body))]
    note = (
        "The paper's column is its tuned 2B encoder on its own questions and trees; ours are "
        "other instances, so the two are neighbours, not a comparison on one sample."
    )
    return f"{_table([*head, 'paper, tuned 2B %'], rows)}\n\n{note}"


def _selections(body: Body, pool: str) -> str:
    rows = []
    for scope in body["encoders"][body["default"]]["pools"][pool]:
        for label, own in body["encoders"].items():
            for rule, each in own["pools"][pool][scope]["rules"].items():
                rows.append(
                    [
                        scope,
                        f"`{label}`",
                        f"`{rule}`",
                        _share(each["recall"]),
                        f"{each['tokens']:,.0f}",
                        _share(each["share_of_tokens"]),
                        _share(each["of_retrieved"]) if "of_retrieved" in each else "-",
                    ]
                )
    head = ["", "encoder", "select", "gold-leaf recall %", "tokens", "of whole items' tokens %"]
    return _table([*head, "of the retrieved gold leaves %"], rows)


def _rivals(body: Body, pool: str) -> str:
    scopes = body["encoders"][body["default"]]["pools"][pool]
    rows = [
        [
            scope,
            *(_points(each["rivals"]["set"][family]["at_equal_tokens"]) for family in FAMILIES),
            _points(each["rivals"]["paper"]["envelope"]["at_equal_tokens"]),
        ]
        for scope, each in scopes.items()
    ]
    return _table(["", *FAMILIES.values(), "the paper's rule less the envelope"], rows)


def _chosen(body: Body, pool: str) -> str:
    scopes = body["encoders"][body["default"]]["pools"][pool]
    rows = []
    for scope, each in scopes.items():
        rule, rival = each["rules"]["set"], each["rivals"]["set"]["envelope"]
        mixture = ", ".join(f"`{name}` {100 * s:.0f} %" for name, s in rival["settings"].items())
        own = f"{100 * rule['recall']['value']:.1f} at {rule['tokens']:,.0f}"
        its = f"{100 * rival['recall']:.1f} at {rival['tokens']:,.0f}"
        rows.append([scope, mixture, own, its, _points(rival["difference"])])
    head = ["", "mixture of", "`set` % at tokens", "the mixture % at tokens", "difference, points"]
    return _table(head, rows)


def _readability(body: Body) -> str:
    rows = [
        [
            f"`{label}`",
            f"`{rule}`",
            f"{found['fragments']:,}",
            _share(found),
        ]
        for label, own in body["encoders"].items()
        for rule, each in own["pools"]["hard"]["all"]["rules"].items()
        if (found := each.get("dangling"))
    ]
    note = (
        "Fragments of texts (stretches of kept sentences without a gap) over the hard pool, and "
        "the share that begins with a pronoun or connective (he, it, this, but, however, ...) "
        "while the sentence before is not shown."
    )
    return f"{note}\n\n{_table(['encoder', 'select', 'fragments', 'pointing back %'], rows)}"


def _retrieval(body: Body) -> str:
    scopes = body["encoders"][body["default"]]["pools"]["hard"]
    rows = [
        [
            scope,
            *(
                _share(own["pools"]["hard"][scope]["items_retrieved"])
                for own in body["encoders"].values()
            ),
        ]
        for scope in scopes
    ]
    head = ["gold items in 10, hard pool", *(f"`{label}` %" for label in body["encoders"])]
    parts = [_table(head, rows)]
    for label, pools in body["against_reference"].items():
        parts += [
            f"`{label}` less `{body['reference']}`, both with `set`, points (tokens: tokens); the "
            f"last column is against the envelope over all rivals of `{body['reference']}`, at "
            "equal tokens:",
            _differences(
                {f"{pool}: {s}": each for pool, o in pools.items() for s, each in o.items()}
            ),
        ]
    return "\n\n".join(parts)


def _left_out(body: Body) -> str:
    pools = ", ".join(sorted({own["pool"] for own in body["left_out"].values()}))
    note = (
        f"Adapter trained without the data set, less `{body['reference']}`, both with `set`, on "
        f"that data set ({pools} pool):"
    )
    return f"{note}\n\n{_differences(body['left_out'])}"


def _differences(found: Mapping[str, Body]) -> str:
    rows = [
        [
            name,
            _points(each["decisions"]) if "decisions" in each else "-",
            _points(each["items_retrieved"]),
            _points(each["recall"]),
            f"{each['tokens']['value']:+,.0f}",
            _points(each["its_envelope"]["at_equal_tokens"]),
        ]
        for name, each in found.items()
    ]
    head = ["", "decisions", "gold items in 10", "gold-leaf recall", "tokens", "above its envelope"]
    return _table(head, rows)


def _curves(body: Body) -> str:
    scopes = body["encoders"][body["default"]]["pools"]["hard"]
    names = [name for own in scopes["all"]["curves"].values() for name in own]
    points = {
        scope: {name: at for own in each["curves"].values() for name, at in own.items()}
        for scope, each in scopes.items()
    }
    rows = [
        [
            f"`{name}`",
            *(f"{100 * points[s][name][1]:.0f} at {points[s][name][0]:,.0f}" for s in scopes),
        ]
        for name in names
    ]
    note = (
        f"`{body['default']}`, hard pool: gold-leaf recall % at tokens of every rival's settings."
    )
    return f"{note}\n\n{_table(['', *scopes], rows)}"


def _share(interval: Body) -> str:
    value, low, high = (100 * interval[key] for key in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def _points(interval: Body) -> str:
    value, low, high = (100 * interval[key] for key in ("value", "low", "high"))
    text = f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"**{text}**" if low > 0 else text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    for drawn in plots():
        print(f"drew {drawn.relative_to(ROOT).as_posix()}")
