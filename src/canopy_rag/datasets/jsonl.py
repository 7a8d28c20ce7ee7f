"""Our own JSON Lines format, for users' data: questions and items, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.datasets._documents import document_item, document_uri, identity
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._read import Record, found_files, json_lines, nothing_found
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.gold import answer_spans

_NAME = "jsonl"
NO_ITEM = "its gold names an item that is not there"
OUTSIDE = "its gold lies outside the item"
NO_QUOTE = "a quote of its gold is not in the item"
NO_GOLD = "questions without gold can be judged by their answers, not by their evidence"


class _NotLocatedError(Exception):
    """Gold that points nowhere; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Gold:
    """An entry of a question's `gold`."""

    record: Record
    key: str
    """Of its item."""

    @property
    def hop(self) -> int | None:
        return self.record.want("hop", int) if "hop" in self.record.fields else None


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read the `*.jsonl` files of a folder, or one file; see `docs/datasets.md` for the format.

    A line with `question` is a question, any other an item. Gold is an interval in the item's unit,
    a quote to be found in a text or in cells, or, with neither, the whole item.

    Raises:
        DataError: If there is no such file or no question in it, or naming file, line and field.
    """
    files = _files(folder)
    entries = _entries(files, folder, lambda name: document_uri(_NAME, name))
    wanted = {each.key for _, gold in entries for each in gold}
    homes = _check_items(files, splitter, wanted)
    return _loaded(entries, homes, lambda: _items(files, splitter))


def load_over(folder: Path, items: Callable[[Sequence[str]], Mapping[str, Item]]) -> Loaded:
    """Read questions whose gold names items of an index by their ids there.

    Args:
        folder: As for `load`; lines without `question` are passed over.
        items: Returns those of some ids that are there.

    Raises:
        DataError: As `load`.
    """
    entries = _entries(_files(folder), folder, lambda name: name)
    homes = items(sorted({each.key for _, gold in entries for each in gold}))
    return _loaded(entries, homes, lambda: iter(homes.values()))


_Entries: TypeAlias = Sequence[tuple[Record, Sequence["_Gold"]]]


def _files(folder: Path) -> list[Path]:
    files = [folder] if folder.is_file() else found_files(folder, "*.jsonl")
    if not files:
        raise nothing_found(_NAME, folder, ["*.jsonl"])
    return files


def _entries(files: Sequence[Path], folder: Path, key: Callable[[str], str]) -> _Entries:
    """Return the questions with their gold, whose items are named by `key` of the written name."""
    entries = [
        (record, [_gold_entry(part, key) for part in _gold_parts(record)])
        for record in _lines(files, are_questions=True)
    ]
    if not entries:
        raise nothing_found(_NAME, folder, ["a *.jsonl file with a line that has 'question'"])
    return entries


def _loaded(
    entries: _Entries, homes: Mapping[str, Item], items: Callable[[], Iterator[Item]]
) -> Loaded:
    keeping = Keeping()
    n_without = 0
    for record, gold in entries:
        question_id = identity(record)
        if not keeping.is_new(question_id, record.path):
            continue
        n_without += not gold
        try:
            spans = [span for each in gold for span in _spans(each, homes)]
        except _NotLocatedError as error:
            keeping.omit(question_id, str(error))
            continue
        keeping.keep(_question(question_id, record, spans, [each.key for each in gold]))
    notes = [f"{NO_GOLD} ({n_without:,})"] if n_without else []
    return keeping.loaded(_NAME, items, notes)


def _lines(files: Sequence[Path], *, are_questions: bool) -> Iterator[Record]:
    for path in files:
        for record in json_lines(path):
            if ("question" in record.fields) is are_questions:
                yield record


def _items(files: Sequence[Path], splitter: SentenceSplitter) -> Iterator[Item]:
    for record in _lines(files, are_questions=False):
        yield document_item(_NAME, record, splitter)


def _check_items(
    files: Sequence[Path], splitter: SentenceSplitter, wanted: set[str]
) -> dict[str, Item]:
    """Return the items that gold names; all are looked at, so that no id comes twice."""
    seen: set[str] = set()
    homes: dict[str, Item] = {}
    for record in _lines(files, are_questions=False):
        uri = document_uri(_NAME, identity(record))
        if uri in seen:
            raise record.error(f"the id {identity(record)!r} came before; ids must differ")
        seen.add(uri)
        if uri in wanted:
            homes[uri] = document_item(_NAME, record, splitter)
    return homes


def _gold_parts(record: Record) -> list[Record]:
    return record.parts("gold") if record.fields.get("gold") is not None else []


def _gold_entry(part: Record, key: Callable[[str], str]) -> _Gold:
    name = part.fields.get("item")
    as_id = Record(part.path, part.where, {"id": name})
    if name is None:
        raise part.error("the field 'item' is missing")
    return _Gold(part, key(identity(as_id)))


def _spans(gold: _Gold, homes: Mapping[str, Item]) -> list[GoldSpan]:
    """Return the places of one entry in its item.

    Raises:
        _NotLocatedError: If there is none.
    """
    item = homes.get(gold.key)
    if item is None:
        raise _NotLocatedError(NO_ITEM)
    record = gold.record
    if "quote" in record.fields:
        return _quoted(record.want("quote", str), item, gold.hop)
    root = item.nodes[0]
    start = record.optional("start", float, root.start)
    stop = record.optional("stop", float, root.stop)
    if not root.start <= start < stop <= root.stop:
        raise _NotLocatedError(OUTSIDE)
    column = record.want("column", int) if "column" in record.fields else None
    return [GoldSpan(item_id=item.id, start=start, stop=stop, column=column, hop=gold.hop)]


def _quoted(quote: str, item: Item, hop: int | None) -> list[GoldSpan]:
    """Return every place of a quote in a text, or every cell that holds it."""
    spans: list[GoldSpan] = []
    match item.payload:
        case TextPayload(text=text):
            spans = [
                GoldSpan(item_id=item.id, start=start, stop=stop, hop=hop)
                for start, stop in answer_spans(text, quote)
            ]
        case TablePayload(rows=rows):
            spans = [
                GoldSpan(item_id=item.id, start=number, stop=number + 1, column=column, hop=hop)
                for number, row in enumerate(rows)
                for column, cell in enumerate(row)
                if answer_spans(cell, quote)
            ]
    if not spans:
        raise _NotLocatedError(NO_QUOTE)
    return spans


def _question(
    question_id: str, record: Record, spans: Sequence[GoldSpan], uris: Sequence[str]
) -> Question:
    return Question(
        id=question_id,
        text=record.want("question", str),
        answers=tuple(record.texts("answers")),
        kind=record.optional("kind", str, ""),
        gold=tuple(dict.fromkeys(spans)),
        contexts=_texts(record, "contexts") or tuple(dict.fromkeys(uris)),
        options=_texts(record, "options"),
        scale=record.optional("scale", str, ""),
        follow_ups=_texts(record, "follow_ups"),
    )


def _texts(record: Record, name: str) -> tuple[str, ...]:
    return tuple(record.texts(name)) if record.fields.get(name) is not None else ()


BENCHMARK = Benchmark(
    name=_NAME,
    title="Your own data, as JSON Lines",
    group="extra",
    metric="squad",
    licence="that of your data",
    homepage="",
    files=(ExpectedFile(path="*.jsonl", what="questions and items, a line each", required=True),),
    load=load,
)
