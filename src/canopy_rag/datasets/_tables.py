"""Tables of benchmarks as table items whose ids depend on the table's own name alone."""

from __future__ import annotations

from collections.abc import Sequence

from canopy_rag.core.trees import table_tree
from canopy_rag.core.types import Item, Source, TablePayload, item_id

Row = Sequence[str]


def table_item(
    corpus: str,
    uri: str,
    title: str,
    *,
    header: Row,
    rows: Sequence[Row],
    section: Sequence[str] = (),
    caption: str = "",
) -> Item:
    """Return a table as one item, however long; its leaves are the rows.

    Args:
        corpus: The benchmark's name.
        uri: Unique name of the table.
        title: Title of the page.
        header: Column names as written; empty without.
        rows: Data rows, cells as written.
        section: Headings above the table, outermost first.
        caption: What the table is about.
    """
    return Item(
        id=item_id(uri, 0),
        modality="table",
        title=title,
        payload=TablePayload(
            header=tuple(header), rows=tuple(tuple(row) for row in rows), caption=caption
        ),
        nodes=table_tree(len(rows)),
        source=Source(uri=uri),
        section=tuple(section),
        corpus=corpus,
    )


def is_cell(rows: Sequence[Sequence[object]], row: int, column: int) -> bool:
    """Whether a table has this cell, both counted from 0."""
    return 0 <= row < len(rows) and 0 <= column < len(rows[row])
