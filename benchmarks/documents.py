"""Documents to index and to compress: the passages of the Natural Questions sample, by title."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.registry import load
from canopy_rag.text import DefaultSplitter


def natural_questions(data: Path) -> Loaded:
    """Return the sample."""
    return load("nq", data / "nq", DefaultSplitter())


def texts(loaded: Loaded) -> dict[str, str]:
    """Return the text of each title: its passages as paragraphs, in order."""
    found: dict[str, list[str]] = {}
    for item in loaded.items():
        if isinstance(item.payload, TextPayload):
            found.setdefault(item.title, []).append(item.payload.text)
    return {title: "\n\n".join(parts) for title, parts in found.items()}


def write(folder: Path, documents: dict[str, str]) -> list[Path]:
    """Write a Markdown file of each document."""
    folder.mkdir(parents=True)
    paths = []
    for number, (title, text) in enumerate(documents.items()):
        name = re.sub(r"\W+", "-", title)[:60]
        paths.append(folder / f"{number:05}-{name}.md")
        paths[-1].write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    return paths


def of_leaves(documents: dict[str, str], n_leaves: int) -> Iterator[Item]:
    """Yield items of a fixed number of sentences, over the borders of documents."""
    splitter = DefaultSplitter()
    held: list[str] = []
    n_items = 0
    paragraphs = (part for text in documents.values() for part in text.split("\n\n"))
    for text in paragraphs:
        held += [text[start:stop] for start, stop in splitter.split(text)]
        while len(held) >= n_leaves:
            yield _item(held[:n_leaves], n_items)
            held, n_items = held[n_leaves:], n_items + 1


def _item(sentences: list[str], number: int) -> Item:
    text, spans = "", []
    for sentence in sentences:
        text += " " if text else ""
        spans.append((len(text), len(text) + len(sentence)))
        text += sentence
    return Item(
        id=f"{number:06}",
        modality="text",
        title="",
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=f"{number}.txt"),
    )
