"""The passages of NQ's files, and which of them is a question's gold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from canopy_rag.datasets._items import passage_uri
from canopy_rag.datasets._read import Record, json_records, tsv_rows
from canopy_rag.datasets.gold import spans_of_any

_ANNOTATED_SCORE = 1000
_LISTS = ("positive_ctxs", "negative_ctxs", "hard_negative_ctxs")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage, by whichever name it has."""

    uri: str
    title: str
    text: str


@dataclass(slots=True)
class Asked:
    """A question whose gold passages are known, or are still to be found in the pool."""

    id: str
    text: str
    answers: tuple[str, ...]
    passages: list[Passage] = field(default_factory=list)
    page: str = ""
    """Title of the gold page, where the gold passage is to be found by its words."""
    paragraph: str = ""
    """The annotated paragraph of that page."""


def annotated(record: Record) -> list[Passage]:
    """Return those positives of a `biencoder` record that are the annotated passage.

    DPR gives it a score of 1000; the other positives only hold an answer somewhere.
    """
    return [
        _passage(part)
        for part in record.parts("positive_ctxs")
        if part.want("score", float) == _ANNOTATED_SCORE and part.want("title_score", float) == 1
    ]


def oracle_passage(record: Record) -> Passage:
    """Return the gold passage of an oracle record; it has no id."""
    contexts = record.parts("ctxs")
    gold = [part for part in contexts if part.optional("isgold", bool, len(contexts) == 1)]
    if len(gold) != 1:
        raise record.error(f"needs exactly one entry of 'ctxs' with 'isgold', got {len(gold)}")
    return _passage(gold[0])


def retrieved_passages(files: Sequence[Path], seen: set[str]) -> Iterator[Passage]:
    """Yield each passage that `biencoder` files name once; `seen` grows by their names."""
    for path in files:
        for record in json_records(path):
            for name in _LISTS:
                for part in record.parts(name):
                    passage = _passage(part)
                    if passage.uri not in seen:
                        seen.add(passage.uri)
                        yield passage


def pool_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of `psgs_w100.tsv`."""
    for _, (number, text, title) in tsv_rows(path, ("id", "text", "title")):
        yield Passage(_uri(number), title, text)


def place(asked: Sequence[Asked], path: Path) -> None:
    """Find the gold passages in the pool, in one pass; a question may be left without.

    A passage with an id becomes the pool's of that id. Where only the page and a paragraph are
    known it is the page's passage that holds an answer and shares most words with the paragraph,
    the first of equals.
    """
    by_id: dict[str, list[Asked]] = {}
    by_page: dict[str, list[Asked]] = {}
    best: dict[str, int] = {}
    for each in asked:
        if each.page:
            by_page.setdefault(each.page, []).append(each)
        for passage in each.passages:
            by_id.setdefault(passage.uri, []).append(each)
        each.passages = []
    for passage in pool_passages(path):
        for each in by_id.get(passage.uri, ()):
            each.passages.append(passage)
        for each in by_page.get(passage.title, ()):
            words = set(_WORD.findall(each.paragraph.lower()))
            shared = len(words & set(_WORD.findall(passage.text.lower())))
            if shared > best.get(each.id, 0) and spans_of_any(passage.text, each.answers):
                best[each.id] = shared
                each.passages = [passage]


def _passage(part: Record) -> Passage:
    """Return a passage of a question file; the key of its id differs between copies."""
    title, text = part.want("title", str), part.want("text", str)
    number = part.fields.get("passage_id", part.fields.get("psg_id"))
    uri = passage_uri("nq", title, text) if number is None else _uri(str(number))
    return Passage(uri, title, text)


def _uri(number: str) -> str:
    return f"nq/{number}"
