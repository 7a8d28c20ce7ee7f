"""TAT-QA: pages of financial reports, each a table with the paragraphs around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, item_id
from canopy_rag.datasets._items import passage_item
from canopy_rag.datasets._keeping import NO_ANSWER, Keeping
from canopy_rag.datasets._read import Record, found_files, json_records, nothing_found
from canopy_rag.datasets._tables import is_cell, table_item
from canopy_rag.datasets._tatqa_header import header_of, n_header_rows
from canopy_rag.datasets._tatqa_trace import Evidence, trace
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded

NO_GOLD = "no gold cell or paragraph was found on its page"

_TITLE_CHARS = 120
_CAPTION_CHARS = 300
_FILES = (
    ExpectedFile(
        path="dataset_tagop/tatqa_dataset_dev.json",
        what="278 pages, 1,668 questions with gold cells and spans (as of May 2021)",
    ),
    ExpectedFile(path="dataset_raw/tatqa_dataset_dev.json", what="the same without gold places"),
    ExpectedFile(
        path="dataset_raw/tatqa_dataset_test_gold.json",
        what="277 pages, 1,663 questions of the test part with gold",
    ),
    ExpectedFile(
        path="dataset_tagop/tatqa_dataset_train.json",
        what="2,201 pages, 13,215 questions of the train part with gold",
    ),
    ExpectedFile(path="dataset_raw/tatqa_dataset_train.json", what="the same without gold places"),
)


@dataclass(frozen=True, slots=True)
class _Page:
    """A context of the file."""

    uid: str
    """The table's."""
    rows: Sequence[Sequence[str]]
    """Of the table, header rows included."""
    n_header: int
    paragraphs: Mapping[int, tuple[str, str]]
    """Order -> uid and text."""

    @property
    def title(self) -> str:
        """The page's heading: the first paragraph, if it is short enough to be one."""
        first = next(iter(self.paragraphs.values()), ("", ""))[1].strip()
        return first if len(first) <= _TITLE_CHARS else ""

    def items(self, splitter: SentenceSplitter) -> Iterator[Item]:
        yield table_item(
            "tatqa",
            _uri(self.uid),
            self.title,
            header=header_of(self.rows[: self.n_header]),
            rows=self.rows[self.n_header :],
            caption=self._caption(),
        )
        for uid, text in self.paragraphs.values():
            if text.strip():
                title = "" if text.strip() == self.title else self.title
                yield passage_item("tatqa", _uri(uid), title, text, splitter.split(text))

    def _caption(self) -> str:
        """Return the first paragraph that announces something, which is nearly always the table."""
        for _, text in self.paragraphs.values():
            announces = text.rstrip().endswith(":") and len(text) <= _CAPTION_CHARS
            if announces and text.strip() != self.title:
                return text.strip()
        return ""


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read TAT-QA; a page's table is one item, and so is each of its paragraphs.

    A page has no title: its items are called by the first paragraph if that has at most 120
    characters, and a table's caption is the first paragraph that ends with a colon. Which rows are
    a table's header is judged from the cells (`n_header_rows`).

    Gold are the cells and characters that the files map an answer to. A cell in the header is
    gold as an empty span at the top of its table: the item is wanted, but the header comes with
    every row. Files without a mapping are searched for the answer and for the numbers of the
    derivation.

    Args:
        folder: Holds `dataset_tagop` or `dataset_raw`.
        splitter: Finds the sentences of paragraphs.

    Raises:
        DataError: If no official file is there, or naming file and place of what is wrong.
    """
    names = [each.path for each in _FILES]
    files = found_files(folder, *names)
    if not files:
        raise nothing_found("tatqa", folder, names)
    keeping = Keeping()
    n_traced = n_header_only = 0
    for path in files:
        for record in json_records(path):
            page = _page(record)
            for part in record.parts("questions"):
                question_id = part.want("uid", str)
                if not keeping.is_new(question_id, path):
                    continue
                evidence = _mapped(part)
                if evidence is None:
                    n_traced += 1
                    evidence = _traced(part, page)
                gold = _gold(page, evidence)
                if "answer" not in part.fields:
                    keeping.omit(question_id, NO_ANSWER)
                elif gold:
                    n_header_only += all(span.start == span.stop for span in gold)
                    keeping.keep(_question(part, page, question_id, gold))
                else:
                    keeping.omit(question_id, NO_GOLD)
    return keeping.loaded("tatqa", lambda: _items(files, splitter), _notes(n_traced, n_header_only))


def _items(files: Sequence[Path], splitter: SentenceSplitter) -> Iterator[Item]:
    seen: set[str] = set()
    for path in files:
        for record in json_records(path):
            for item in _page(record).items(splitter):
                if item.id not in seen:
                    seen.add(item.id)
                    yield item


def _page(record: Record) -> _Page:
    table = record.part("table")
    rows = table.want("table", list)
    if not all(isinstance(row, list) and all(isinstance(c, str) for c in row) for row in rows):
        raise table.error("the field 'table' must hold rows of texts")
    paragraphs = sorted(record.parts("paragraphs"), key=lambda part: part.want("order", int))
    return _Page(
        uid=table.want("uid", str),
        rows=rows,
        n_header=n_header_rows(rows),
        paragraphs={
            part.want("order", int): (part.want("uid", str), part.want("text", str))
            for part in paragraphs
        },
    )


def _question(part: Record, page: _Page, question_id: str, gold: Sequence[GoldSpan]) -> Question:
    return Question(
        id=question_id,
        text=part.want("question", str),
        answers=_answers(part),
        kind=part.want("answer_type", str),
        gold=tuple(gold),
        contexts=(page.uid,),
        scale=part.optional("scale", str, ""),
    )


def _answers(part: Record) -> tuple[str, ...]:
    """Return the answer as the official metric reads it: the spans that are wanted together."""
    answer = part.fields["answer"]
    if isinstance(answer, list):
        return tuple(map(str, answer))
    if part.fields.get("answer_type") == "count":
        try:
            return (str(int(answer)),)
        except (TypeError, ValueError) as error:
            raise part.error(f"the answer of a count must be a number, got {answer!r}") from error
    return (str(answer),)


def _mapped(part: Record) -> Evidence | None:
    """Return the cells and spans that a file maps the answer to; None if it maps none."""
    listed = part.fields.get("mappings")
    entries = listed if isinstance(listed, list) else [part.optional("mapping", dict, {})]
    cells: list[tuple[int, int]] = []
    spans: list[tuple[int, int, int]] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise part.error("each entry of 'mappings' must be an object")
        for key, value in entry.items():
            if key == "table":
                cells += _pairs(part, value)
            elif key == "paragraph" and isinstance(value, dict):
                for order, pairs in value.items():
                    spans += [(_order(part, order), *pair) for pair in _pairs(part, pairs)]
            else:
                order = key.removeprefix("paragraph_")
                spans += [(_order(part, order), *pair) for pair in _pairs(part, value)]
    return Evidence(tuple(cells), tuple(spans)) if cells or spans else None


def _pairs(part: Record, value: Any) -> list[tuple[int, int]]:
    """Return a list of pairs, or a single pair, of whole numbers."""
    match value:
        case [int(first), int(second)]:
            return [(first, second)]
        case [*entries]:
            pairs = [(a, b) for a, b in (e for e in entries if isinstance(e, list) and len(e) == 2)]
            if len(pairs) == len(entries) and all(isinstance(n, int) for p in pairs for n in p):
                return pairs
    raise part.error(f"a place of the mapping must be two whole numbers, got {value!r}")


def _order(part: Record, text: str) -> int:
    if not text.isdecimal():
        raise part.error(f"the mapping names a paragraph {text!r}, which is no number")
    return int(text)


def _traced(part: Record, page: _Page) -> Evidence:
    answer = part.fields.get("answer")
    orders = part.texts("rel_paragraphs") if part.fields.get("rel_paragraphs") else []
    related = [int(order) for order in orders if order.isdecimal()]
    return trace(
        answers=[str(each) for each in answer] if isinstance(answer, list) else [],
        derivation=part.optional("derivation", str, ""),
        rows=() if part.fields.get("answer_from") == "text" else page.rows,
        paragraphs={n: page.paragraphs[n][1] for n in related if n in page.paragraphs},
    )


def _gold(page: _Page, evidence: Evidence) -> list[GoldSpan]:
    """Return the spans of evidence that is on the page; cells of the header come as empty ones."""
    table_id = item_id(_uri(page.uid), 0)
    found: dict[GoldSpan, None] = {}
    for row, column in evidence.cells:
        if is_cell(page.rows, row, column):
            start = max(row - page.n_header, 0)
            stop = row + 1 - page.n_header if row >= page.n_header else start
            found[GoldSpan(item_id=table_id, start=start, stop=stop, column=column)] = None
    for order, start, stop in evidence.spans:
        uid, text = page.paragraphs.get(order, ("", ""))
        if 0 <= start < stop <= len(text):
            found[GoldSpan(item_id=item_id(_uri(uid), 0), start=start, stop=stop)] = None
    return list(found)


def _uri(uid: str) -> str:
    return f"tatqa/{uid}"


def _notes(n_traced: int, n_header_only: int) -> list[str]:
    notes = []
    if n_traced:
        notes.append(
            f"{n_traced:,} questions come from a file without gold places; theirs were searched by "
            "answer and derivation"
        )
    if n_header_only:
        notes.append(
            f"{n_header_only:,} questions ask for what stands in a table's header (such as a year) "
            "and have no gold row"
        )
    return notes


BENCHMARK = Benchmark(
    name="tatqa",
    title="TAT-QA",
    group="out_of_domain",
    metric="tatqa",
    licence="CC BY 4.0 (data); MIT (code)",
    homepage="https://nextplusplus.github.io/TAT-QA/",
    files=_FILES,
    load=load,
    kinds=("span", "multi-span", "arithmetic", "count"),
)
