"""The layout that HotpotQA and 2WikiMultiHopQA share: paragraphs with sentences given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, item_id
from canopy_rag.datasets._items import Interval, joined_sentences, passage_item, passage_uri
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._read import Record, json_records

NO_FACT = "no supporting fact points at a sentence of its paragraphs"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a question's `context`."""

    uri: str
    title: str
    text: str
    sentences: tuple[Interval | None, ...]
    """By their number in the file; None for a blank one."""

    def item(self, corpus: str) -> Item:
        """Return it as an item whose leaves are the given sentences."""
        sentences = [each for each in self.sentences if each is not None]
        return passage_item(corpus, self.uri, self.title, self.text, sentences)


def read_questions(
    corpus: str, files: Sequence[Path], separator: str, answers: Callable[[Record], tuple[str, ...]]
) -> Keeping:
    """Read the questions of all files; gold are the sentences that supporting facts name.

    Facts that point at no sentence (a few do in the official files) are passed over; a question
    left without any is omitted.

    Args:
        corpus: The benchmark's name.
        files: In order; a later file may repeat questions of an earlier one.
        separator: What stands between sentences in a paragraph.
        answers: Returns the accepted answers of a record.
    """
    keeping = Keeping()
    for path in files:
        for record in json_records(path):
            question_id = record.want("_id", str)
            if not keeping.is_new(question_id, path):
                continue
            paragraphs = _paragraphs(corpus, record, separator)
            gold, titles = _gold(record, paragraphs)
            question = Question(
                id=question_id,
                text=record.want("question", str),
                answers=answers(record),
                kind=record.want("type", str),
                gold=tuple(gold),
                contexts=tuple(titles),
            )
            if gold:
                keeping.keep(question)
            else:
                keeping.omit(question_id, NO_FACT)
    return keeping


def read_items(
    corpus: str, files: Sequence[Path], separator: str, seen: set[str]
) -> Iterator[Item]:
    """Yield each distinct paragraph of all files once; blank ones are no items.

    Args:
        corpus: The benchmark's name.
        files: In order.
        separator: What stands between sentences in a paragraph.
        seen: The names of what was yielded; grows.
    """
    for path in files:
        for record in json_records(path):
            for paragraph in _paragraphs(corpus, record, separator):
                if paragraph.uri not in seen and paragraph.text.strip():
                    seen.add(paragraph.uri)
                    yield paragraph.item(corpus)


def _paragraphs(corpus: str, record: Record, separator: str) -> list[Paragraph]:
    found: list[Paragraph] = []
    for entry in _list(record, "context"):
        match entry:
            case [str(title), [*given]] if all(isinstance(each, str) for each in given):
                text, intervals = joined_sentences([str(each) for each in given], separator)
                uri = passage_uri(corpus, title, text)
                found.append(Paragraph(uri, title, text, tuple(intervals)))
            case _:
                raise record.error("each entry of 'context' must be [title, [sentence, ...]]")
    return found


def _gold(record: Record, paragraphs: Sequence[Paragraph]) -> tuple[list[GoldSpan], list[str]]:
    """Return the spans of the supporting facts, and the titles of the paragraphs they are in."""
    spans: dict[GoldSpan, str] = {}
    for entry in _list(record, "supporting_facts"):
        match entry:
            case [str(title), int(number)]:
                for paragraph in paragraphs:
                    if paragraph.title != title or not 0 <= number < len(paragraph.sentences):
                        continue
                    interval = paragraph.sentences[number]
                    if interval is not None:
                        gold = GoldSpan(
                            item_id=item_id(paragraph.uri, 0), start=interval[0], stop=interval[1]
                        )
                        spans.setdefault(gold, title)
                        break
            case _:
                raise record.error("each entry of 'supporting_facts' must be [title, number]")
    return list(spans), list(dict.fromkeys(spans.values()))


def _list(record: Record, name: str) -> list[object]:
    """Return a list that some copies of the files hold as JSON text."""
    value = record.fields.get(name)
    if not isinstance(value, str):
        return record.want(name, list)
    try:
        decoded = json.loads(value)
    except json.JSONDecodeError as error:
        raise record.error(f"the field {name!r} must be a list, or one as JSON") from error
    return replace(record, fields={name: decoded}).want(name, list)
