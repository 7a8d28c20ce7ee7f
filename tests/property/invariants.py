"""What holds from a file to the evidence that is shown of it, and how often it was looked at."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.api import Compressor, Index
from canopy_rag.config import Config, EncoderConfig, IndexConfig, IngestConfig, SelectConfig
from canopy_rag.core.evidence import Evidence, Fragment
from canopy_rag.core.trees import check_tree, leaves
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.core.vectors import NodeVectors
from canopy_rag.pipeline.compressor import Explained
from tests.property import corpora
from tests.property.corpora import Written

ELSEWHERE = Path(__file__).with_name("elsewhere.py")
CLOSE = 4e-3
"""Similarities of the same node by vectors in half precision and in single precision."""


@dataclass(slots=True)
class Tally:
    """Checks made and what did not hold, by invariant."""

    checks: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def check(self, name: str, holds: bool, *about: object) -> None:
        """Count a check."""
        self.checks[name] += 1
        if not holds:
            self.violations.append(f"{name}: {' '.join(map(repr, about))}"[:600])


@dataclass(slots=True, kw_only=True)
class Case:
    """A folder of files, and the index that was made of it."""

    files: dict[str, Written]
    docs: Path
    index: Index
    items: dict[str, Item]
    tally: Tally


def config(encoder: str = "hashing", *, target_chars: int = 300) -> Config:
    """Return settings: small items, so that files have several; vectors at their most exact."""
    return Config(
        encoder=EncoderConfig(name=encoder),
        index=IndexConfig(vectors="float16"),
        ingest=IngestConfig(target_chars=target_chars),
    )


def case(dice: random.Random, place: Path, settings: Config, tally: Tally) -> Case:
    """Make files and index them."""
    files = corpora.folder(dice)
    corpora.save(files, place / "docs")
    index = Index.open(place / "index", create=True, config=settings)
    report = index.add(place / "docs")
    tally.check("every file is read", not report.failed, report.failed)
    return Case(
        files={each.name: each for each in files},
        docs=place / "docs",
        index=index,
        items={item.id: item for item in all_items(index)},
        tally=tally,
    )


def all_items(index: Index) -> list[Item]:
    """Return all items of an index, by id."""
    ids = [
        item_id
        for table in index.store._catalog.tables().values()
        for item_id in table.rows(["id"]).column("id").to_pylist()
    ]
    return index.store.get(sorted(ids))


def check_items(case: Case) -> None:
    """Every item is what stands in its file, and nothing of a table or document is missing."""
    tally = case.tally
    of_file: dict[str, list[Item]] = {}
    for item in case.items.values():
        of_file.setdefault(item.source.uri, []).append(item)
        check_tree(item.nodes)
        if isinstance(item.payload, TextPayload):
            outside = [node for node in item.nodes if node.stop > len(item.payload.text)]
            tally.check("nodes lie inside their item", not outside, item.id, outside)
    for name, file in case.files.items():
        own = [of_file[uri] for uri in of_file if Path(uri).name == name]
        tally.check("every file has items", len(own) == 1, name)
        if own:
            _check_file(file, sorted(own[0], key=lambda item: item.source.ordinal), tally)


def check_search(case: Case, query: str, dice: random.Random) -> Evidence:
    """Search: what is shown is verbatim, in order, once, within the budget; nothing is lost."""
    tally = case.tally
    k = dice.randint(1, len(case.items) + 2)
    selection = SelectConfig(
        select=dice.choice(["set", "paper"]),
        budget=dice.choice([None, dice.randint(1, 30), dice.randint(20, 400)]),
        cap=dice.choice(["margin", "tail"]),
        min_tokens=dice.choice([0, 40]),
    )
    evidence = case.index.search(query, k=k, selection=selection)
    asked = (query, k, selection)
    tally.check("something is shown", bool(evidence.entries), asked)
    for fragment in evidence.fragments:
        item = case.items[fragment.item_id]
        file = case.files[Path(item.source.uri).name]
        cut = any(entry.cut for entry in evidence.entries if entry.item.id == item.id)
        tally.check("verbatim at its place", _is_there(fragment, item, file, cut), asked, fragment)
    _check_order(evidence, tally, asked)
    _check_headers(evidence, tally, asked)
    own = case.index.encoder.count_tokens
    tally.check("tokens are those of the text", evidence.tokens == own(evidence.prompt_text), asked)
    tally.check("never longer than the whole", evidence.tokens <= evidence.tokens_full, asked)
    if selection.budget is not None:
        # One character is shown even where it alone is over the budget, and told.
        is_least = len(evidence.prompt_text) == 1 and bool(evidence.fallbacks)
        tally.check("within the budget", evidence.tokens <= selection.budget or is_least, asked)
    _check_whole(case, query, k, selection, evidence)
    again = case.index.search(query, k=k, selection=selection)
    tally.check("the same again", again.to_dict() == evidence.to_dict(), asked)
    return evidence


def check_all(
    seed: int,
    tally: Tally,
    encoder: str = "hashing",
    *,
    n_queries: int = 4,
    elsewhere: bool = False,
) -> float:
    """Make a random folder and check everything; return the widest gap to another process.

    Args:
        seed: Of the folder, the questions and the settings.
        tally: Is counted up.
        encoder: Name of the encoder.
        n_queries: Searches.
        elsewhere: Index and search in another process, too.
    """
    dice = random.Random(seed)
    settings = config(encoder, target_chars=dice.choice([120, 300, 1200]))
    with tempfile.TemporaryDirectory() as folder:
        made = case(dice, Path(folder), settings, tally)
        check_items(made)
        queries = [corpora.question(dice, list(made.files.values())) for _ in range(n_queries)]
        for query in queries:
            check_search(made, query, dice)
        check_compress(made, queries[0], settings)
        gap = check_processes(made, Path(folder), settings, queries) if elsewhere else 0.0
        check_alone(made, Path(folder), settings)
    return gap


def check_alone(case: Case, place: Path, settings: Config) -> None:
    """An index of the same files and one more has the same items with the same vectors."""
    extra = Written("zz extra.txt", b"Something else stands here. It is of no use.")
    corpora.save([extra], case.docs)
    other = Index.open(place / "more", create=True, config=settings)
    # The other way round: files in another order, other neighbours in every batch.
    for path in sorted(case.docs.iterdir(), reverse=True):
        other.add(path)
    (case.docs / extra.name).unlink()
    before = case.index.store.vectors(case.items)
    for item_id, (item, vectors) in other.store.vectors(list(case.items)).items():
        old_item, old = before[item_id]
        case.tally.check("an item is not changed by others", item == old_item, item_id)
        gap = float(np.abs(_rows(vectors) - _rows(old)).max())
        case.tally.check("nor are its vectors", gap <= CLOSE, item_id, gap)
    ids = {item.id for item in all_items(other)}
    case.tally.check("nor is one lost", case.items.keys() <= ids, case.items.keys() - ids)


def check_processes(case: Case, place: Path, settings: Config, queries: Sequence[str]) -> float:
    """An index made and searched in another process shows the same; return the widest gap.

    There, batches are small, files are parsed by two processes, matrix products take another number
    of threads, and hashes of strings are others. What as good as ties may go either way.
    """
    widest = 0.0
    told = _elsewhere(place / "elsewhere", case.docs, settings, queries)
    for query, there in zip(queries, told, strict=True):
        selection = SelectConfig(select="paper", min_tokens=0)
        here = case.index.explain(query, k=len(case.items), selection=selection)
        own = {each.found.item.id: each.similarities for each in here}
        other = {name: np.asarray(values, np.float32) for name, values in there["nodes"].items()}
        case.tally.check("other processes find the same items", own.keys() == other.keys(), query)
        gap = max(float(np.abs(own[name] - other[name]).max()) for name in own)
        case.tally.check("other processes compare alike", gap <= CLOSE, query, gap)
        widest = max(widest, gap)
        if not any(_is_close_call(each, gap) for each in here):
            shown = case.index.search(query, k=len(case.items), selection=selection)
            same = shown.text == there["text"]
            case.tally.check("other processes show the same", same, query)
    return widest


def _elsewhere(place: Path, docs: Path, settings: Config, queries: Sequence[str]) -> list[Any]:
    told = (place, docs, settings.encoder.name, settings.ingest.target_chars)
    done = subprocess.run(
        [sys.executable, str(ELSEWHERE), *map(str, told)],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "3"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[Any] = json.loads(done.stdout)
    return found


def check_compress(case: Case, query: str, settings: Config) -> None:
    """The items handed over as documents are shown as the index shows them."""
    selection = SelectConfig(select="paper", min_tokens=0)
    k = len(case.items)
    by_index = case.index.explain(query, k=k, selection=selection)
    items = [each.found.item for each in by_index]
    compressor = Compressor(case.index.encoder, config=replace(settings, select=selection))
    by_hand = compressor.explain(query, items)
    alike = True
    for one, other in zip(by_index, by_hand, strict=True):
        gap = float(np.abs(one.similarities - other.similarities).max())
        case.tally.check("compress compares alike", gap <= CLOSE, query, gap)
        if _is_close_call(one, gap):
            alike = False
            continue
        same = one.refinement == other.refinement
        case.tally.check("compress keeps the same", same, query, one.found.item.id)
    if alike:
        shown = case.index.search(query, k=k, selection=selection).text
        same = compressor.compress(query, items).text == shown
        case.tally.check("compress shows the same", same, query)


def _is_close_call(each: Explained, gap: float) -> bool:
    """Whether a node is as good as equal to its parent, so that it may be kept or not."""
    values = each.similarities
    return gap > 0 and any(
        abs(float(values[node.index]) - float(values[node.parent])) <= 2 * gap
        for node in each.found.item.nodes
        if node.parent is not None
    )


def _check_file(file: Written, items: list[Item], tally: Tally) -> None:
    if file.kind in ("txt", "md"):
        for item in items:
            if isinstance(item.payload, TextPayload):
                for span in item.source.spans:
                    told = item.payload.text[int(span.start) : int(span.stop)]
                    there = span.char is not None and file.text[slice(*span.char)] == told
                    tally.check("items are slices of the file", there, file.name, span)
                covered = sum(span.stop - span.start for span in item.source.spans)
                whole = covered == len(item.payload.text)
                tally.check("spans cover their item", whole, file.name, item.source)
    elif file.kind == "csv":
        tally.check("a table is whole", _rows_of(items) == file.rows, file.name, _rows_of(items))
    elif file.kind == "jsonl":
        found = [
            item.payload.text if isinstance(item.payload, TextPayload) else _rows_of([item])
            for item in items
        ]
        tally.check("documents are as written", found == file.documents, file.name)


def _rows_of(items: Sequence[Item]) -> list[list[str]]:
    found: list[list[str]] = []
    for item in items:
        assert isinstance(item.payload, TablePayload)
        if not found and item.payload.header:
            found.append(list(item.payload.header))
        found += map(list, item.payload.rows)
    return found


def _is_there(fragment: Fragment, item: Item, file: Written, cut: bool) -> bool:
    """Whether the words of a fragment stand where it says, read again from what was written."""
    text = fragment.text or ""
    if file.kind in ("txt", "md") and item.modality == "text":
        span = fragment.source.char
        return span is not None and _same(text, file.text[slice(*span)], cut)
    if file.kind == "csv":
        rows = file.rows[1:] if item.payload.header else file.rows
        return _same(text, _lines([rows[n] for n in fragment.source.rows or ()]), cut)
    if file.kind == "jsonl":
        document = file.documents[item.source.ordinal]
        start, stop = int(fragment.start), int(fragment.stop)
        whole = document[start:stop]
        return _same(
            text, whole if isinstance(whole, str) else _lines(document[1:][start:stop]), cut
        )
    if file.kind == "md":  # a table in the text
        return _stands_in(re.sub(r"[|]", " ", text), file.text.replace("|", " ").split())
    # The dots that stand for a cell's border are ours.
    return _stands_in(text.replace(" | ", " "), [w for w in file.words if w != "|"])


def _same(text: str, there: str, cut: bool) -> bool:
    return there.startswith(text) if cut else text == there


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(" | ".join(re.sub(r"\s*[\r\n]\s*", " ", cell) for cell in row) for row in rows)


def _stands_in(text: str, words: Sequence[str]) -> bool:
    """Whether the words stand there in a row; white space and its amount do not count."""
    return re.sub(r"[\s|]+", "", text) in re.sub(r"[\s|]+", "", "".join(words))


def _check_order(evidence: Evidence, tally: Tally, asked: object) -> None:
    ranks = [entry.rank for entry in evidence.entries]
    tally.check("items by rank", ranks == sorted(set(ranks)), asked, ranks)
    keys = [(-entry.similarity, entry.item.id) for entry in evidence.entries]
    tally.check("most similar first, ties by id", keys == sorted(keys), asked, keys)
    numbers = [fragment.n for fragment in evidence.fragments]
    tally.check("numbered from 1", numbers == list(range(1, len(numbers) + 1)), asked)
    position = 0
    for entry in evidence.entries:
        covered = [leaf for node in entry.kept for leaf in leaves(entry.item.nodes, node)]
        tally.check("in order and once", covered == sorted(set(covered)), asked, entry.kept)
    for fragment in evidence.fragments:
        text = (fragment.text or "").strip()
        found = evidence.text.find(text, position)
        tally.check("shown in order", found >= 0, asked, text[:100])
        position = max(position, found) + len(text)


def _check_headers(evidence: Evidence, tally: Tally, asked: object) -> None:
    if evidence.bare:
        return
    for entry in evidence.entries:
        if isinstance(entry.item.payload, TablePayload) and entry.item.payload.header:
            there = _lines([entry.item.payload.header]) in evidence.text
            tally.check("tables have their header", there, asked, entry.item.id)


def _check_whole(
    case: Case, query: str, k: int, selection: SelectConfig, evidence: Evidence
) -> None:
    """What is shown and what is left out make up what was found."""
    explained = case.index.explain(query, k=k, selection=selection)
    found = {each.found.item.id for each in explained}
    told = {each.item.id for each in evidence.entries} | {e.item_id for e in evidence.left_out}
    case.tally.check("every hit is shown or named", found == told, query, k, selection)
    if k >= len(case.items):
        case.tally.check("all items are hits", found == case.items.keys(), query, k)
    for each in explained:
        ends = [node for node, outcome in each.refinement.outcomes.items() if outcome != "split"]
        whole = sorted(_leaves(ends, each)) == _leaves([0], each)
        case.tally.check("kept and dropped make the whole", whole, query, each.found.item.id)
    free = case.index.search(query, k=k, selection=replace(selection, budget=None))
    selected = {each.found.item.id: each.refinement.kept for each in explained}
    unlimited = {entry.item.id: entry for entry in free.entries}
    for name, entry in unlimited.items():
        as_selected = entry.why != "refined" or entry.kept == selected[name]
        case.tally.check("what was selected is shown", as_selected, query, name)
    for entry in evidence.entries:
        shown, before = (
            {leaf for node in each.kept for leaf in leaves(each.item.nodes, node)}
            for each in (entry, unlimited[entry.item.id])
        )
        case.tally.check("a budget only takes away", shown <= before, query, entry.item.id)


def _leaves(nodes: Iterable[int], each: Explained) -> list[int]:
    return [leaf for node in nodes for leaf in leaves(each.found.item.nodes, node)]


def _rows(vectors: NodeVectors) -> NDArray[np.float32]:
    return np.asarray(vectors.rows, np.float32)
