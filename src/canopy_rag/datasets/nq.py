"""Natural Questions with DPR's passages of about a hundred words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, item_id
from canopy_rag.datasets._items import passage_item
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._nq_passages import (
    Asked,
    Passage,
    annotated,
    oracle_passage,
    place,
    pool_passages,
    retrieved_passages,
)
from canopy_rag.datasets._read import Record, found_files, json_lines, json_records, nothing_found
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.gold import spans_of_any

_NAME = "nq"
_POOL = "psgs_w100.tsv"
_RETRIEVED = ("biencoder-nq-dev.json", "biencoder-nq-train.json")
_INFO = ("nq-test_gold_info.json", "nq-dev_gold_info.json", "nq-train_gold_info.json")
_ORACLE = "nq-open-oracle.jsonl"
_ANSWERS = ("NQ-open.dev.jsonl", "NQ-open.train.jsonl")
_FILES = (
    ExpectedFile(path=_RETRIEVED[0], what="6,515 questions, each with its gold passage and others"),
    ExpectedFile(path=_RETRIEVED[1], what="58,880 questions of the train part, likewise"),
    ExpectedFile(path=_POOL, what="all 21,015,324 passages; without it those of the questions"),
    ExpectedFile(path=_INFO[0], what=f"questions with gold page and paragraph; needs {_POOL}"),
    ExpectedFile(path=_INFO[1], what="likewise, of the dev part"),
    ExpectedFile(path=_INFO[2], what="likewise, of the train part"),
    ExpectedFile(path=_ORACLE, what="NQ-open dev questions, each with its gold passage"),
    ExpectedFile(path=_ANSWERS[0], what="3,610 questions with answers only, to be counted"),
    ExpectedFile(path=_ANSWERS[1], what="87,925 questions with answers only, to be counted"),
)
ANSWERS_ONLY = "no gold passage in the folder"
NO_ANNOTATED = "no passage is marked as the annotated one"
NOT_IN_POOL = f"its gold passage is not in {_POOL}"
NOT_LITERAL = "no answer stands literally in the gold passage"


@dataclass(frozen=True, slots=True)
class _Files:
    """The official files that are there."""

    retrieved: list[Path]
    infos: list[Path]
    oracles: list[Path]
    answers_only: list[Path]
    pools: list[Path]


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read NQ. Gold is every place in the gold passage where an accepted answer stands.

    The pool is all of `psgs_w100.tsv` if it is there, read as a stream; else every passage that
    `biencoder-nq-*.json` names. Passages of the oracle file join it. NQ gives questions no id: a
    question's is a hash of its words.

    Raises:
        DataError: If no question file is there, or naming file and place of what is wrong.
    """
    files = _Files(
        retrieved=found_files(folder, *_RETRIEVED),
        infos=found_files(folder, *_INFO),
        oracles=found_files(folder, _ORACLE),
        answers_only=found_files(folder, *_ANSWERS),
        pools=found_files(folder, _POOL),
    )
    if not files.retrieved + files.infos + files.oracles + files.answers_only:
        raise nothing_found(_NAME, folder, [each.path for each in _FILES])
    keeping = Keeping()
    asked = list(_retrieved(files.retrieved, keeping))
    if files.pools:
        asked += _with_info(files.infos, keeping)
        place(asked, files.pools[0])
    for each in (*asked, *_oracle(files.oracles, keeping)):
        _keep(each, keeping)
    for path in files.answers_only:
        for record in json_lines(path):
            question_id = _question_id(record)
            if keeping.is_new(question_id, path):
                keeping.omit(question_id, ANSWERS_ONLY)
    unused = [] if files.pools else files.infos
    notes = [f"{path.name} is not used: it needs {_POOL}" for path in unused]
    return keeping.loaded(_NAME, lambda: _items(files, splitter), notes)


def _items(files: _Files, splitter: SentenceSplitter) -> Iterator[Item]:
    seen: set[str] = set()
    if files.pools:
        passages = pool_passages(files.pools[0])
    else:
        passages = retrieved_passages(files.retrieved, seen)
    for passage in passages:
        yield _item(passage, splitter)
    for path in files.oracles:
        for record in json_lines(path):
            passage = oracle_passage(record)
            if passage.uri not in seen:
                seen.add(passage.uri)
                yield _item(passage, splitter)


def _item(passage: Passage, splitter: SentenceSplitter) -> Item:
    sentences = splitter.split(passage.text)
    return passage_item(_NAME, passage.uri, passage.title, passage.text, sentences)


def _retrieved(files: Sequence[Path], keeping: Keeping) -> Iterator[Asked]:
    """Yield the new questions of `biencoder-nq-*.json`, omitting those without a gold passage."""
    for path in files:
        for record in json_records(path):
            question_id = _question_id(record)
            if not keeping.is_new(question_id, path):
                continue
            passages = annotated(record)
            if not passages:
                keeping.omit(question_id, NO_ANNOTATED)
                continue
            yield _asked(question_id, record, "answers", passages)


def _with_info(files: Sequence[Path], keeping: Keeping) -> Iterator[Asked]:
    """Yield the new questions of `nq-*_gold_info.json`; their passages have yet to be found."""
    for path in files:
        for record in json_records(path, inside="data"):
            question_id = _question_id(record)
            if keeping.is_new(question_id, path):
                asked = _asked(question_id, record, "short_answers", [])
                asked.page = record.want("title", str)
                asked.paragraph = record.want("context", str)
                yield asked


def _oracle(files: Sequence[Path], keeping: Keeping) -> Iterator[Asked]:
    for path in files:
        for record in json_lines(path):
            question_id = _question_id(record)
            if keeping.is_new(question_id, path):
                yield _asked(question_id, record, "answers", [oracle_passage(record)])


def _asked(question_id: str, record: Record, answers: str, passages: list[Passage]) -> Asked:
    text = record.want("question", str)
    return Asked(question_id, text, tuple(record.texts(answers)), passages)


def _keep(asked: Asked, keeping: Keeping) -> None:
    """Keep a question with its gold spans, or omit it."""
    gold = {
        GoldSpan(item_id=item_id(passage.uri, 0), start=start, stop=stop): passage.title
        for passage in asked.passages
        for start, stop in spans_of_any(passage.text, asked.answers)
    }
    question = Question(
        id=asked.id,
        text=asked.text,
        answers=asked.answers,
        kind="",
        gold=tuple(gold),
        contexts=tuple(dict.fromkeys(gold.values())),
    )
    if gold:
        keeping.keep(question)
    else:
        keeping.omit(asked.id, NOT_LITERAL if asked.passages else NOT_IN_POOL)


def _question_id(record: Record) -> str:
    """Return an id that a question has in every file: letter case and `?` differ between them."""
    words = " ".join(record.want("question", str).lower().rstrip("? ").split())
    return f"nq-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


BENCHMARK = Benchmark(
    name=_NAME,
    title="Natural Questions",
    group="in_domain",
    metric="squad",
    licence="CC BY-SA 3.0",
    homepage="https://ai.google.com/research/NaturalQuestions",
    files=_FILES,
    load=load,
)
