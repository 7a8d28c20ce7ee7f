"""Passages of benchmarks as text items whose ids depend on nothing but the passage."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload, item_id

Interval = tuple[int, int]


def passage_uri(corpus: str, title: str, text: str) -> str:
    """Return the name of a passage that has no id of its own: its title and a hash of its text.

    So the same passage has the same id in every file, sample and order, and two texts under one
    title have two.

    >>> passage_uri("hotpotqa", "Ann", "Ann sings.")
    'hotpotqa/Ann#e10d022f'
    """
    digest = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{corpus}/{title}#{digest[:8]}"


def passage_item(
    corpus: str, uri: str, title: str, text: str, sentences: Sequence[Interval]
) -> Item:
    """Return a passage as an item; its leaves are the sentences.

    Args:
        corpus: The benchmark's name.
        uri: Unique name of the passage.
        title: Title of the page.
        text: The passage, verbatim.
        sentences: Half-open character intervals, in order.
    """
    return Item(
        id=item_id(uri, 0),
        modality="text",
        title=title,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [list(sentences)]),
        source=Source(uri=uri),
        corpus=corpus,
    )


def joined_sentences(sentences: Sequence[str], separator: str) -> tuple[str, list[Interval | None]]:
    """Join the sentences that a benchmark gives into a passage.

    Args:
        sentences: As in the file.
        separator: What stands between them: "" where they keep their leading space.

    Returns:
        The passage, and the interval of each sentence without the white space around it; None for
        a blank one.
    """
    intervals: list[Interval | None] = []
    position = 0
    for sentence in sentences:
        start = position + len(sentence) - len(sentence.lstrip())
        stop = position + len(sentence.rstrip())
        intervals.append((start, stop) if start < stop else None)
        position += len(sentence) + len(separator)
    return separator.join(sentences), intervals
