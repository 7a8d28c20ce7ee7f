"""What lies between hits and what is kept of them, against the floor and the query's embedding.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/bench_refine.py

Questions of the test parts have their nearest items, trees and stored vectors in memory. Timed, one
after the other for each question, in many rounds: reading the bytes of the vectors once (`copy`,
the floor that memory sets), adding them up as numpy does (`sum`), the similarities of all nodes,
similarities and selection together, and the embedding of the query by the default encoder on one
thread. Reported is the median over questions of each question's median, and ratios of those. Rows
in each precision of the setting `index.vectors` are compared in the same rounds. Writes
`benchmarks/results/refine.json`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import samples
from numpy.typing import NDArray

from canopy_rag.core.coding import CodedRows, Precision, joined, stored
from canopy_rag.core.lexical import node_similarities
from canopy_rag.core.protocols import Found
from canopy_rag.core.select import select
from canopy_rag.core.vectors import NodeQuery
from canopy_rag.encoders.registry import encoder as named_encoder

PRECISIONS: tuple[Precision, ...] = ("float16", "int8", "int4")
HITS = (10, 100, 1000)


def arrays(found: Sequence[Found]) -> list[NDArray[Any]]:
    """Return the vectors of hits as whole arrays, as they lie in memory."""
    rows = joined([each.nodes.rows for each in found])
    if isinstance(rows, CodedRows):
        return [rows.codes, rows.scales]
    return [rows.astype(np.float16)]


def tasks(found: Sequence[Found], query: NodeQuery) -> dict[str, Callable[[], object]]:
    """Return what is timed for one question."""
    items = [(each.item.nodes, each.nodes) for each in found]
    whole = arrays(found)
    room = [np.empty_like(each) for each in whole]

    def copy() -> None:
        for target, source in zip(room, whole, strict=True):
            np.copyto(target, source)

    def selected() -> object:
        values = node_similarities(items, query)
        pairs = zip(items, values, strict=True)
        return select([(nodes, own) for (nodes, _), own in pairs], "set")

    return {
        "copy": copy,
        "sum": lambda: [each.sum(dtype=np.float32) for each in whole],
        "similarities": lambda: node_similarities(items, query),
        "refine": selected,
    }


def timed(task: Callable[[], object]) -> float:
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


def measure(work: Sequence[dict[str, Callable[[], object]]], n_rounds: int) -> dict[str, float]:
    """Return the median over questions of each question's median, in microseconds, by task."""
    names = list(work[0])
    spent: dict[str, list[list[float]]] = {name: [[] for _ in work] for name in names}
    for own in work:
        for task in own.values():
            task()
    for _ in range(n_rounds):
        for place, own in enumerate(work):
            for name in names:
                spent[name][place].append(timed(own[name]))
    return {
        name: round(1e6 * median(median(each) for each in own), 1) for name, own in spent.items()
    }


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    read = samples.read(samples.require(options.data, *samples.BENCHMARKS))
    encoder = named_encoder("minilm", threads=1)
    asked = read.part("test", samples.BENCHMARKS)
    asked = asked[:: max(1, len(asked) // options.questions)][: options.questions]
    texts = [each.question.text for each in asked]
    queries = [encoder.encode_queries([text]) for text in texts]
    body: dict[str, Any] = {
        "what": "from hits to what is kept, against reading the vectors and embedding the query",
        "questions": len(asked),
        "rounds": options.rounds,
        "unit": "microseconds, median over questions of each one's median",
        "hits": {},
    }
    for n_hits in HITS:
        few = queries if n_hits <= 10 else queries[: max(1, len(queries) * 10 // n_hits)]
        found = [read.store.search(each.retrieval[0], n_hits) for each in few]
        work: list[dict[str, Callable[[], object]]] = [{} for _ in few]
        for precision in PRECISIONS:
            for place, hits in enumerate(found):
                kept = [
                    replace(
                        each, nodes=replace(each.nodes, rows=stored(each.nodes.rows, precision))
                    )
                    for each in hits
                ]
                for name, task in tasks(kept, few[place].of(0)).items():
                    work[place][f"{precision} {name}"] = task
        for place, text in enumerate(texts[: len(few)]):
            work[place]["query embedding"] = lambda text=text: encoder.encode_queries([text])
        spent = measure(work, options.rounds)
        embedding = spent.pop("query embedding")
        row: dict[str, Any] = {
            "questions": len(few),
            "leaf_rows": round(float(np.mean([sum(len(e.nodes.rows) for e in o) for o in found]))),
            "query_embedding": embedding,
        }
        for precision in PRECISIONS:
            own = {name: spent[f"{precision} {name}"] for name in ("copy", "sum", "similarities")}
            refine = spent[f"{precision} refine"]
            row[precision] = {
                **own,
                "refine": refine,
                "refine_to_copy": round(refine / own["copy"], 1),
                "similarities_to_copy": round(own["similarities"] / own["copy"], 1),
                "refine_to_embedding": round(refine / embedding, 3),
            }
        body["hits"][str(n_hits)] = row
        print(n_hits, row, flush=True)
    samples.write("refine", body | samples.machine())


if __name__ == "__main__":
    main()
