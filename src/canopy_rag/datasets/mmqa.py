"""MultiModalQA: questions over tables, texts and images of Wikipedia, alone and combined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import item_id
from canopy_rag.datasets._keeping import NO_ANSWER, Keeping
from canopy_rag.datasets._mmqa_documents import (
    IMAGES,
    PICTURES,
    TABLES,
    TEXTS,
    Documents,
    official,
    read_documents,
    uri_of,
)
from canopy_rag.datasets._read import Record, json_lines, nothing_found
from canopy_rag.datasets._tables import is_cell
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.gold import answer_spans, spans_of_any

RARE = "its type is one of the two rarest (15 and 3 of the dev questions)"
NO_SUPPORT = "the file names no supporting context"
NO_TABLE = "its gold table is not among the files"
NO_TEXT = "a gold text is not among the files"
NO_IMAGE = "a gold image is not among the files"
NO_CELL = "its gold cells lie outside the table"

_RARE_TYPES = (
    "Compare(Compose(TableQ,ImageQ),Compose(TableQ,TextQ))",
    "Intersect(ImageListQ,TextQ)",
)
_QUESTIONS = ("MMQA_dev.jsonl", "MMQA_train.jsonl")
_FILES = (
    ExpectedFile(path=f"dataset/{_QUESTIONS[0]}", what="2,441 questions; any file may end in .gz"),
    ExpectedFile(path=f"dataset/{_QUESTIONS[1]}", what="23,817 questions of the train part"),
    ExpectedFile(path=f"dataset/{TABLES}", what="the tables; without them, their questions go"),
    ExpectedFile(path=f"dataset/{TEXTS}", what="the texts; without them, their questions go"),
    ExpectedFile(path=f"dataset/{IMAGES}", what="the titles and file names of the images"),
    ExpectedFile(path=f"{PICTURES}/*", what="the images, unpacked from final_dataset_images.zip"),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, before the documents are read."""

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str
    support: tuple[tuple[str, str], ...]
    """Gold documents: id, and `text`, `table` or `image`."""
    cells: tuple[tuple[int, int], ...]
    """Row and column, of the final and the intermediate answers."""
    places: tuple[tuple[str, int, str], ...]
    """Document, offset and words of answers in texts."""
    words: tuple[str, ...]
    """All answers, the intermediate ones too."""


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read MultiModalQA; items are all documents that the questions name, distractors included.

    Gold are the supporting tables' cells that hold the final or an intermediate answer, the places
    of those answers in supporting texts, and supporting images whole. A supporting document of
    which no place is known is gold as an empty span: the item is wanted, and nothing in it.

    Questions of the two rarest types are omitted, which leaves the paper's 14 types (P16).

    Args:
        folder: The repository, or its `dataset`; the images in `final_dataset_images`.
        splitter: Finds the sentences of texts.

    Raises:
        DataError: If there is no file of questions, or naming file and place of what is wrong.
        MissingDependencyError: If images are there and Pillow is not installed.
    """
    files = official(folder, *_QUESTIONS)
    if not files:
        raise nothing_found("mmqa", folder, [each.path for each in _FILES])
    keeping = Keeping()
    pool: set[str] = set()
    asked = [each for path in files for each in _questions(path, pool, keeping)]
    gold = {document for each in asked for document, _ in each.support}
    documents = read_documents(folder, pool | gold, gold)
    for each in asked:
        _keep(each, documents, keeping)
    return keeping.loaded("mmqa", lambda: documents.items(splitter), _notes(folder, documents))


def _questions(path: Path, pool: set[str], keeping: Keeping) -> Iterator[_Asked]:
    """Yield the questions of a file that may be kept; add the documents they name to the pool."""
    for record in json_lines(path):
        question_id = record.want("qid", str)
        if not keeping.is_new(question_id, path):
            continue
        metadata = record.part("metadata")
        pool.update(metadata.texts("text_doc_ids"), metadata.texts("image_doc_ids"))
        if table_id := metadata.optional("table_id", str, ""):
            pool.add(table_id)
        kind = metadata.want("type", str)
        if kind in _RARE_TYPES:
            keeping.omit(question_id, RARE)
        elif record.fields.get("answers") is None:
            keeping.omit(question_id, NO_ANSWER)
        elif not record.fields.get("supporting_context"):
            keeping.omit(question_id, NO_SUPPORT)
        else:
            yield _asked(record, metadata, question_id, kind)


def _asked(record: Record, metadata: Record, question_id: str, kind: str) -> _Asked:
    final = record.parts("answers")
    every = final + [part for group in _groups(metadata) for part in group]
    support = {
        (part.want("doc_id", str), part.want("doc_part", str)): None
        for part in record.parts("supporting_context")
    }
    return _Asked(
        id=question_id,
        text=record.want("question", str),
        answers=tuple(_words(part) for part in final),
        kind=kind,
        support=tuple(support),
        cells=tuple(dict.fromkeys(cell for part in every for cell in _cells(part))),
        places=tuple(place for part in every for place in _places(part)),
        words=tuple(_words(part) for part in every if part.optional("type", str, "") != "yesno"),
    )


def _groups(metadata: Record) -> Iterator[list[Record]]:
    """Yield the intermediate answers: lists of answer objects."""
    for number, group in enumerate(metadata.optional("intermediate_answers", list, []), start=1):
        place = f"{metadata.where}, intermediate_answers {number}"
        yield Record(metadata.path, place, {"answers": group}).parts("answers")


def _words(part: Record) -> str:
    """Return an answer as text; a few are numbers."""
    answer = part.fields.get("answer")
    if isinstance(answer, str | int | float):
        return str(answer)
    raise part.error(f"the field 'answer' must be text or a number, got {answer!r}")


def _cells(part: Record) -> Iterator[tuple[int, int]]:
    for cell in part.optional("table_indices", list, []):
        match cell:
            case [int(row), int(column)]:
                yield row, column
            case _:
                raise part.error(f"'table_indices' must hold [row, column], got {cell!r}")


def _places(part: Record) -> Iterator[tuple[str, int, str]]:
    """Yield the places of an answer in texts; yes and no have a text, but no place in it."""
    if part.fields.get("text_instances"):
        for place in part.parts("text_instances"):
            document, words = place.want("doc_id", str), place.optional("text", str, "")
            if words:
                yield document, place.want("start_byte", int), words


def _keep(asked: _Asked, documents: Documents, keeping: Keeping) -> None:
    gold: list[GoldSpan] = []
    for document, part in asked.support:
        reason, spans = _located(asked, document, part, documents)
        if reason:
            keeping.omit(asked.id, reason)
            return
        gold += spans
    keeping.keep(
        Question(
            id=asked.id,
            text=asked.text,
            answers=asked.answers,
            kind=asked.kind,
            gold=tuple(dict.fromkeys(gold)),
            contexts=tuple(dict.fromkeys(document for document, _ in asked.support)),
        )
    )


def _located(
    asked: _Asked, document: str, part: str, documents: Documents
) -> tuple[str, list[GoldSpan]]:
    """Return why a supporting document cannot be used, or else its gold spans."""
    item = item_id(uri_of(document), 0)
    unplaced = [GoldSpan(item_id=item, start=0, stop=0)]
    if part == "image":
        if document not in documents.images:
            return NO_IMAGE, []
        return "", [GoldSpan(item_id=item, start=0, stop=1)]
    if part == "table":
        rows = documents.tables.get(document)
        if rows is None:
            return NO_TABLE, []
        cells = [cell for cell in asked.cells if is_cell(rows, *cell)]
        if asked.cells and not cells:
            return NO_CELL, []
        spans = [GoldSpan(item_id=item, start=r, stop=r + 1, column=c) for r, c in cells]
        return "", spans or unplaced
    text = documents.texts.get(document)
    if text is None:
        return NO_TEXT, []
    intervals = _intervals(text, [each for each in asked.places if each[0] == document])
    found = intervals or spans_of_any(text, asked.words)
    return "", [GoldSpan(item_id=item, start=a, stop=b) for a, b in found] or unplaced


def _intervals(text: str, places: Sequence[tuple[str, int, str]]) -> list[tuple[int, int]]:
    """Return where the marked answers stand in a text, as character intervals.

    An offset counts characters in some records and bytes in others; where neither fits, the words
    are searched.
    """
    found: dict[tuple[int, int], None] = {}
    encoded = text.encode()
    for _, offset, words in places:
        in_chars = len(encoded[:offset].decode(errors="ignore"))
        starts = [start for start in (offset, in_chars) if text.startswith(words, start)]
        spans = [(start, start + len(words)) for start in starts[:1]]
        found.update(dict.fromkeys(spans or answer_spans(text, words)))
    return list(found)


def _notes(folder: Path, documents: Documents) -> list[str]:
    notes = [
        f"{name} is not there: questions with gold in it are omitted, and so are its items"
        for name in (TABLES, TEXTS, IMAGES)
        if not official(folder, name)
    ]
    if documents.n_missing_images:
        notes.append(f"{documents.n_missing_images:,} image files are not in {PICTURES}")
    if documents.unreadable:
        notes.append(
            f"{len(documents.unreadable):,} images cannot be read, such as "
            f"{documents.unreadable[0]}"
        )
    return notes


BENCHMARK = Benchmark(
    name="mmqa",
    title="MultiModalQA",
    group="in_domain",
    metric="mmqa",
    licence="not stated (tables and texts CC BY-SA, from Wikipedia; images each their own)",
    homepage="https://allenai.github.io/multimodalqa/",
    files=_FILES,
    load=load,
    kinds=(
        "TextQ",
        "TableQ",
        "ImageQ",
        "ImageListQ",
        "Compose(TextQ,TableQ)",
        "Compose(TableQ,ImageListQ)",
        "Compose(ImageQ,TableQ)",
        "Compose(TableQ,TextQ)",
        "Compose(TextQ,ImageListQ)",
        "Compose(ImageQ,TextQ)",
        "Compare(Compose(TableQ,ImageQ),TableQ)",
        "Compare(TableQ,Compose(TableQ,TextQ))",
        "Intersect(TableQ,TextQ)",
        "Intersect(ImageListQ,TableQ)",
    ),
)
