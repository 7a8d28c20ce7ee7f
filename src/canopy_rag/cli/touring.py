"""The stops of the demo's tour."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from canopy_rag.api import Canopy, Index
from canopy_rag.cli.answering import cited, source_line
from canopy_rag.cli.drawing import drawings
from canopy_rag.cli.layout import block, single
from canopy_rag.cli.output import Output
from canopy_rag.cli.progress import showing_progress
from canopy_rag.cli.reporting import show_report
from canopy_rag.cli.showing import source
from canopy_rag.cli.wording import clean, of, one_line
from canopy_rag.config import Config
from canopy_rag.core.answer import Answer
from canopy_rag.core.errors import ConfigError, MissingDependencyError
from canopy_rag.core.evidence import Evidence, Shown
from canopy_rag.testing.corpus import SampleQuestion, copy_to, questions

if TYPE_CHECKING:
    from canopy_rag.indexing import IndexReport

MARK = ".canopy-demo"
"""A file in folders that the demo made, and so may write to."""
TREE_QUERY = "What pressure does an espresso machine need?"
MODEL_QUESTION = "Who kept the light alone for 31 nights?"
MODEL_BUDGET = 150
"""Tokens of evidence for the small model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question of the corpus with what came of it."""

    sample: SampleQuestion
    answer: Answer
    found: bool
    """Whether the known answer stands in the evidence."""
    tokens_retrieved: int
    """Of all retrieved items, shown whole: what a reader would get without compression."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        evidence = self.answer.evidence
        return {
            "question": self.sample.question,
            "known_answer": self.sample.answer,
            "known_file": self.sample.file,
            "answer": self.answer.text,
            "sources": [source(fragment) for fragment in cited(self.answer)],
            "found": self.found,
            "tokens": evidence.tokens,
            "tokens_full": evidence.tokens_full,
            "tokens_retrieved": self.tokens_retrieved,
        }


def prepare(folder: Path) -> Path:
    """Copy the corpus into `folder`/files and return that.

    Raises:
        ConfigError: If the folder is there and not the demo's, or cannot be written.
    """
    if folder.exists() and not (folder / MARK).is_file() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is there already and was not made by the demo; name another with --dir"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("made by canopy demo; may be deleted\n", encoding="utf-8")
        copy_to(folder / "files")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}; use --dir") from error
    return folder / "files"


def build(output: Output, folder: Path, config: Config) -> tuple[Index, IndexReport]:
    """Index the sample files and show the summary."""
    _title(output, f"Indexing texts, tables, pictures and a video in {folder / 'files'}")
    index = Index.open(create=True, config=config)
    started = time.perf_counter()
    with showing_progress(output) as on_progress:
        report = index.add(folder / "files", prune=True, on_progress=on_progress)
    show_report(output, report, index)
    output.show(Text.assemble(("time   ", "bold"), f"{time.perf_counter() - started:.1f} s"))
    return index, report


def ask_all(output: Output, index: Index) -> list[Asked]:
    """Ask the corpus's questions without a chat model and show what was quoted for each."""
    _title(output, "Asking questions with known answers, without a chat model")
    canopy = Canopy(index, "none")
    asked: list[Asked] = []
    for sample in questions():
        answer = canopy.ask(sample.question)
        found = sample.answered_by(answer.evidence.text)
        whole = _tokens_retrieved(index, answer)
        asked.append(Asked(sample=sample, answer=answer, found=found, tokens_retrieved=whole))
        _show_asked(output, asked[-1])
    n_found = sum(each.found for each in asked)
    tokens = sum(each.answer.evidence.tokens for each in asked)
    tokens_retrieved = sum(each.tokens_retrieved for each in asked)
    output.show(
        "",
        Text.assemble(
            (f"{n_found} of {len(asked)} known answers", "bold"),
            " are in the evidence, which is ",
            (of(tokens, tokens_retrieved), "bold"),
            " of the retrieved items.",
        ),
    )
    return asked


def _tokens_retrieved(index: Index, answer: Answer) -> int:
    found = dict.fromkeys(hit.item_id for each in answer.rounds for hit in each.hits)
    whole = tuple(
        Shown(
            item=index.item(item_id),
            kept=(0,),
            why="whole",
            query=answer.question,
            round=1,
            rank=rank,
            similarity=0.0,
        )
        for rank, item_id in enumerate(found, start=1)
    )
    return Evidence(entries=whole, meter=answer.evidence.meter).tokens


def _show_asked(output: Output, asked: Asked) -> None:
    marks = ("✓", "✗") if output.unicode else ("yes", "no ")
    mark, style = (marks[0], "green") if asked.found else (marks[1], "red")
    output.show(Text.assemble((f"{mark} ", style), (asked.sample.question, "bold")))
    quote = _best_quote(asked.answer)
    for fragment in cited(asked.answer)[:1]:
        output.show(
            single(output, Text(quote), 2), single(output, Text(source(fragment), "cyan"), 2)
        )
    evidence = asked.answer.evidence
    state = "in the evidence" if asked.found else "not in the evidence"
    size = of(evidence.tokens, asked.tokens_retrieved)
    known = Text(f"known answer: {asked.sample.answer}, {state}: {size}", "dim")
    output.show(*block(output, known, 2))


def _best_quote(answer: Answer) -> str:
    """Return the first quotation of an extractive answer, or all of another one."""
    quotes = [line[2:] for line in answer.text.splitlines() if line.startswith("- ")]
    return one_line(quotes[0] if quotes else answer.text)


def draw_tree(output: Output, index: Index) -> None:
    """Draw the tree of the best hit."""
    _title(output, f"What the paper's rule keeps of an item, and why: {TREE_QUERY}")
    paper = replace(index.config, select=replace(index.config.select, select="paper"))
    explained = Index.open(index.path, config=paper).explain(TREE_QUERY, k=1)
    output.show(*drawings(explained, output.width, unicode=output.unicode))
    output.show(
        Text(
            "A region is split into those of its parts that are at least as similar to the query "
            "as the region itself; one without such a part is kept. Answers above used the "
            "default, --select set: what stands out among the parts of all items found.",
            "dim",
        )
    )


def ask_model(output: Output, config: Config) -> dict[str, Any] | None:
    """Let the embedded chat model answer one question, if it is installed.

    It is given few tokens of evidence: it is slow on a long prompt, and soon confused.

    Returns:
        Question, answer and what the model was given; None if it is not installed.
    """
    _title(output, f"Asking the small embedded chat model: {MODEL_QUESTION}")
    small = replace(config.select, budget=MODEL_BUDGET)
    config = replace(config, select=small, retrieval=replace(config.retrieval, k=3))
    try:
        canopy = Canopy(Index.open(config=config), "local")
    except MissingDependencyError as error:
        output.show(f"Left out. {error}")
        return None
    answer = canopy.ask(MODEL_QUESTION)
    canopy.close()
    evidence = answer.evidence
    output.show(Text(clean(answer.text), "bold"), "")
    output.show(f"The model was given {of(evidence.tokens, evidence.tokens_full)}:")
    for fragment in evidence.fragments:
        output.show(source_line(output, fragment))
    output.show(Text("It has 135 million parameters: do not expect much of it.", "dim"))
    return {
        "question": MODEL_QUESTION,
        "answer": answer.text,
        "sources": [source(fragment) for fragment in evidence.fragments],
        "tokens": evidence.tokens,
    }


def show_end(output: Output, folder: Path, seconds: float) -> None:
    """Say how long it took and what to try next."""
    _title(output, f"Done in {seconds:.0f} s. Try next")
    commands: Sequence[str] = (
        f'canopy ask "Which apples are for cider?" --index {folder / ".canopy"}',
        f'canopy explain "What is two metres thick?" --index {folder / ".canopy"}',
        "canopy index YOUR_FOLDER   then   canopy ask YOUR_QUESTION",
        f"rm -r {folder}   removes the sample files and their index",
    )
    for command in commands:
        output.show(Text(f"  {command}", no_wrap=True))


def _title(output: Output, text: str) -> None:
    output.show("", Text(text, "bold cyan"), "")
