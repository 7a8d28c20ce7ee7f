"""OTT-QA: tables and the introductions of the pages that their cells link to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item, item_id
from canopy_rag.datasets._items import passage_item, passage_uri
from canopy_rag.datasets._keeping import Keeping
from canopy_rag.datasets._ottqa_files import ArchiveFiles, Files, FolderFiles
from canopy_rag.datasets._read import Record, nothing_found
from canopy_rag.datasets._tables import is_cell, table_item
from canopy_rag.datasets.base import Benchmark, ExpectedFile, Loaded
from canopy_rag.datasets.gold import answer_spans

NO_TABLE = "its table is not among the files"
NO_NODE = "no answer node points at a cell or passage that holds the answer"

_PARTS = ("dev", "train")
_TRACED = "released_data/{part}.traced.json"
_TABLE_IDS = "released_data/train_dev_test_table_ids.json"
_TABLE = "data/traindev_tables_tok/{table_id}.json"
_PASSAGES = "data/traindev_request_tok/{table_id}.json"

_FILES = (
    ExpectedFile(path="released_data/dev.traced.json", what="2,214 questions with answer nodes"),
    ExpectedFile(path="released_data/train.traced.json", what="41,469 questions of the train part"),
    ExpectedFile(path=_TABLE_IDS, what="which tables belong to which part"),
    ExpectedFile(path="data/traindev_tables_tok/*.json", what="a table each"),
    ExpectedFile(path="data/traindev_request_tok/*.json", what="the passages linked from a table"),
    ExpectedFile(path="*.tar.xz", what="the same layout packed; read without unpacking"),
)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table file: the table, and the passages that its cells link to."""

    record: Record
    passages: Mapping[str, str]
    """Link -> text."""

    @property
    def rows(self) -> list[list[str]]:
        return [_cells(self.record, row) for row in self.record.want("data", list)]

    def item(self, table_id: str) -> Item:
        headings = self.record.optional("section_title", str, "").split(" -- ")
        return table_item(
            "ottqa",
            _table_uri(table_id),
            self.record.want("title", str),
            header=_cells(self.record, self.record.want("header", list)),
            rows=self.rows,
            section=[heading for heading in headings if heading.strip()],
        )


def load(folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read OTT-QA from the official layout, packed or not, or from several of them.

    Items are the tables of the loaded parts and, once each, the passages they link to; text is
    tokenised as in the files. An answer node in the table makes its row gold. One in a passage
    makes gold the row with the link (hop 0) and the answer wherever it stands in the passage
    (hop 1). All nodes count, although they come from string matching and some are spurious:
    `has_clear_rows` tells the questions where that hardly matters. The kind says where the nodes
    are: `table`, `passage` or `both`.

    Args:
        folder: Holds the official layout, or a `.tar.xz` of it.
        splitter: Finds the sentences of passages.

    Raises:
        DataError: If no official file is there, or naming file and place of what is wrong.
    """
    sources: list[Files] = [ArchiveFiles(path) for path in sorted(folder.glob("*.tar.xz"))]
    sources.append(FolderFiles(folder))
    keeping = Keeping()
    tables: dict[str, Files] = {}
    n_files = 0
    for source in sources:
        for part in _PARTS:
            name = _TRACED.format(part=part)
            if not source.has(name):
                continue
            n_files += 1
            for table_id in _part_tables(source, part):
                tables.setdefault(table_id, source)
            for record in source.records(name):
                _read_question(record, source, tables, keeping)
    if not n_files:
        raise nothing_found("ottqa", folder, [each.path for each in _FILES])
    present = {name: source for name, source in tables.items() if _has_table(source, name)}
    return keeping.loaded("ottqa", lambda: _items(present, splitter), _notes(tables, present))


def has_clear_rows(question: Question, most: int = 2) -> bool:
    """Whether at most so many table rows are gold; with more, some are spurious.

    Args:
        question: A question of OTT-QA.
        most: Rows, over all its tables.
    """
    return len({(gold.item_id, gold.start) for gold in _row_spans(question.gold)}) <= most


def _row_spans(gold: Sequence[GoldSpan]) -> list[GoldSpan]:
    return [span for span in gold if span.column is not None]


def _part_tables(source: Files, part: str) -> list[str]:
    if not source.has(_TABLE_IDS):
        return []
    return Record(Path(_TABLE_IDS), "the object", source.read(_TABLE_IDS)).texts(part)


def _has_table(source: Files, table_id: str) -> bool:
    return source.has(_TABLE.format(table_id=table_id))


def _read_table(source: Files, table_id: str) -> _Table:
    name = _TABLE.format(table_id=table_id)
    links = _PASSAGES.format(table_id=table_id)
    passages = source.read(links) if source.has(links) else {}
    return _Table(
        Record(Path(name), "the table", source.read(name)),
        {link: text for link, text in passages.items() if isinstance(text, str)},
    )


def _read_question(
    record: Record, source: Files, tables: dict[str, Files], keeping: Keeping
) -> None:
    question_id, table_id = record.want("question_id", str), record.want("table_id", str)
    if not keeping.is_new(question_id, source.path):
        return
    if not _has_table(source, table_id):
        keeping.omit(question_id, NO_TABLE)
        return
    tables.setdefault(table_id, source)
    answer, nodes = record.want("answer-text", str), record.want("answer-node", list)
    table = _read_table(source, table_id)
    gold: dict[GoldSpan, None] = {}
    sources: set[str] = set()
    links: dict[str, None] = {}
    for node in nodes:
        link, spans = _node_gold(record, node, table_id, table, answer)
        gold.update(dict.fromkeys(spans))
        if spans:
            sources.add("passage" if link else "table")
            links.update(dict.fromkeys([link] if link else []))
    if not gold:
        keeping.omit(question_id, NO_NODE)
        return
    keeping.keep(
        Question(
            id=question_id,
            text=record.want("question", str),
            answers=(answer,),
            kind="both" if len(sources) == 2 else sources.pop(),
            gold=tuple(gold),
            # Tables share passages, and no item may be on two sides of a split.
            contexts=(table_id, *links),
        )
    )


def _node_gold(
    record: Record, node: object, table_id: str, table: _Table, answer: str
) -> tuple[str, list[GoldSpan]]:
    """Return a node's link, empty for one in the table, and its spans; none if it is nowhere."""
    match node:
        case [str(), [int(row), int(column)], None | str() as link, "passage" | "table" as kind]:
            pass
        case _:
            raise record.error(
                "each entry of 'answer-node' must be [text, [row, column], link, kind]"
            )
    rows = table.rows
    if not is_cell(rows, row, column):
        return "", []
    in_table = GoldSpan(
        item_id=item_id(_table_uri(table_id), 0), start=row, stop=row + 1, column=column
    )
    if kind == "table":
        return "", [in_table] if answer_spans(rows[row][column], answer) else []
    text = table.passages.get(link or "", "")
    found = answer_spans(text, answer)
    if link is None or not found:
        return "", []
    passage_id = item_id(_passage_uri(link, text), 0)
    bridge = GoldSpan(item_id=in_table.item_id, start=row, stop=row + 1, column=column, hop=0)
    inside = [GoldSpan(item_id=passage_id, start=start, stop=stop, hop=1) for start, stop in found]
    return link, [bridge, *inside]


def _items(tables: Mapping[str, Files], splitter: SentenceSplitter) -> Iterator[Item]:
    seen: set[str] = set()
    for table_id, source in tables.items():
        table = _read_table(source, table_id)
        yield table.item(table_id)
        for link, text in table.passages.items():
            uri = _passage_uri(link, text)
            if uri not in seen and text.strip():
                seen.add(uri)
                yield passage_item("ottqa", uri, _title(link), text, splitter.split(text))


def _table_uri(table_id: str) -> str:
    return f"ottqa/{table_id}"


def _passage_uri(link: str, text: str) -> str:
    return passage_uri("ottqa", link, text)


def _title(link: str) -> str:
    """Return the title of the page that a link leads to.

    >>> _title("/wiki/Jos%C3%A9_Mart%C3%AD")
    'José Martí'
    """
    return unquote(link.removeprefix("/wiki/")).replace("_", " ")


def _cells(record: Record, cells: Any) -> list[str]:
    """Return the texts of cells that are [text, [link, ...]]."""
    match cells:
        case [*entries]:
            found = [entry[0] for entry in entries if isinstance(entry, list) and entry]
            if len(found) == len(entries) and all(isinstance(cell, str) for cell in found):
                return found
    raise record.error("each cell must be [text, [link, ...]]")


def _notes(tables: Mapping[str, Files], present: Mapping[str, Files]) -> list[str]:
    missing = [table_id for table_id in tables if table_id not in present]
    bare = [
        table_id
        for table_id, source in present.items()
        if not source.has(_PASSAGES.format(table_id=table_id))
    ]
    return [
        f"{len(names):,} {what}, such as {names[0]!r}"
        for names, what in ((missing, "tables have no file"), (bare, "tables have no passages"))
        if names
    ]


BENCHMARK = Benchmark(
    name="ottqa",
    title="OTT-QA",
    group="in_domain",
    metric="squad",
    licence="MIT (questions); CC BY-SA (tables and passages, from Wikipedia)",
    homepage="https://github.com/wenhuchen/OTT-QA",
    files=_FILES,
    load=load,
    kinds=("passage", "table", "both"),
)
