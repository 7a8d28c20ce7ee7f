from __future__ import annotations

import pytest

from canopy_rag.cli.places import interval, place
from canopy_rag.core.evidence import Fragment
from canopy_rag.core.provenance import Location
from canopy_rag.core.trees import table_tree
from canopy_rag.core.types import Item, Place, Source, TablePayload


def _fragment(location: Location) -> Fragment:
    return Fragment(
        n=1,
        item_id="a",
        node=0,
        start=0,
        stop=1,
        unit="char",
        text="x",
        media=None,
        similarity=0.5,
        parent_similarity=None,
        source=location,
    )


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (Location(uri="a.md"), ""),
        (Location(uri="a.pdf", places=(Place(page=3),)), "page 3"),
        (Location(uri="a.pdf", places=(Place(page=3), Place(page=4))), "pages 3-4"),
        (Location(uri="a.xlsx", sheet="Sales", rows=(0,)), "sheet Sales, row 1"),
        (Location(uri="a.csv", rows=(4, 5, 6)), "rows 5-7"),
        (Location(uri="a.webm", time=(19.9, 80.0)), "0:19.9-1:20"),
    ],
)
def test_a_place_is_told_as_people_count(location: Location, expected: str) -> None:
    assert place(_fragment(location)) == expected


def test_rows_of_a_later_part_of_a_table_count_from_its_beginning() -> None:
    item = Item(
        id="t",
        modality="table",
        title="T",
        payload=TablePayload(header=("a",), rows=(("1",), ("2",))),
        nodes=table_tree(2),
        source=Source(uri="t.csv", ordinal=1, first_row=200),
    )
    assert interval(item, item.nodes[0]) == "rows 201-202"
    assert interval(item, item.nodes[1]) == "row 201"
