"""The pool that the questions of a group search: encoded once, on disk, resumed after a kill (P16).

A pool lies in an index of the usual form, so that `canopy search` looks into it too.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from canopy_rag.config import Config
from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.protocols import Encoder, Entry
from canopy_rag.core.types import Item
from canopy_rag.evaluation.diagnose import Task
from canopy_rag.evaluation.folder import write_json
from canopy_rag.pipeline import factory

if TYPE_CHECKING:
    from canopy_rag.store import LanceStore

BATCH = 512
"""Items per commit: a kill costs the encoding of as many."""
ENDS_BYTES = 1 << 20
_NOTE = "pool.json"
_MEDIA = frozenset({".mp4", ".webm", ".mkv", ".mov", ".avi", ".jpg", ".jpeg", ".png", ".gif"})
Advance = Callable[[int], None]
"""Hears how many items were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the questions of a group search."""

    store: LanceStore
    encoder: Encoder
    path: Path
    counts: Mapping[str, Mapping[str, Mapping[str, int]]]
    """By benchmark: `items` and `gold_items` of the questions, by modality."""


def open_pool(
    path: Path,
    config: Config,
    tasks: Sequence[Task],
    what: dict[str, Any],
    *,
    advance: Advance | None = None,
) -> Pool:
    """Open the pool of some tasks; what is missing of it is encoded.

    Args:
        path: Its folder; made when it is missing.
        config: Names the encoder.
        tasks: The benchmarks of the group.
        what: What the items depend on: the files, and how many of them are taken.
        advance: Hears how many items were looked at.

    Raises:
        ConfigError: If the folder holds another pool.
        StoreError: If it holds vectors of another encoder, or cannot be written.
        EncodeError: Naming the item that cannot be encoded.
    """
    pinned = replace(
        config, origins=MappingProxyType({**config.origins, "encoder.name": "evaluation"})
    )
    note = path / _NOTE
    before = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
    if before is not None and before["items"] != what:
        raise ConfigError(
            f"{path} holds the pool of other data: {before['items']} there, {what} now. Take it "
            "away, or name another folder"
        )
    store, encoder = factory.open_store(path, pinned, create=True)
    if before is None or not before["complete"]:
        write_json(note, {"items": what, "complete": False})
        counts = {task.name: Counter[str]() for task in tasks}
        _fill(store, encoder, _counted(tasks, counts), advance)
        store.compact()
        before = {"items": what, "complete": True, "digest": store.digest(), "counts": counts}
        write_json(note, before)
    return Pool(
        store=store,
        encoder=encoder,
        path=path,
        counts={
            task.name: {
                "items": before["counts"][task.name],
                "gold_items": _gold_items(store, task),
            }
            for task in tasks
        },
    )


def _counted(tasks: Sequence[Task], counts: Mapping[str, Counter[str]]) -> Iterator[Item]:
    for task in tasks:
        for item in task.items():
            counts[task.name][item.modality] += 1
            yield item


def _gold_items(store: LanceStore, task: Task) -> dict[str, int]:
    """Return how many gold items the questions have, by modality."""
    wanted = sorted({span.item_id for question in task.questions for span in question.gold})
    counts: Counter[str] = Counter()
    for start in range(0, len(wanted), BATCH):
        counts.update(item.modality for item in store.get(wanted[start : start + BATCH]))
    return dict(sorted(counts.items()))


def _fill(
    store: LanceStore, encoder: Encoder, items: Iterable[Item], advance: Advance | None
) -> None:
    """Encode and write the items of sources that are not there.

    Items of one source follow each other: a source is written in one commit, or not at all.
    """
    there = set(store.sources())
    written: set[str] = set()
    for group in _groups(items):
        new = {item.id: item for item in group if item.source.uri not in there}
        for item in group:
            if item.id not in new and item.source.uri in written and item.id not in written:
                raise DataError(
                    f"item {item.id!r} of {item.source.uri!r} comes apart from the others of its "
                    "source; the loader has to give a source's items together"
                )
        if new:
            vectors = encoder.encode_items(list(new.values()))
            entries = [
                Entry(item=item, vectors=own, source_sha256="")
                for item, own in zip(new.values(), vectors, strict=True)
            ]
            uris = {item.source.uri for item in new.values()}
            store.replace(uris, entries)
            there |= uris
            written |= uris | set(new)
        if advance is not None:
            advance(len(group))


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield items by about `BATCH`, those of one source together."""
    iterator = iter(items)
    held: list[Item] = []
    while more := list(islice(iterator, BATCH)):
        held += more
        last = held[-1].source.uri
        cut = next(
            (place for place in range(len(held), 0, -1) if held[place - 1].source.uri != last), 0
        )
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held


def files_digest(folder: Path) -> str:
    """Return a checksum of a folder's files: names, sizes, and both ends of each data file.

    Pictures and videos count by name and size alone. Hidden files do not count.

    Args:
        folder: A benchmark's folder.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in name.split("/")):
            continue
        size = path.stat().st_size
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        if path.suffix.lower() not in _MEDIA:
            with path.open("rb") as file:
                digest.update(file.read(ENDS_BYTES))
                file.seek(max(ENDS_BYTES, size - ENDS_BYTES))
                digest.update(file.read())
    return digest.hexdigest()[:16]
