"""FlashRAG's JSON Lines: questions with golden answers, and a corpus of titled contents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, Source, TablePayload, TextPayload, item_id
from canopy_rag.datasets._documents import document_uri, identity, text_nodes
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._read import Record, found_files, json_lines, nothing_found
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.jsonl import NO_GOLD, NO_ITEM, OUTSIDE

_NAME = "flashrag"
_OURS = "canopy"
"""Key of what the format has no place for, in a question's `metadata`."""


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read the `*.jsonl` files of a folder: lines with `question`, and lines with `contents`.

    The first line of `contents` is the title, often in quotes, and the rest the text. The format
    has no gold evidence; `write` keeps ours in `metadata`. Questions without are kept and counted
    in a note.

    Raises:
        DataError: If there is no such file, or naming file, line and field.
    """
    files = found_files(folder, "*.jsonl")
    if not files:
        raise nothing_found(_NAME, folder, ["*.jsonl"])
    questions = list(_lines(files, "question"))
    wanted = {uri for record in questions for uri, _ in _gold(record)}
    lengths = _lengths(files, wanted)
    keeping = Keeping()
    n_without = 0
    for record in questions:
        question_id = identity(record)
        if not keeping.is_new(question_id, record.path):
            continue
        gold = _gold(record)
        n_without += not gold
        if any(uri not in lengths for uri, _ in gold):
            keeping.omit(question_id, NO_ITEM)
        elif any(not 0 <= span.start <= span.stop <= lengths[uri] for uri, span in gold):
            keeping.omit(question_id, OUTSIDE)
        else:
            keeping.keep(_question(question_id, record, [span for _, span in gold]))
    notes = [f"{NO_GOLD} ({n_without:,})"] if n_without else []
    return keeping.loaded(_NAME, lambda: _items(files, splitter), notes)


def write(loaded: Loaded, folder: Path) -> list[Path]:
    """Write a benchmark as FlashRAG reads it: `<name>.jsonl` and `<name>_corpus.jsonl`.

    Tables are written a row a line, `header: cell; ...`. Items without words are left out, and so
    is gold in them. Kind, gold and the rest go to `metadata.canopy`, from which `load` takes them.

    Args:
        loaded: What is written; its items are streamed once.
        folder: Made if it is not there.

    Returns:
        The two files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    corpus, questions = folder / f"{loaded.name}_corpus.jsonl", folder / f"{loaded.name}.jsonl"
    wanted = {span.item_id for question in loaded.questions for span in question.gold}
    row_starts: dict[str, list[int]] = {}
    with corpus.open("w", encoding="utf-8") as stream:
        for item in loaded.items():
            text, starts = _contents(item)
            if text:
                record = {"id": item.id, "contents": f'"{_title(item)}"\n{text}'}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
                if item.id in wanted:
                    row_starts[item.id] = starts
    with questions.open("w", encoding="utf-8") as stream:
        for question in loaded.questions:
            stream.write(json.dumps(_written(question, row_starts), ensure_ascii=False) + "\n")
    return [questions, corpus]


def _lines(files: Sequence[Path], key: str) -> Iterator[Record]:
    for path in files:
        for record in json_lines(path):
            if "question" not in record.fields and "contents" not in record.fields:
                raise record.error("needs 'question' or 'contents'")
            if key in record.fields:
                yield record


def _titled(record: Record) -> tuple[str, str]:
    contents = record.want("contents", str)
    title, newline, text = contents.partition("\n")
    if not newline:
        return "", contents
    return title.strip().removeprefix('"').removesuffix('"'), text


def _lengths(files: Sequence[Path], wanted: set[str]) -> dict[str, int]:
    """Return the lengths of the texts that gold is in, if any question has gold."""
    if not wanted:
        return {}
    found: dict[str, int] = {}
    for record in _lines(files, "contents"):
        uri = document_uri(_NAME, identity(record))
        if uri in wanted:
            found[uri] = len(_titled(record)[1])
    return found


def _items(files: Sequence[Path], splitter: SentenceSplitter) -> Iterator[Item]:
    for record in _lines(files, "contents"):
        title, text = _titled(record)
        if text.strip():
            uri = document_uri(_NAME, identity(record))
            yield Item(
                id=item_id(uri, 0),
                modality="text",
                title=title,
                payload=TextPayload(text=text),
                nodes=text_nodes(text, splitter),
                source=Source(uri=uri),
                corpus=_NAME,
            )


def _ours(record: Record) -> Record:
    metadata = record.fields.get("metadata")
    inside = metadata.get(_OURS) if isinstance(metadata, dict) else None
    return Record(record.path, f"{record.where}, metadata", inside or {})


def _gold(record: Record) -> list[tuple[str, GoldSpan]]:
    """Return a question's gold spans, each with the name of its document."""
    ours = _ours(record)
    found: list[tuple[str, GoldSpan]] = []
    for part in ours.parts("gold") if "gold" in ours.fields else []:
        uri = document_uri(_NAME, part.want("id", str))
        span = GoldSpan(
            item_id=item_id(uri, 0),
            start=part.want("start", int),
            stop=part.want("stop", int),
            hop=part.want("hop", int) if "hop" in part.fields else None,
        )
        found.append((uri, span))
    return found


def _question(question_id: str, record: Record, gold: Sequence[GoldSpan]) -> Question:
    ours = _ours(record)

    def texts(source: Record, name: str) -> tuple[str, ...]:
        return tuple(source.texts(name)) if name in source.fields else ()

    return Question(
        id=question_id,
        text=record.want("question", str),
        answers=tuple(record.texts("golden_answers")),
        kind=ours.optional("kind", str, ""),
        gold=tuple(gold),
        contexts=texts(ours, "contexts"),
        options=texts(record, "choices"),
        scale=ours.optional("scale", str, ""),
        follow_ups=texts(ours, "follow_ups"),
    )


def _title(item: Item) -> str:
    """Return a title of one line: the first line break of `contents` ends it."""
    return " ".join(item.title.split())


def _contents(item: Item) -> tuple[str, list[int]]:
    """Return an item's words, and where each row of a table begins in them (and the end)."""
    match item.payload:
        case TextPayload(text=text):
            return text, []
        case TablePayload(header=header, rows=rows):
            lines: list[str] = []
            starts = [0]
            for row in rows:
                names = header or ("",) * len(row)
                cells = zip(names, row, strict=False)
                lines.append("; ".join(f"{name}: {cell}" if name else cell for name, cell in cells))
                starts.append(starts[-1] + len(lines[-1]) + 1)
            return "\n".join(lines), starts
        case _:
            return "", []


def _written(question: Question, row_starts: dict[str, list[int]]) -> dict[str, Any]:
    ours: dict[str, Any] = {
        "kind": question.kind,
        "contexts": question.contexts,
        "scale": question.scale,
        "follow_ups": question.follow_ups,
    }
    gold: list[dict[str, Any]] = []
    for span in question.gold:
        if span.item_id not in row_starts:
            continue
        start, stop = int(span.start), int(span.stop)
        starts = row_starts[span.item_id]
        if starts:
            start, stop = starts[start], starts[stop] - 1 if start < stop else starts[start]
        entry = {"id": span.item_id, "start": start, "stop": stop, "hop": span.hop}
        gold.append({key: value for key, value in entry.items() if value is not None})
    record: dict[str, Any] = {
        "id": question.id,
        "question": question.text,
        "golden_answers": question.answers,
        "metadata": {
            _OURS: {"gold": gold} | {key: value for key, value in ours.items() if value},
        },
    }
    return record | ({"choices": question.options} if question.options else {})


BENCHMARK = Benchmark(
    name=_NAME,
    title="FlashRAG's JSON Lines",
    group="extra",
    metric="squad",
    licence="that of the data",
    homepage="https://github.com/RUC-NLPIR/FlashRAG",
    files=(
        ExpectedFile(
            path="*.jsonl", what="lines with question, lines with contents", required=True
        ),
    ),
    load=load,
)
