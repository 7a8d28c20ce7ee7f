"""What the benchmarks on questions share: the pooled samples, exact counts, results with intervals.

The data are samples of public benchmarks in their official formats, one folder each (`nq`,
`hotpotqa`, `musique`, `ottqa`; see `docs/datasets.md`), below the folder that `--data` or the
variable `CANOPY_DATA` names. Without them a benchmark says so and leaves its committed result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vectors import encoded

from canopy_rag.core.preferences import gold_leaves
from canopy_rag.core.protocols import Encoder, Fingerprint, Found
from canopy_rag.core.questions import Question
from canopy_rag.core.types import Hit, Item, Modality
from canopy_rag.core.vectors import ItemVectors, QueryVectors
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.frozen import standard_split
from canopy_rag.datasets.registry import load
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.evaluation.bootstrap import Interval
from canopy_rag.text import DefaultSplitter

RESULTS = Path(__file__).parent / "results"
BENCHMARKS = ("nq", "hotpotqa", "musique", "ottqa")
PARTS = ("test", "development")
"""`test` has the frozen test questions; `development` those of the train and validation parts,
where choices may look."""
MOST_OTHERS = {"ottqa": 3_000}
"""Items that no chosen question needs, as far as they are limited."""
MOST_DEVELOPMENT = {"nq": 250, "ottqa": 150}
"""Questions of the development part, in the order of a hash of their ids, as far as limited."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A question with its gold leaves."""

    benchmark: str
    part: str
    question: Question
    gold: dict[str, frozenset[int]]
    """Item id -> gold leaves, of the items with located gold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """The questions of all benchmarks, and the one store that they search."""

    asked: tuple[Asked, ...]
    store: PoolStore
    encoder: RememberingEncoder

    def part(self, part: str, benchmarks: Sequence[str]) -> list[Asked]:
        """Return the questions of one part of some benchmarks."""
        return [each for each in self.asked if each.part == part and each.benchmark in benchmarks]

    def sizes(self) -> dict[str, int]:
        """Return the number of items of each benchmark in the store."""
        uris = [item.source.uri.partition("/")[0] for item in self.store.items]
        return {name: uris.count(name) for name in BENCHMARKS}


class PoolStore:
    """Searches encoded items exactly, by one product of matrix and query."""

    def __init__(
        self, fingerprint: Fingerprint, items: Sequence[Item], vectors: Sequence[ItemVectors]
    ) -> None:
        self.fingerprint = fingerprint
        self.items = tuple(items)
        self.position = {item.id: row for row, item in enumerate(items)}
        self._nodes = [each.nodes for each in vectors]
        self._matrix = np.stack([each.item for each in vectors])  # (n_items, dim)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The items' vectors, `(n_items, dim)`."""
        return self._matrix

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        modalities: Sequence[Modality] | None = None,
        text: str | None = None,
    ) -> list[Found]:
        """Return the `k` nearest items, ties by item id."""
        if modalities is not None or text is not None:
            raise ValueError("this store searches everything, by vectors alone")
        values = self._matrix @ query
        bound = np.partition(values, -k)[-k]
        rows = np.flatnonzero(values >= bound).tolist()
        rows.sort(key=lambda row: (-float(values[row]), self.items[row].id))
        return [
            Found(
                hit=Hit(
                    item_id=self.items[row].id,
                    corpus="main",
                    similarity=float(values[row]),
                    rank=rank,
                ),
                item=self.items[row],
                nodes=self._nodes[row],
            )
            for rank, row in enumerate(rows[:k], 1)
        ]

    def get(self, item_ids: Sequence[str]) -> list[Item]:
        """Return items by id."""
        return [self.items[self.position[item_id]] for item_id in item_ids]


class RememberingEncoder:
    """Encodes each query once and counts each word once; counts are those of the encoder.

    Its tokenizer looks at one word at a time, so the tokens of a text are those of its words.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.fingerprint = encoder.fingerprint
        self.media = encoder.media
        self.languages = encoder.languages
        self.encode_items = encoder.encode_items
        self._encoder = encoder
        self._queries: dict[str, QueryVectors] = {}
        self._words: dict[str, int] = {}

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode one query."""
        (query,) = queries
        if query not in self._queries:
            self._queries[query] = self._encoder.encode_queries(queries)
        return self._queries[query]

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        n = 0
        for word in text.split():
            count = self._words.get(word)
            if count is None:
                count = self._words[word] = self._encoder.count_tokens(word)
            n += count
        return n

    def check(self, text: str) -> None:
        """Stop if counting word by word is not counting the text."""
        if self.count_tokens(text) != self._encoder.count_tokens(text):
            raise ValueError("tokens of a text are not those of its words; count texts whole")


def parser(what: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--data`."""
    made = argparse.ArgumentParser(description=what)
    named = os.environ.get("CANOPY_DATA")
    made.add_argument(
        "--data",
        type=Path,
        default=Path(named) if named else None,
        help="folder with a folder of official files per benchmark (default: CANOPY_DATA)",
    )
    return made


def require(data: Path | None, *names: str) -> Path:
    """Return the data folder; without it, say so and end the script in peace."""
    missing = [name for name in names if data is None or not (data / name).is_dir()]
    if data is None or missing:
        where = "CANOPY_DATA and --data name no folder" if data is None else f"not in {data}"
        print(
            f"skipped: needs samples of {', '.join(missing)} ({where}); its result stays as it is"
        )
        sys.exit(0)
    return data


def read(data: Path, names: Sequence[str] = BENCHMARKS) -> Samples:
    """Read, choose and encode; vectors are kept in `benchmarks/.cache` for the next script."""
    encoder = named_encoder("minilm")
    chosen: list[tuple[str, str, Question]] = []
    items: dict[str, Item] = {}
    for name in names:
        loaded = load(name, data / name, DefaultSplitter())
        own = list(_chosen(name, loaded))
        chosen += [(name, part, question) for part, question in own]
        wanted = {span.item_id for _, question in own for span in question.gold}
        items.update((item.id, item) for item in _pool(loaded, wanted, MOST_OTHERS.get(name)))
    vectors = encoded(list(items.values()), "minilm")
    asked = [
        Asked(benchmark=name, part=part, question=question, gold=gold)
        for name, part, question in chosen
        if (gold := _gold(question, items))
    ]
    store = PoolStore(encoder.fingerprint, list(items.values()), vectors)
    return Samples(asked=tuple(asked), store=store, encoder=RememberingEncoder(encoder))


def _chosen(name: str, loaded: Loaded) -> Iterator[tuple[str, Question]]:
    split = standard_split(loaded)
    by_id = {question.id: question for question in loaded.questions}
    for question_id in split.test:
        yield "test", by_id[question_id]
    development = sorted((*split.train, *split.validation), key=_digest)
    for question_id in development[: MOST_DEVELOPMENT.get(name)]:
        yield "development", by_id[question_id]


def _pool(loaded: Loaded, gold: set[str], most_others: int | None) -> Iterator[Item]:
    n_others = 0
    for item in loaded.items():
        if item.id not in gold:
            n_others += 1
            if most_others is not None and n_others > most_others:
                continue
        yield item


def _gold(question: Question, items: dict[str, Item]) -> dict[str, frozenset[int]]:
    spans: dict[str, list[tuple[float, float]]] = {}
    for span in question.gold:
        if span.item_id in items:
            spans.setdefault(span.item_id, []).append((span.start, span.stop))
    found = {item_id: gold_leaves(items[item_id].nodes, own) for item_id, own in spans.items()}
    return {item_id: ends for item_id, ends in found.items() if ends}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def rounded(interval: Interval, digits: int = 4) -> dict[str, float | int]:
    """Return an interval as JSON."""
    return {
        "value": round(interval.value, digits),
        "low": round(interval.low, digits),
        "high": round(interval.high, digits),
        "n": interval.n,
    }


def machine() -> dict[str, Any]:
    """Return where and when on a busy machine it was measured."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def write(name: str, result: dict[str, Any]) -> None:
    """Write a result, innermost objects on one line: they are what one reads as one."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    text = re.sub(r"\{[^{}\[\]]*\}", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote benchmarks/results/{name}.json")
