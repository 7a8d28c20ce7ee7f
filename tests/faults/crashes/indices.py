"""What an index holds, and what is wrong with one that was written by a process that was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.api import Index
from canopy_rag.config import Config, EncoderConfig, IndexConfig
from canopy_rag.core.errors import CanopyError
from canopy_rag.store import LanceStore

Content = Mapping[str, tuple[tuple[str, str], ...]]
"""By source: ids and checksums of its items, sorted."""
CONFIG = Config(encoder=EncoderConfig(name="hashing"), index=IndexConfig(isolate=False))
QUERIES = ("granite lantern", "copper kettle in the meadow", "Part 2")
_SLACK_BYTES = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An index that nobody disturbed."""

    content: Content
    digest: str
    answers: tuple[str, ...]
    n_bytes: int


def is_there(folder: Path) -> bool:
    """Whether there is an index; a process may be killed before it made one."""
    return (folder / "index.json").exists()


def content(folder: Path) -> tuple[Content, list[str]]:
    """Return what an index holds, and the ids that are there twice."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table in LanceStore.open(folder)._catalog.tables().values():
        rows = table.rows(["uri", "id", "digest"]).to_pylist()
        for row in rows:
            found.setdefault(row["uri"], []).append((row["id"], row["digest"]))
    ids = Counter(item_id for items in found.values() for item_id, _ in items)
    doubled = [item_id for item_id, n in ids.items() if n > 1]
    return {uri: tuple(sorted(items)) for uri, items in found.items()}, doubled


def answers(folder: Path) -> tuple[str, ...]:
    """Return what searches show."""
    index = Index.open(folder, config=CONFIG)
    return tuple(index.search(query, k=5).text for query in QUERIES)


def known(folder: Path) -> Known:
    """Return what is right."""
    return Known(
        content=content(folder)[0],
        digest=LanceStore.open(folder).digest(),
        answers=answers(folder),
        n_bytes=_n_bytes(folder),
    )


def faults_of_killed(folder: Path, *versions: Content) -> list[str]:
    """Return what is wrong: not sound, part of a file, an item twice, or of no file.

    Args:
        folder: Of the index.
        versions: What may be there of each source: all of one of these, or nothing.
    """
    if not is_there(folder):
        return []
    try:
        damaged = [
            f"{each.file}: {each.reason}" for each in LanceStore.open(folder).verify().damaged
        ]
        there, doubled = content(folder)
        answers(folder)
    except CanopyError as error:
        return [f"it cannot be read: {error}"]
    faults = [f"damaged: {each}" for each in damaged]
    faults += [f"twice: {each}" for each in doubled]
    for uri, items in there.items():
        if all(items != version.get(uri) for version in versions):
            faults.append(f"{uri}: {len(items)} items, which is no version of it")
    return faults


def faults_of_completed(folder: Path, right: Known, gone: str = "") -> list[str]:
    """Return in what an index differs from the one that nobody disturbed.

    Args:
        folder: Of the index.
        right: What it should be.
        gone: No file may hold this word any more.
    """
    faults = faults_of_killed(folder, right.content)
    there, _ = content(folder)
    faults += [f"{uri}: it is missing" for uri in right.content if uri not in there]
    if LanceStore.open(folder).digest() != right.digest:
        faults.append("its digest is another one")
    if answers(folder) != right.answers:
        faults.append("searches show something else")
    if _n_bytes(folder) > 2 * right.n_bytes + _SLACK_BYTES:
        faults.append(f"it takes {_n_bytes(folder):,} bytes, not {right.n_bytes:,}")
    if gone and (held := holding(folder, gone)):
        faults.append(f"what was removed stands in {held[0].relative_to(folder)}")
    return faults


def holding(folder: Path, word: str) -> list[Path]:
    """Return the files of an index in which a word stands."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    return [each for each in files if word.encode() in each.read_bytes()]


def _n_bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
