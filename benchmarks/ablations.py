"""What each part of the recipe behind the packaged adapter is worth, on validation questions.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/ablations.py [--only NAME ...]

Each variant changes one thing, is trained for one pass over the first questions of the train parts
of the five permissive benchmarks (the packaged adapter: three passes over all), is kept at the
packaged share of its strength, and answers the validation questions over one pool: their gold items
and the other items whose ids have the smallest hashes. The variants are compared with the recipe
itself, trained alike, question by question. No test part is read. Adapters are kept in
`benchmarks/.cache/ablations`, so that an interrupted run goes on; each finished variant is in
`benchmarks/results/ablations.json` at once. Needs the extra `train`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import quality
import samples
from quality import CHOSEN_ON, Data, Subject, Tables
from vectors import CACHE

from canopy_rag.config import EncoderConfig
from canopy_rag.core import node_text
from canopy_rag.core.errors import DataError
from canopy_rag.datasets.registry import benchmark
from canopy_rag.encoders.adapters import LORA_TENSORS
from canopy_rag.evaluation import marks
from canopy_rag.evaluation.marks import BENCHMARKS
from canopy_rag.evaluation.quality import Measured
from canopy_rag.text import DefaultSplitter
from canopy_rag.training import Recipe, objective, preset
from canopy_rag.training.data import Source, read_source
from canopy_rag.training.loss import Pairs
from canopy_rag.training.run import Job, train

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from train_minilm import KINDS, round_tensors, scale, show

ADAPTERS = CACHE / "ablations"
RESULT = samples.RESULTS / "ablations.json"
OTHERS = 4_000
LEARNED = 120
SHIPPED = KINDS["default"].strength


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to train."""

    what: str
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the recipe."""
    cells_alone: bool = False
    """Whether rows are read without the names of their columns."""
    margin: float = 0.0
    """By which a preferred node must lie above the other for the loss to fall off."""
    strength: float = SHIPPED


VARIANTS = {
    "recipe": Variant(what="the packaged recipe"),
    "full strength": Variant(what="all of what was learned", strength=1.0),
    "no lexical term": Variant(what="cosine alone", changes={"lexical": False}),
    "decisions alone": Variant(what="no term across items (the paper)", changes={"across": 0.0}),
    "across 0.25": Variant(what="half the weight across items", changes={"across": 0.25}),
    "across 1": Variant(what="twice the weight across items", changes={"across": 1.0}),
    "mixed batches": Variant(what="unlike questions share a batch", changes={"neighbours": 1}),
    "margin 0.05": Variant(what="a margin in the decisions' loss", margin=0.05),
    "rank 8": Variant(what="a quarter of the adapter", changes={"rank": 8, "alpha": 16.0}),
    "worst pair": Variant(what="the worst pair counts most", changes={"reduction": "logsumexp"}),
    "cells alone": Variant(what="rows without the names of their columns", cells_alone=True),
    "scale 10": Variant(what="a softer loss", changes={"scale": 10.0}),
}
REFERENCE = "recipe"


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=tuple(VARIANTS), default=list(VARIANTS))
    parser.add_argument(
        "--learned", type=int, default=LEARNED, help="questions of each train part (%(default)s)"
    )
    options = parser.parse_args()
    folder = samples.require(options.data, *BENCHMARKS, quality.DISTRACTORS)
    data = quality.read(folder, (CHOSEN_ON,))
    rows = pool_rows(data)
    sources = read_sources(folder, options.learned)
    body = begin(data, rows, options.learned)
    reference: Tables = {}
    for name in [REFERENCE, *(each for each in options.only if each != REFERENCE)]:
        print(f"== {name}: {VARIANTS[name].what}", flush=True)
        with rendered(VARIANTS[name].cells_alone):
            adapter = trained(name, sources, options.learned)
            own = measured(data, rows, adapter)
        reference = reference or own
        body["variants"][name] = told(data, name, own, reference)
        RESULT.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(body["variants"][name]), flush=True)


def pool_rows(data: Data) -> list[int]:
    """Return the rows of the gold items, and of the others with the smallest hashes."""
    gold = {
        span.item_id
        for name in BENCHMARKS
        for each in data.questions[CHOSEN_ON, name]
        for span in each.gold
    }
    others = [row for row, item in enumerate(data.items) if item.id not in gold]
    others.sort(key=lambda row: hashlib.sha256(data.items[row].id.encode()).digest())
    kept = set(others[:OTHERS])
    return [row for row, item in enumerate(data.items) if item.id in gold or row in kept]


def read_sources(folder: Path, limit: int) -> list[Source]:
    """Return the train and validation parts."""
    splitter = DefaultSplitter()
    return [
        read_source(
            benchmark(name), folder / name, splitter, parts=("train", "validation"), limit=limit
        )
        for name in BENCHMARKS
    ]


def begin(data: Data, rows: Sequence[int], learned: int) -> dict[str, Any]:
    """Return the head of the result, with the variants that an earlier run finished."""
    earlier = json.loads(RESULT.read_bytes()) if RESULT.exists() else {}
    known = earlier["variants"] if earlier.get("learned") == learned else {}
    return {
        "what": "one change to the recipe at a time, trained for one pass, on validation questions",
        "reference": REFERENCE,
        "machine": samples.machine(),
        "interval": "95 %, paired bootstrap by question, 10,000 resamples",
        "questions": {name: len(data.questions[CHOSEN_ON, name]) for name in BENCHMARKS},
        "items": len(rows),
        "learned": learned,
        "variants": {name: each for name, each in known.items() if name in VARIANTS},
    }


def trained(name: str, sources: Sequence[Source], limit: int) -> Path:
    """Return the folder of a variant's adapter; trains it if it is not there."""
    variant = VARIANTS[name]
    recipe = replace(preset("minilm"), epochs=1, **variant.changes)
    place = ADAPTERS / key(variant, recipe, limit)
    if not place.exists():
        beside = place.with_name(f"{place.name}.new")
        beside.parent.mkdir(parents=True, exist_ok=True)
        job = Job(
            encoder=EncoderConfig(name="minilm:base"), sources=sources, out=beside, recipe=recipe
        )
        with apart(variant.margin):
            train(job, on_progress=show, note=print)
        round_tensors(beside / LORA_TENSORS)
        beside.rename(place)
    weak = ADAPTERS / f"{place.name}-{variant.strength}"
    shutil.rmtree(weak, ignore_errors=True)
    shutil.copytree(place, weak)
    scale(weak / LORA_TENSORS, variant.strength)
    return weak


def key(variant: Variant, recipe: Recipe, limit: int) -> str:
    """Return a name for what decides what is learned."""
    decides = [recipe.to_dict(), variant.margin, variant.cells_alone, limit]
    text = json.dumps(decides, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def apart(margin: float) -> Iterator[None]:
    """Let the loss ask that preferred nodes lie higher by a margin."""
    plain = objective.instance_losses

    def shifted(similarities: Any, wanted: Pairs, *rest: Any) -> Any:
        n = len(similarities)
        raised = similarities.new_empty(2 * n)
        raised[:n], raised[n:] = similarities, similarities + margin
        moved = Pairs(wanted.preferred, wanted.other + n, wanted.instance, wanted.n_instances)
        return plain(raised, moved, *rest)

    with mock.patch.object(objective, "instance_losses", shifted if margin else plain):
        yield


@contextmanager
def rendered(cells_alone: bool) -> Iterator[None]:
    """Let encoders read rows with or without the names of their columns."""
    plain = node_text.row_text

    def bare(header: tuple[str, ...], row: tuple[str, ...]) -> str:
        return plain((), row)

    with mock.patch.object(node_text, "row_text", bare if cells_alone else plain):
        yield


def measured(data: Data, rows: Sequence[int], adapter: Path) -> Tables:
    """Let the validation questions search the pool."""
    with data.timed("encode"):
        # One process: another one would not see how rows are rendered here.
        subject = Subject.of(data, f"minilm+{adapter}", rows, 1)
    return quality.tables(data, subject, (CHOSEN_ON,), ("hard",), BENCHMARKS)


def told(data: Data, name: str, own: Tables, reference: Tables) -> dict[str, Any]:
    """Return a variant's figures, and how they differ from the recipe's."""
    table: Measured = own["hard", CHOSEN_ON]
    scope = marks.selections(table, table)["all"]
    decisions = marks.decision_accuracy(table)
    body: dict[str, Any] = {
        "what": VARIANTS[name].what,
        "recall": scope["rules"]["set"]["recall"],
        "tokens": scope["rules"]["set"]["tokens"],
        "items": scope["items_retrieved"],
        "best_leaves": scope["curves"]["global"],
        "decisions": {
            each: decisions[each] for each in ("all", "nq", "hotpotqa + musique", "tables")
        },
    }
    if own is not reference:
        body["less_recipe"] = quality.compared(
            data, own, reference, CHOSEN_ON, ("hard",), ("all",)
        )["hard"]["all"]
    return body


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(str(error))
