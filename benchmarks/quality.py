"""How much gold evidence each selection keeps at how many tokens, for one or several encoders.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/quality.py --part validation
    python benchmarks/quality.py --part test --encoder frozen=minilm:base --encoder minilm \
        --loo nq=adapter-trained-without-nq

Every question searches two pools. *hard*: all items of NQ, HotpotQA, MuSiQue, OTT-QA (with the
passages that its tables link to), TAT-QA and 2WikiMultiHopQA together. *easy*: the gold items of
its own data set in that part, and at most 800 others of it. Selections see the k = 10 nearest.

The settings of rivals are chosen on the validation part, whatever is reported. The first encoder
is the one that the others are compared with, the last one is the default. `--loo NAME=FOLDER`
measures an adapter that was trained without NAME on NAME alone. Writes
`benchmarks/results/quality-PART.json`; `docs/quality.md` and its plots are made from that. Vectors
are kept in `benchmarks/.cache`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import samples
from vectors import encoded

from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors
from canopy_rag.datasets.frozen import standard_split
from canopy_rag.datasets.registry import load
from canopy_rag.datasets.splits import Part
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.evaluation import marks
from canopy_rag.evaluation.judged import Judged, Pool, judge
from canopy_rag.evaluation.marks import BENCHMARKS
from canopy_rag.evaluation.quality import Measured, Sizes, fixed_thresholds, measure, rivals
from canopy_rag.text import DefaultSplitter

DISTRACTORS = "2wikimultihopqa"
POOLS = ("hard", "easy")
MOST_OTHERS = 800
K = 10
CHOSEN_ON: Part = "validation"


@dataclass(kw_only=True)
class Data:
    """Questions by part and benchmark, and all items."""

    items: list[Item]
    own: dict[str, list[int]]
    """Benchmark -> rows of its items."""
    questions: dict[tuple[str, str], list[Question]]
    seconds: dict[str, float] = field(default_factory=dict)

    def easy(self, part: str, name: str) -> list[int]:
        """Return the rows of a benchmark's easy pool."""
        gold = {span.item_id for each in self.questions[part, name] for span in each.gold}
        others = [row for row in self.own[name] if self.items[row].id not in gold]
        left_out = set(others[MOST_OTHERS:])
        return [row for row in self.own[name] if row not in left_out]

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add up how long a stage takes."""
        started = time.perf_counter()
        yield
        spent = time.perf_counter() - started
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + spent, 1)
        print(f"{stage}: {spent:.0f} s", flush=True)


def read(folder: Path, parts: Sequence[Part]) -> Data:
    """Read the questions of some parts, and every item once."""
    items: dict[str, Item] = {}
    place: dict[str, int] = {}
    own: dict[str, list[int]] = {}
    questions: dict[tuple[str, str], list[Question]] = {}
    for name in (*BENCHMARKS, DISTRACTORS):
        loaded = load(name, folder / name, DefaultSplitter())
        rows: dict[int, None] = {}
        for item in loaded.items():
            rows.setdefault(place.setdefault(item.id, len(place)))
            items.setdefault(item.id, item)
        own[name] = list(rows)
        split = standard_split(loaded)
        by_id = {question.id: question for question in loaded.questions}
        for part in parts if name in BENCHMARKS else ():
            questions[part, name] = [by_id[each] for each in split.ids(part)]
    return Data(items=list(items.values()), own=own, questions=questions)


@dataclass(kw_only=True)
class Subject:
    """An encoder with the vectors of some rows of the items."""

    name: str
    rows: Sequence[int]
    vectors: Sequence[ItemVectors]

    @classmethod
    def of(cls, data: Data, name: str, rows: Sequence[int], processes: int) -> Subject:
        """Encode rows, or take them from the cache."""
        vectors = encoded([data.items[row] for row in rows], name, processes)
        return cls(name=name, rows=rows, vectors=vectors)

    def pool(self, data: Data, rows: Sequence[int]) -> Pool:
        """Return a pool of rows, all of them among those that were encoded."""
        place = {row: position for position, row in enumerate(self.rows)}
        items = tuple(data.items[row] for row in rows)
        own = [self.vectors[place[row]] for row in rows]
        return Pool(
            items=items,
            vectors=tuple(each.nodes for each in own),
            matrix=np.stack([each.item for each in own]),
            positions={item.id: position for position, item in enumerate(items)},
        )


def judged(
    data: Data, subject: Subject, pool: str, part: str, names: Sequence[str]
) -> list[Judged]:
    """Let the questions of some benchmarks search."""
    model = named_encoder(subject.name)
    found: list[Judged] = []
    searched = subject.pool(data, subject.rows) if pool == "hard" else None
    for name in names:
        own = searched or subject.pool(data, data.easy(part, name))
        found += judge(name, data.questions[part, name], own, model, K)
    return found


Tables = dict[tuple[str, str], Measured]
"""By pool and part."""


def tables(
    data: Data, subject: Subject, parts: Sequence[Part], pools: Sequence[str], names: Sequence[str]
) -> Tables:
    """Measure an encoder; thresholds are those of the part where settings are chosen."""
    count = named_encoder(subject.name).count_tokens
    found: Tables = {}
    for pool in pools:
        with data.timed("search"):
            asked = {part: judged(data, subject, pool, part, names) for part in parts}
        with data.timed("measure"):
            methods = rivals(fixed_thresholds(asked[CHOSEN_ON]))
            for part in parts:
                found[pool, part] = measure(asked[part], methods, Sizes(count))
    return found


def report(data: Data, measured: Tables, part: Part) -> dict[str, Any]:
    """Return what is told of one encoder."""
    with data.timed("intervals"):
        return {
            "decisions": marks.decision_accuracy(measured["hard", part]),
            "pools": {
                pool: marks.selections(measured[pool, CHOSEN_ON], measured[pool, part])
                for pool in POOLS
            },
        }


def compared(
    data: Data,
    own: Tables,
    reference: Tables,
    part: Part,
    pools: Sequence[str],
    scopes: Sequence[str],
) -> dict[str, Any]:
    """Return how an encoder differs from the reference, by pool."""
    with data.timed("intervals"):
        return {
            pool: marks.against(
                (own[pool, CHOSEN_ON], reference[pool, CHOSEN_ON]),
                (own[pool, part], reference[pool, part]),
                scopes,
            )
            for pool in pools
        }


def left_out(
    data: Data, place: str, reference: Tables, parts: Sequence[Part], options: argparse.Namespace
) -> dict[str, Any]:
    """Measure an adapter on the one benchmark that it was trained without."""
    name, folder = pair(place)
    if name not in BENCHMARKS:
        raise SystemExit(f"--loo {place}: NAME is one of {', '.join(BENCHMARKS)}")
    rows = sorted({row for part in parts for row in data.easy(part, name)})
    if options.loo_pool == "hard":
        rows = list(range(len(data.items)))
    with data.timed("encode"):
        subject = Subject.of(data, f"minilm+{folder}", rows, options.processes)
    own = tables(data, subject, parts, (options.loo_pool,), (name,))
    same = {key: table.of((name,)) for key, table in reference.items()}
    found = compared(data, own, same, options.part, (options.loo_pool,), (name,))
    return {
        "adapter": fingerprint(subject.name),
        "pool": options.loo_pool,
        **found[options.loo_pool][name],
        "decision_accuracy": marks.decision_accuracy(own[options.loo_pool, options.part])[name],
    }


def inside(data: Data, name: str, part: Part, processes: int) -> dict[str, Any]:
    """Return how an encoder decides inside gold items, the only ones that it reads."""
    wanted = {
        span.item_id
        for benchmark in BENCHMARKS
        for each in data.questions[part, benchmark]
        for span in each.gold
    }
    rows = [row for row, item in enumerate(data.items) if item.id in wanted]
    with data.timed("encode"):
        subject = Subject.of(data, name, rows, processes)
    found = judged(data, subject, "hard", part, BENCHMARKS)
    sizes = Sizes(named_encoder(name).count_tokens)
    measured = measure(found, rivals(fixed_thresholds(found)), sizes)
    return {**fingerprint(name), "decisions": marks.decision_accuracy(measured)}


def fingerprint(name: str) -> dict[str, str]:
    """Return what identifies an encoder; never the folder of an adapter."""
    found = named_encoder(name).fingerprint
    return {"model": found.model, "revision": found.revision, "mode": found.mode}


def pair(text: str) -> tuple[str, str]:
    """Take `LABEL=NAME` apart; a name alone is its own label."""
    label, equals, name = text.partition("=")
    return (label, name) if equals else (text.partition("+")[0], text)


def tell(body: dict[str, Any]) -> None:
    """Print what matters most."""

    def points(interval: dict[str, float]) -> str:
        value, low, high = (100 * interval[key] for key in ("value", "low", "high"))
        return f"{value:5.1f} ({low:5.1f} to {high:5.1f})"

    for label, own in (body["encoders"] | body["inside"]).items():
        print(f"\n{label}: decisions")
        for scope, each in own["decisions"].items():
            print(f"  {scope:18} {points(each)} of {each['n_decisions']}")
        for pool, scopes in own.get("pools", {}).items():
            print(f"{label}, {pool}: recall, tokens, share, of retrieved, less the envelope's")
            for scope, each in scopes.items():
                rule, rival = each["rules"]["set"], each["rivals"]["set"]["envelope"]
                print(
                    f"  {scope:10} {points(rule['recall'])} {rule['tokens']:6.0f} "
                    f"{points(rule['share_of_tokens'])} {points(rule['of_retrieved'])} "
                    f"{points(rival['at_equal_tokens'])} {rival['settings']}"
                )
    compared = [
        (label, pool, scope, each)
        for label, own in body["against_reference"].items()
        for pool, scopes in own.items()
        for scope, each in scopes.items()
    ]
    compared += [("left out", own["pool"], name, own) for name, own in body["left_out"].items()]
    for label, pool, scope, each in compared:
        print(
            f"{label} less {body['reference']}, {pool}, {scope}: "
            f"items {points(each['items_retrieved'])}, recall {points(each['recall'])}, "
            f"tokens {each['tokens']['value']:+.0f}, decisions {points(each['decisions'])}, "
            f"above its envelope {points(each['its_envelope']['at_equal_tokens'])}"
        )


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument(
        "--encoder", action="append", help="NAME or LABEL=NAME, several times; default: minilm"
    )
    parser.add_argument("--part", choices=("validation", "test"), default="validation")
    parser.add_argument(
        "--inside", action="append", default=[], help="LABEL=NAME, for decisions alone"
    )
    parser.add_argument("--loo", action="append", default=[], help="BENCHMARK=ADAPTER-FOLDER")
    parser.add_argument("--loo-pool", choices=POOLS, default="easy")
    parser.add_argument("--processes", type=int, default=2, help="that encode side by side")
    parser.add_argument("--name", help="of the result; default: quality-PART")
    options = parser.parse_args()
    folder = samples.require(options.data, *BENCHMARKS, DISTRACTORS)
    encoders = dict(pair(each) for each in options.encoder or ["minilm"])
    part = cast(Part, options.part)
    parts: tuple[Part, ...] = tuple(dict.fromkeys((CHOSEN_ON, part)))
    with_started = time.perf_counter()
    data = read(folder, parts)
    data.seconds["read"] = round(time.perf_counter() - with_started, 1)
    print(f"read: {len(data.items):,} items in {data.seconds['read']:.0f} s", flush=True)
    body: dict[str, Any] = {
        "what": "gold-leaf recall against evidence tokens; selections and encoders compared",
        "part": part,
        "chosen_on": CHOSEN_ON,
        "k": K,
        "interval": "95 %, paired bootstrap by question, 10,000 resamples",
        "questions": {name: len(data.questions[part, name]) for name in BENCHMARKS},
        "items": {
            "hard": len(data.items),
            "easy": {name: len(data.easy(part, name)) for name in BENCHMARKS},
        },
        "reference": next(iter(encoders)),
        "default": list(encoders)[-1],
        "encoders": {},
        "inside": {},
        "against_reference": {},
        "left_out": {},
    }
    reference: Tables = {}
    for label, name in encoders.items():
        print(f"== {label}", flush=True)
        with data.timed("encode"):
            subject = Subject.of(data, name, range(len(data.items)), options.processes)
        measured = tables(data, subject, parts, POOLS, BENCHMARKS)
        body["encoders"][label] = {**fingerprint(name), **report(data, measured, part)}
        reference = reference or measured
        if measured is not reference:
            body["against_reference"][label] = compared(
                data, measured, reference, part, POOLS, tuple(marks.SCOPES)
            )
    for label, name in map(pair, options.inside):
        print(f"== {label}, inside gold items", flush=True)
        body["inside"][label] = inside(data, name, part, options.processes)
    for place in options.loo:
        print(f"== without {place.partition('=')[0]}", flush=True)
        body["left_out"][pair(place)[0]] = left_out(data, place, reference, parts, options)
    body |= {**samples.machine(), "seconds": data.seconds}
    tell(body)
    samples.write(options.name or f"quality-{part}", body)


if __name__ == "__main__":
    main()
