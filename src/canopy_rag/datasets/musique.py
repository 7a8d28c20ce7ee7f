"""MuSiQue: questions of two to four hops with their decomposition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, item_id
from canopy_rag.datasets._items import passage_item, passage_uri
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._read import Record, found_files, json_lines, nothing_found
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.gold import answer_spans

_NAME = "musique"
_FILES = (
    ExpectedFile(path="musique_ans_v1.0_dev.jsonl", what="2,417 answerable questions"),
    ExpectedFile(path="musique_ans_v1.0_train.jsonl", what="19,938 answerable questions"),
    ExpectedFile(path="musique_full_v1.0_dev.jsonl", what="the same and unanswerable ones"),
    ExpectedFile(path="musique_full_v1.0_train.jsonl", what="the same and unanswerable ones"),
)
_REFERENCE = re.compile(r"#(\d+)")
NOT_ANSWERABLE = "it is not answerable from its paragraphs"
NO_HOP = "no hop's answer stands in its paragraph"


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read MuSiQue. Gold is where the answer of a hop stands in the paragraph that supports it.

    Hops whose answer is not literally there are passed over. `follow_ups` are the questions of the
    hops after the first, with the answers of earlier hops put in.

    Raises:
        DataError: If no official file is there, or naming file and line of what is wrong.
    """
    names = [each.path for each in _FILES]
    files = found_files(folder, *names)
    if not files:
        raise nothing_found(_NAME, folder, names)
    keeping = Keeping()
    for path in files:
        for record in json_lines(path):
            question_id = record.want("id", str)
            if not record.optional("answerable", bool, True):
                # The full files give an unanswerable question the id of its answerable twin.
                question_id = f"{question_id} (unanswerable)"
                if keeping.is_new(question_id, path):
                    keeping.omit(question_id, NOT_ANSWERABLE)
            elif keeping.is_new(question_id, path):
                _read(question_id, record, keeping)
    return keeping.loaded(_NAME, lambda: _items(files, splitter))


def _read(question_id: str, record: Record, keeping: Keeping) -> None:
    paragraphs = {part.want("idx", int): part for part in record.parts("paragraphs")}
    hops = record.parts("question_decomposition")
    gold: list[GoldSpan] = []
    titles: list[str] = []
    for number, hop in enumerate(hops):
        support = hop.optional("paragraph_support_idx", int, -1)
        if support not in paragraphs:
            continue
        title, text = _passage(paragraphs[support])
        home = item_id(passage_uri(_NAME, title, text), 0)
        spans = [
            GoldSpan(item_id=home, start=start, stop=stop, hop=number)
            for start, stop in answer_spans(text, hop.want("answer", str))
        ]
        gold += spans
        titles += [title] * bool(spans)
    question = Question(
        id=question_id,
        text=record.want("question", str),
        answers=tuple(dict.fromkeys((record.want("answer", str), *record.texts("answer_aliases")))),
        kind=question_id.partition("__")[0],
        gold=tuple(gold),
        contexts=tuple(dict.fromkeys(titles)),
        follow_ups=_follow_ups(hops),
    )
    if gold:
        keeping.keep(question)
    else:
        keeping.omit(question_id, NO_HOP)


def _follow_ups(hops: Sequence[Record]) -> tuple[str, ...]:
    answers = [hop.want("answer", str) for hop in hops]

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return answers[number - 1] if 1 <= number <= len(answers) else match[0]

    return tuple(_REFERENCE.sub(named, hop.want("question", str)) for hop in hops[1:])


def _passage(paragraph: Record) -> tuple[str, str]:
    return paragraph.want("title", str), paragraph.want("paragraph_text", str)


def _items(files: Sequence[Path], splitter: SentenceSplitter) -> Iterator[Item]:
    """Yield each distinct paragraph once; a paragraph is one block of text."""
    seen: set[str] = set()
    for path in files:
        for record in json_lines(path):
            for paragraph in record.parts("paragraphs"):
                title, text = _passage(paragraph)
                uri = passage_uri(_NAME, title, text)
                if uri not in seen and text.strip():
                    seen.add(uri)
                    yield passage_item(_NAME, uri, title, text, splitter.split(text))


BENCHMARK = Benchmark(
    name=_NAME,
    title="MuSiQue",
    group="extra",
    metric="squad",
    licence="CC BY 4.0",
    homepage="https://github.com/StonyBrookNLP/musique",
    files=_FILES,
    load=load,
    kinds=("2hop", "3hop1", "3hop2", "4hop1", "4hop2", "4hop3"),
)
