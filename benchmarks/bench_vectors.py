"""What vectors of items and nodes cost in bytes and in quality, by how they are stored.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/bench_vectors.py

The items and questions are those of `quality.py` (its hard pool). Every way to store is put in the
place of the encoder's float32 vectors; retrieval, selection and decisions are measured again on the
same questions, and the differences have paired 95 % intervals. Bytes are set against the text of
the items in UTF-8: a passage's text, a table's caption, header and cells with one separator each.
The ways of the setting `index.vectors` are what the store does; the others are arithmetic of this
script. `--small` looks at a few questions, to try the script out. Writes
`benchmarks/results/vectors.json`.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import quality
import samples
from numpy.typing import NDArray
from vectors import CACHE, encoded

from canopy_rag.core import codec, vectors
from canopy_rag.core.coding import Precision, dense, stored
from canopy_rag.core.protocols import Encoder, Entry
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.core.vectors import ItemVectors, QueryVectors
from canopy_rag.datasets.splits import Part
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.evaluation.bootstrap import difference_interval, ratio_difference_interval
from canopy_rag.evaluation.diagnostics import decisions, retrieval_recall
from canopy_rag.evaluation.judged import Judged, Pool, judge
from canopy_rag.evaluation.selections import by_rule
from canopy_rag.store import LanceStore

K = 10
PARTS: tuple[Part, ...] = ("validation", "test")
SCOPES = {"all": quality.BENCHMARKS, "tables": ("ottqa", "tatqa")}
Floats = NDArray[np.float32]
PRECISIONS: tuple[Precision, ...] = ("float16", "int8", "int4")


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to store vectors."""

    name: str
    rows: Callable[[Floats], Floats]
    """What comes back of the rows of nodes."""
    row_bytes: float
    items: Callable[[Floats], Floats]
    """What comes back of the vectors of items."""
    item_bytes: float
    small_bytes: int = 4
    """Of a row's weight and of a node's norm each."""


def to_float16(matrix: Floats) -> Floats:
    return matrix.astype(np.float16).astype(np.float32)


def to_codes(precision: Any) -> Callable[[Floats], Floats]:
    return lambda matrix: dense(stored(matrix, precision))


def to_levels(bits: int, block: int) -> Callable[[Floats], Floats]:
    """Round to 2 ** bits levels, of both signs alike; a scale in float16 for each block."""

    def rounded(matrix: Floats) -> Floats:
        half = 2 ** (bits - 1)
        blocks = matrix.reshape(-1, block)
        if bits == 1:
            scales = np.abs(blocks).mean(axis=1, keepdims=True)
            return to_float16(scales) * np.where(blocks < 0, -1, 1).reshape(-1, block)
        scales = to_float16(np.abs(blocks).max(axis=1, keepdims=True) / (half - 0.5))
        levels = np.floor(blocks / np.maximum(scales, 1e-12)).clip(-half, half - 1) + 0.5
        return np.asarray(levels * scales, np.float32).reshape(matrix.shape)

    return lambda matrix: np.asarray(rounded(matrix).reshape(matrix.shape), np.float32)


def projected(axes: Floats, back: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Keep the coordinates along some axes, stored in some way."""
    return lambda matrix: np.asarray(back(matrix @ axes) @ axes.T, np.float32)


def ways(rows: Floats) -> list[Way]:
    """Return what is compared, the reference first, then the settings."""
    dim = rows.shape[1]
    scales = 2 * dim / 64
    _, _, axes = np.linalg.svd(rows[::7], full_matrices=False)
    half, cut = axes[: dim // 2].T, np.eye(dim, dim // 2, dtype=np.float32)
    f16 = {"items": to_float16, "item_bytes": 2 * dim}
    int8 = {"items": to_codes("int8"), "item_bytes": dim + scales}

    def same(matrix: Floats) -> Floats:
        return matrix

    one_scale = to_levels(4, dim)
    return [
        Way(name="float32", rows=same, row_bytes=4 * dim, items=same, item_bytes=4 * dim),
        Way(name="float16", rows=to_float16, row_bytes=2 * dim, **f16),
        Way(name="int8", rows=to_codes("int8"), row_bytes=dim + scales, **f16),
        Way(name="int4", rows=to_codes("int4"), row_bytes=dim / 2 + scales, **f16),
        Way(name="format 2", rows=to_float16, row_bytes=2 * dim, items=same, item_bytes=4 * dim),
        Way(name="int4, items int8", rows=to_codes("int4"), row_bytes=dim / 2 + scales, **int8),
        Way(name="int4, one scale a row", rows=one_scale, row_bytes=dim / 2 + 2, **f16),
        Way(name="3 bits", rows=to_levels(3, 64), row_bytes=dim * 3 / 8 + scales, **f16),
        Way(
            name="2 bits, items int8",
            rows=to_levels(2, 32),
            row_bytes=dim / 4 + 2 * scales,
            small_bytes=2,
            **int8,
        ),
        Way(
            name="1 bit, items int8",
            rows=to_levels(1, dim),
            row_bytes=dim / 8 + 2,
            small_bytes=2,
            **int8,
        ),
        Way(
            name="half of the principal axes, int8",
            rows=projected(half, to_codes("int8")),
            row_bytes=dim / 2 + scales / 2,
            **f16,
        ),
        Way(
            name="half of the entries, int8",
            rows=projected(cut, to_codes("int8")),
            row_bytes=dim / 2 + scales / 2,
            **f16,
        ),
    ]


class OnceEncoder:
    """Encodes every group of queries once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[tuple[str, ...], QueryVectors] = {}

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        key = tuple(queries)
        if key not in self._known:
            self._known[key] = self._encoder.encode_queries(queries)
        return self._known[key]


@dataclass(kw_only=True)
class Bench:
    """The items with their vectors of before."""

    data: quality.Data
    own: list[ItemVectors]
    encoder: Any

    def __post_init__(self) -> None:
        self.borders = np.cumsum([0, *(len(each.nodes.rows) for each in self.own)])
        self.rows = np.concatenate([dense(each.nodes.rows) for each in self.own])
        self.items = np.stack([each.item for each in self.own])

    def pool(self, rows: Floats, items: Floats) -> Pool:
        """Return the pool with other rows and item vectors."""
        parts = zip(self.own, self.borders[:-1], self.borders[1:], strict=True)
        return Pool(
            items=tuple(self.data.items),
            vectors=tuple(replace(own.nodes, rows=rows[begin:end]) for own, begin, end in parts),
            matrix=items,
            positions={item.id: place for place, item in enumerate(self.data.items)},
        )

    def judged(self, pool: Pool, part: Part) -> list[Judged]:
        """Let all questions of a part search."""
        return [
            each
            for name in quality.BENCHMARKS
            for each in judge(name, self.data.questions[part, name], pool, self.encoder, K)
        ]

    def read_in_full(self) -> int:
        """Encode what questions find and what they want once more, rows in float32."""
        pool = self.pool(self.rows, self.items)
        wanted = {
            item.id
            for part in PARTS
            for each in self.judged(pool, part)
            for item in (*each.gold_items, *each.found_items)
        }
        places = [place for place, item in enumerate(self.data.items) if item.id in wanted]
        places.sort(key=lambda place: int(self.borders[place + 1] - self.borders[place]))
        for place, rows in zip(
            places, in_full([self.data.items[each] for each in places]), strict=True
        ):
            self.rows[self.borders[place] : self.borders[place + 1]] = rows
        return len(places)


def in_full(items: Sequence[Item]) -> list[Floats]:
    """Return the rows of items as the encoder computes them, from the cache if it has them."""
    model = named_encoder("minilm")
    digest = hashlib.sha256(repr(model.fingerprint).encode())
    for item in items:
        digest.update(codec.dumps(item).encode("utf-8", "surrogatepass"))
    path = CACHE / f"{digest.hexdigest()[:24]}-float32.npz"
    found: list[Floats] = []
    if path.exists():
        with np.load(path) as file:
            return np.split(file["rows"], file["borders"])
    with mock.patch.object(vectors, "pool", functools.partial(vectors.pool, dtype=np.float32)):
        for begin in range(0, len(items), 64):
            group = model.encode_items(items[begin : begin + 64])
            found += [dense(each.nodes.rows) for each in group]
    borders = np.cumsum([len(each) for each in found])[:-1]
    np.savez(path, rows=np.concatenate(found), borders=borders)
    return found


def measured(judged: Sequence[Judged]) -> dict[str, NDArray[np.float64]]:
    """Return figures of every question."""
    columns: dict[str, list[float]] = {}
    for each in judged:
        decided = decisions([each])
        row = {
            "items_retrieved": retrieval_recall(each, K),
            "right": sum(one.correct for one in decided),
            "decisions": len(decided),
        }
        for rule in ("set", "paper"):
            kept = by_rule(rule)(each.found_scored)
            shown = zip(each.found_items, kept, strict=True)
            n_kept = sum(len(each.gold.get(item.id, frozenset()) & ends) for item, ends in shown)
            row[f"recall_{rule}"] = n_kept / each.n_gold
            row[f"leaves_{rule}"] = sum(map(len, kept))
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {name: np.array(values, np.float64) for name, values in columns.items()}


def compared(
    own: dict[str, NDArray[np.float64]], reference: dict[str, NDArray[np.float64]], among: Any
) -> dict[str, Any]:
    """Return the figures of some questions less those of the reference."""

    def difference(name: str) -> dict[str, Any]:
        return samples.rounded(difference_interval(own[name][among], reference[name][among]))

    pairs = [(each["right"][among], each["decisions"][among]) for each in (own, reference)]
    return {
        "n": int(np.count_nonzero(among)),
        "items_retrieved": difference("items_retrieved"),
        "recall_set": difference("recall_set"),
        "recall_paper": difference("recall_paper"),
        "decision_accuracy": samples.rounded(ratio_difference_interval(pairs[0], pairs[1])),
        "leaves_set": round(float(own["leaves_set"][among].mean()), 2),
        "value": {
            "items_retrieved": round(float(own["items_retrieved"][among].mean()), 4),
            "recall_set": round(float(own["recall_set"][among].mean()), 4),
            "decision_accuracy": round(float(pairs[0][0].sum() / pairs[0][1].sum()), 4),
        },
    }


def text_bytes(item: Item) -> int:
    """Return the size of what an item shows, in UTF-8."""
    payload = item.payload
    if isinstance(payload, TextPayload):
        return len(payload.text.encode("utf-8", "surrogatepass"))
    if isinstance(payload, TablePayload):
        lines = [payload.caption, *(",".join(row) for row in (payload.header, *payload.rows))]
        return len("\n".join(lines).encode("utf-8", "surrogatepass"))
    raise ValueError(f"{item.modality} items have no text of their own")


def sizes(bench: Bench) -> dict[str, dict[str, float]]:
    """Return how much there is of everything, by modality."""
    found: dict[str, dict[str, float]] = {}
    for item, own in zip(bench.data.items, bench.own, strict=True):
        assert own.nodes.norms is not None
        counts = {
            "items": 1,
            "text_bytes": text_bytes(item),
            "nodes": len(own.nodes.norms),
            "rows": len(own.nodes.rows),
            "tokens": 0 if own.nodes.tokens is None else len(own.nodes.tokens),
        }
        for modality in ("all", item.modality):
            total = found.setdefault(modality, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                total[name] += count
    return found


def times_text(way: Way, size: dict[str, float]) -> dict[str, float]:
    """Return bytes of each kind as a multiple of the text's."""
    parts = {
        "item": way.item_bytes * size["items"],
        "rows": way.row_bytes * size["rows"],
        "weights_and_norms": way.small_bytes * (size["rows"] + size["nodes"]),
    }
    shares = {name: round(value / size["text_bytes"], 3) for name, value in parts.items()}
    return {
        "vectors": round(sum(parts.values()) / size["text_bytes"], 2),
        **shares,
        "tokens": round(2 * size["tokens"] / size["text_bytes"], 3),
    }


def on_disk(bench: Bench, n_items: int) -> dict[str, Any]:
    """Return bytes of whole indices of some items, by the setting."""
    places = range(0, len(bench.own), max(1, len(bench.own) // n_items))
    entries = [
        Entry(item=bench.data.items[place], vectors=bench.own[place], source_sha256="0" * 64)
        for place in places
    ]
    found: dict[str, Any] = {
        "items": len(entries),
        "text_bytes": sum(text_bytes(entry.item) for entry in entries),
    }
    for precision in PRECISIONS:
        with tempfile.TemporaryDirectory() as folder:
            fingerprint = named_encoder("minilm").fingerprint
            store = LanceStore.create(Path(folder) / "index", fingerprint, vectors=precision)
            store.replace({entry.item.source.uri for entry in entries}, entries)
            store.compact()
            found[precision] = store.info()["bytes"]
    return found


def few(data: quality.Data) -> None:
    """Leave some questions and their items, to try the script out."""
    for key in data.questions:
        data.questions[key] = data.questions[key][:20]
    gold = {s.item_id for own in data.questions.values() for each in own for s in each.gold}
    data.items = [item for n, item in enumerate(data.items) if item.id in gold or not n % 100]


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--processes", type=int, default=1, help="that encode side by side")
    parser.add_argument("--small", action="store_true", help="few questions; writes nothing")
    options = parser.parse_args()
    folder = samples.require(options.data, *quality.BENCHMARKS, quality.DISTRACTORS)
    data = quality.read(folder, PARTS)
    if options.small:
        few(data)
    bench = Bench(
        data=data,
        own=encoded(data.items, "minilm", options.processes),
        encoder=OnceEncoder(named_encoder("minilm")),
    )
    size = sizes(bench)
    with data.timed("encode"):
        n_in_full = bench.read_in_full()
    body: dict[str, Any] = {
        "what": "bytes and quality of vectors, by how they are stored",
        "encoder": quality.fingerprint("minilm"),
        "k": K,
        "interval": "95 %, paired bootstrap by question, 10,000 resamples",
        "items": size,
        "items_in_float32": n_in_full,
        "default": "int4",
        "settings": PRECISIONS,
        "ways": {},
    }
    references: dict[str, dict[str, NDArray[np.float64]]] = {}
    for way in ways(bench.rows):
        own: dict[str, Any] = {
            "times_text": {name: times_text(way, each) for name, each in size.items()}
        }
        pool = bench.pool(way.rows(bench.rows), way.items(bench.items))
        for part in PARTS:
            judged = bench.judged(pool, part)
            figures = measured(judged)
            reference = references.setdefault(part, figures)
            names = np.array([each.benchmark for each in judged])
            own[part] = {
                scope: compared(figures, reference, np.isin(names, list(own_names)))
                for scope, own_names in SCOPES.items()
            }
        body["ways"][way.name] = own
        tell(way.name, own)
    body["on_disk"] = on_disk(bench, 200 if options.small else 4_000)
    body |= samples.machine()
    if not options.small:
        samples.write("vectors", body)


def tell(name: str, own: dict[str, Any]) -> None:
    """Print what matters most."""
    found = own["test"]["all"]
    texts = [
        f"{key} {100 * found[key]['value']:+.2f} ({100 * found[key]['low']:+.2f} to "
        f"{100 * found[key]['high']:+.2f})"
        for key in ("items_retrieved", "recall_set", "decision_accuracy")
    ]
    print(f"{name:34} {own['times_text']['all']['vectors']:5.2f} x  {', '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
