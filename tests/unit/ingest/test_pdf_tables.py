from __future__ import annotations

import random

import pytest

from canopy_rag.ingest.pdf_layout import joint
from canopy_rag.ingest.pdf_page import Run
from canopy_rag.ingest.pdf_rules import Edge
from canopy_rag.ingest.pdf_tables import PageTable, find_tables, same_columns


def run(text: str, left: float, top: float, size: float = 8) -> Run:
    """Return a run whose characters are half as wide as high."""
    width = size / 2
    boxes = tuple(
        (left + at * width, top, left + (at + 1) * width, top + size) for at in range(len(text))
    )
    return Run(text, boxes, (left, top, boxes[-1][2], top + size), size, bold=False)


def box(left: float, top: float, right: float, bottom: float) -> list[Edge]:
    return [
        Edge(left, top, right, top),
        Edge(left, bottom, right, bottom),
        Edge(left, top, left, bottom),
        Edge(right, top, right, bottom),
    ]


def only(edges: list[Edge], runs: list[Run]) -> PageTable:
    ((table, _),) = find_tables(edges, runs)
    return table


def test_names_over_several_columns_are_part_of_each_name() -> None:
    edges = [*box(0, 0, 100, 40), *box(100, 0, 300, 40), *box(0, 40, 100, 60)]
    edges += [*box(100, 40, 200, 60), *box(200, 40, 300, 60)]
    runs = [run("state", 10, 20), run("Redemption", 180, 5), run("Hand", 130, 25)]
    runs += [run("Long", 230, 25), run("Iowa", 10, 45), run("12", 150, 45), run("7", 250, 45)]
    edges += [*box(0, 60, 100, 80), *box(100, 60, 200, 80), *box(200, 60, 300, 80)]
    runs += [run("Ohio", 10, 65), run("3", 150, 65), run("4", 250, 65)]
    table = only(edges, runs)
    assert table.header == ("state", "Redemption Hand", "Redemption Long")
    assert table.rows == [("Iowa", "12", "7"), ("Ohio", "3", "4")]


def test_a_run_over_a_cell_border_is_cut_there() -> None:
    edges = [side for x in (0, 100) for y in (0, 20, 40) for side in box(x, y, x + 100, y + 20)]
    runs = [run("name", 10, 5), run("n", 150, 5), run("abc", 10, 25), run("5", 150, 25)]
    runs.append(run("324 55 million", 84, 45))
    table = only(edges, runs)
    assert table.rows[-1] == ("324", "55 million")


def test_one_text_over_all_columns_at_the_top_is_the_caption() -> None:
    edges = [*box(0, 0, 200, 20)]
    edges += [side for x in (0, 100) for y in (20, 40, 60) for side in box(x, y, x + 100, y + 20)]
    runs = [run("Towns in 2024", 60, 5), run("town", 10, 25), run("n", 150, 25)]
    runs += [run("Rome", 10, 45), run("28", 150, 45), run("Bari", 10, 65), run("3", 150, 65)]
    table = only(edges, runs)
    assert table.captions == ["Towns in 2024"]
    assert table.header == ("town", "n")


def test_wide_cells_below_a_table_are_left_to_the_text() -> None:
    edges = [side for x in (0, 100) for y in (0, 20, 40) for side in box(x, y, x + 100, y + 20)]
    edges += box(0, 60, 200, 80)
    runs = [run("town", 10, 5), run("n", 150, 5), run("Rome", 10, 25), run("28", 150, 25)]
    runs += [run("Bari", 10, 45), run("3", 150, 45)]
    note = run("Source: nobody", 10, 65)
    ((table, inside),) = find_tables(edges, [*runs, note])
    assert table.rows == [("Rome", "28"), ("Bari", "3")]
    assert note not in inside


@pytest.mark.parametrize("n_columns", [0, 1], ids=["one cell", "one column"])
def test_boxes_of_one_column_are_no_table(n_columns: int) -> None:
    edges = [side for y in range(0, 100, 20) for side in box(0, y, 100, y + 20 * (1 + n_columns))]
    runs = [run(f"line {at}", 10, 20 * at + 5) for at in range(5)]
    assert find_tables(edges, runs) == []


def test_a_drawing_of_many_lines_is_no_table() -> None:
    place = random.Random(0)
    edges: list[Edge] = []
    for _ in range(6000):
        x, y, length = place.random() * 600, place.random() * 800, place.random() * 30
        edges += [Edge(x, y, x + length, y), Edge(x, y, x, y + length)]
    assert find_tables(edges, [run("a label", 100, 100)]) == []


def test_columns_are_the_same_within_the_width_of_a_rule() -> None:
    assert same_columns((0, 100, 200), (1, 101, 199))
    assert not same_columns((0, 100, 200), (0, 110, 200))
    assert not same_columns((0, 100), (0, 100, 200))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("one", "two", " "),
        ("well-", "known", ""),
        ("2018–", "23", ""),
        ("a –", "b", " "),
        ("https://", "example.org", ""),
        ("漢字", "仮名", ""),
        ("漢字", "word", " "),
        ("ภาษา", "ไทย", ""),
        ("", "first", ""),
    ],
)
def test_lines_join_as_their_script_does(before: str, after: str, expected: str) -> None:
    assert joint(before, after) == expected
