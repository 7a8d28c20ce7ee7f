"""A made-up corpus of any size whose neighbours are as hard to find as those of real items.

Vectors of items come from real ones: the item vectors of the benchmarks' samples by the default
encoder. A made-up vector is a real one moved by the scaled difference of two others, `s / sqrt(2)`
times, with `s` drawn evenly from 0.4 to 1 and the sum scaled to length one: noise with the real
vectors' own directions, of a size at which similarities of a query's nearest items and their local
dimension are those of as many real items (the result says both). Queries are real questions as they
are. Every item has 12 nodes, eight leaves in three groups; one in ten is a table. Texts, trees and
rows of nodes repeat after `TEMPLATES` items; ids, sources and vectors of items do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import samples
from bench_search import sentences
from numpy.typing import NDArray

from canopy_rag.core.protocols import Entry
from canopy_rag.core.trees import table_tree, text_tree
from canopy_rag.core.types import Item, Source, TablePayload, TextPayload, item_id
from canopy_rag.core.vectors import ItemVectors, pool
from canopy_rag.store.rows import Layout, arrow, fixed, schema, to_batch

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS = (3, 3, 2)
"""Leaves of each group: 1 + 3 + 8 = 12 nodes."""
PER_SOURCE = 10
TEMPLATES = 2_000
CHUNK = 10_000
"""Items made at a time; whole numbers of templates."""
SEED = 9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Real:
    """What the made-up corpus comes from."""

    items: NDArray[np.float32]
    """Vectors of items, `(n, dim)`."""
    queries: NDArray[np.float32]
    """Vectors of questions, `(n_queries, dim)`."""
    questions: list[str]


def real(data: Path, n_queries: int) -> Real:
    """Return real items, and evenly chosen questions."""
    read = samples.read(data)
    step = max(1, len(read.asked) // n_queries)
    questions = [each.question.text for each in read.asked[::step]][:n_queries]
    vectors = [read.encoder.encode_queries([text]).retrieval[0] for text in questions]
    return Real(items=read.store.vectors, queries=np.stack(vectors), questions=questions)


def made_vectors(items: NDArray[np.float32], n_items: int) -> Iterator[NDArray[np.float32]]:
    """Yield unit vectors, at most `CHUNK` at a time; the first ones are those of any size."""
    rng = np.random.default_rng(SEED)
    for begin in range(0, n_items, CHUNK):
        base, plus, minus = rng.integers(0, len(items), (3, CHUNK))
        size = rng.uniform(0.4, 1.0, (CHUNK, 1)).astype(np.float32) / np.float32(2**0.5)
        vectors = items[base] + size * (items[plus] - items[minus])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield vectors[: n_items - begin]


def hardness(vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> dict[str, float]:
    """Return mean similarities of the 1st, 10th and 100th item and the median local dimension.

    The dimension is the maximum-likelihood estimate from the distances of the 50 nearest (Levina
    and Bickel, NIPS 2004).
    """
    near = -np.sort(-(queries @ vectors.T), axis=1)[:, :100]
    distances = np.sqrt(np.maximum(2 - 2 * near[:, :50], 1e-9))
    dimension = -1 / np.log(distances[:, :-1] / distances[:, -1:]).mean(axis=1)
    return {
        "1st": round(float(near[:, 0].mean()), 3),
        "10th": round(float(near[:, 9].mean()), 3),
        "100th": round(float(near[:, 99].mean()), 3),
        "local_dimension": round(float(np.median(dimension)), 1),
    }


def name_of(number: int) -> tuple[str, str]:
    """Return source and id of an item."""
    uri = f"made-up/{number // PER_SOURCE}.txt"
    return uri, item_id(uri, number % PER_SOURCE)


def batches(
    vectors: Iterator[NDArray[np.float32]], layout: Layout, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a table for vectors of items, the first of which has the number `first`."""
    pa = arrow()
    template = to_batch(_templates(layout.dim), layout)
    many = pa.Table.from_batches([template] * (CHUNK // TEMPLATES))
    whole = many.combine_chunks().to_batches()[0]
    for chunk in vectors:
        numbers = range(first, first + len(chunk))
        names = [name_of(number) for number in numbers]
        own = {
            "id": pa.array([one for _, one in names]),
            "uri": pa.array([uri for uri, _ in names]),
            "ordinal": pa.array([number % PER_SOURCE for number in numbers], pa.int32()),
            "source": pa.array(
                [
                    f'{{"uri":"{uri}","ordinal":{number % PER_SOURCE}}}'
                    for number, (uri, _) in zip(numbers, names, strict=True)
                ]
            ),
            "vector": fixed(chunk.astype(np.float16)),
        }
        part = whole.slice(0, len(chunk))
        columns = [own.get(name, part.column(name)) for name in whole.schema.names]
        yield pa.record_batch(columns, schema=schema(layout))
        first += len(chunk)


def _templates(dim: int) -> list[Entry]:
    rng = np.random.default_rng(SEED)
    n_leaves = sum(GROUPS)
    topics = rng.normal(size=(200, dim)).astype(np.float32)
    made = []
    for number in range(TEMPLATES):
        leaves = topics[number % 200] + rng.normal(size=(n_leaves, dim)).astype(np.float32)
        uri, identity = name_of(number)
        source = Source(uri=uri, ordinal=number % PER_SOURCE)
        item = _item(identity, source, sentences(rng, n_leaves), number)
        nodes = pool(item.nodes, leaves, [26] * n_leaves, topics[number % 200], 4)
        nodes = replace(nodes, tokens=rng.integers(1_000, 30_000, 26 * n_leaves).astype(np.uint16))
        vectors = ItemVectors(item=np.zeros(dim, np.float32), nodes=nodes)
        made.append(Entry(item=item, vectors=vectors, source_sha256="0" * 64))
    return made


def _item(identity: str, source: Source, parts: list[str], number: int) -> Item:
    title = f"Made-up document {number}"
    if number % 10 == 0:
        rows = tuple(tuple(part.split()[:8]) for part in parts)
        header = tuple(f"column {n}" for n in range(8))
        return Item(
            id=identity,
            modality="table",
            title=title,
            payload=TablePayload(header=header, rows=rows),
            nodes=table_tree(len(rows), max(GROUPS)),
            source=source,
        )
    starts = np.cumsum([0, *(len(part) + 1 for part in parts)]).tolist()
    spans = [(start, start + len(part)) for start, part in zip(starts, parts, strict=False)]
    borders = np.cumsum([0, *GROUPS]).tolist()
    paragraphs = [spans[a:b] for a, b in pairwise(borders)]
    text = " ".join(parts)
    return Item(
        id=identity,
        modality="text",
        title=title,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), paragraphs, (), max(GROUPS)),
        source=source,
    )
