"""2WikiMultiHopQA: HotpotQA's layout, with aliases of answers and a pool of paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.types import Item
from canopy_rag.datasets._items import passage_item, passage_uri
from canopy_rag.datasets._paragraphs import read_items, read_questions
from canopy_rag.datasets._read import (
    Record,
    found_files,
    json_lines,
    json_records,
    nothing_found,
)
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded

_NAME = "2wikimultihopqa"
_QUESTIONS = ("dev.json", "train.json")
_ALIASES = "id_aliases.json"
_POOL = "2wikimultihopqa_corpus.json"
_FILES = (
    ExpectedFile(path=_QUESTIONS[0], what="12,576 questions with ten paragraphs each"),
    ExpectedFile(path=_QUESTIONS[1], what="167,454 questions of the train part"),
    ExpectedFile(path=_ALIASES, what="aliases of answers, JSON Lines; without it none are known"),
    ExpectedFile(path=_POOL, what="HippoRAG's paragraphs, which join the pool"),
)


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read 2WikiMultiHopQA. Sentences are those of the files, in the pool's those of the splitter.

    Raises:
        DataError: If no question file is there, or naming file and place of what is wrong.
    """
    files = found_files(folder, *_QUESTIONS)
    if not files:
        raise nothing_found(_NAME, folder, _QUESTIONS)
    alias_files, pools = found_files(folder, _ALIASES), found_files(folder, _POOL)
    aliases = _aliases(alias_files, files)

    def answers(record: Record) -> tuple[str, ...]:
        answer_id = record.optional("answer_id", str, "")
        return tuple(dict.fromkeys((record.want("answer", str), *aliases.get(answer_id, ()))))

    def items() -> Iterator[Item]:
        seen: set[str] = set()
        yield from read_items(_NAME, files, " ", seen)
        for path in pools:
            yield from _pool_items(path, splitter, seen)

    notes = [] if alias_files else [f"{_ALIASES} is missing: only the answer itself is accepted"]
    return read_questions(_NAME, files, " ", answers).loaded(_NAME, items, notes)


def _aliases(alias_files: Sequence[Path], files: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """Return the other names of the entities that are an answer here."""
    if not alias_files:
        return {}
    wanted = {
        record.optional("answer_id", str, "") for path in files for record in json_records(path)
    }
    found: dict[str, tuple[str, ...]] = {}
    for path in alias_files:
        for record in json_lines(path):
            entity = record.want("Q_id", str)
            if entity in wanted:
                demonyms = record.texts("demonyms") if "demonyms" in record.fields else []
                found[entity] = (*record.texts("aliases"), *demonyms)
    return found


def _pool_items(path: Path, splitter: SentenceSplitter, seen: set[str]) -> Iterator[Item]:
    for record in json_records(path):
        title, text = record.want("title", str), record.want("text", str)
        uri = passage_uri(_NAME, title, text)
        if uri not in seen and text.strip():
            seen.add(uri)
            yield passage_item(_NAME, uri, title, text, splitter.split(text))


BENCHMARK = Benchmark(
    name=_NAME,
    title="2WikiMultiHopQA",
    group="out_of_domain",
    metric="hotpotqa",
    licence="Apache-2.0; Wikipedia's text CC BY-SA",
    homepage="https://github.com/Alab-NII/2wikimultihop",
    files=_FILES,
    load=load,
    kinds=("comparison", "inference", "compositional", "bridge_comparison"),
)
