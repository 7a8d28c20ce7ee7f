"""HotpotQA: two Wikipedia paragraphs per question, with supporting sentences."""

from __future__ import annotations

from pathlib import Path

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.datasets._paragraphs import read_items, read_questions
from canopy_rag.datasets._read import Record, found_files, nothing_found
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded

_FILES = (
    ExpectedFile(
        path="hotpot_dev_distractor_v1.json",
        what="7,405 questions with ten paragraphs each, two of them gold",
    ),
    ExpectedFile(
        path="hotpot_dev_fullwiki_v1.json",
        what="the same questions with retrieved paragraphs, which may lack the gold ones",
    ),
    ExpectedFile(path="hotpot_train_v1.1.json", what="90,447 questions of the train part"),
)


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read HotpotQA; leaves are the sentences of the files, so no splitter is needed.

    Raises:
        DataError: If no official file is there, or naming file and place of what is wrong.
    """
    del splitter
    names = [each.path for each in _FILES]
    files = found_files(folder, *names)
    if not files:
        raise nothing_found("hotpotqa", folder, names)
    keeping = read_questions("hotpotqa", files, "", _answers)
    return keeping.loaded("hotpotqa", lambda: read_items("hotpotqa", files, "", set()))


def _answers(record: Record) -> tuple[str, ...]:
    return (record.want("answer", str),)


BENCHMARK = Benchmark(
    name="hotpotqa",
    title="HotpotQA",
    group="in_domain",
    metric="hotpotqa",
    licence="CC BY-SA 4.0",
    homepage="https://hotpotqa.github.io",
    files=_FILES,
    load=load,
    kinds=("bridge", "comparison"),
)
