from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from canopy_rag.core.trees import check_tree
from canopy_rag.integrations._refining import Given, Refiner
from canopy_rag.integrations._tables import pipe_tables
from tests.unit.integrations.conftest import TABLE


def rows(text: str) -> list[list[str]]:
    return [[text[slice(*row)] for row in table.rows] for table in pipe_tables(text)]


def test_a_markdown_table_is_found_with_its_header_and_rows() -> None:
    (table,) = pipe_tables(f"Before.\n\n{TABLE}\nAfter.")
    text = f"Before.\n\n{TABLE}\nAfter."
    assert text[slice(*table.header)] == "| name | sport | born |\n|---|:-:|---|"
    assert [text[slice(*row)].split("|")[1].strip() for row in table.rows] == [
        "Ada St. John",
        "Bob",
        "Cid",
    ]


def test_pipes_without_a_rule_below_the_first_line_are_no_table() -> None:
    assert rows("a | b\nc | d\ne | f\n") == []
    assert rows("a | b\n\n|---|---|\n| c | d |") == []


def test_a_header_without_rows_is_no_table() -> None:
    assert rows("| a | b |\n|---|---|\n\nText.") == []


def test_two_tables_are_two() -> None:
    text = "| a |\n|---|\n| 1 |\n\n| b |\n|---|\n| 2 |\n| 3 |"
    assert rows(text) == [["| 1 |"], ["| 2 |", "| 3 |"]]


def test_a_line_of_nothing_but_dashes_and_pipes_takes_linear_time() -> None:
    assert rows("| a |\n" + "-|" * 4_000 + "x\n| 1 |") == []


def test_a_row_comes_with_the_header_and_whole(compressor) -> None:
    text = f"Words before the data. They are plain.\n\n{TABLE}\nWords after it. That was all."
    (refined,) = Refiner(compressor).refine("swimming born Cid 1980", [Given(text=text)])
    lines = refined.text.split("\n")
    header = lines.index("| name | sport | born |")
    assert lines[header + 1] == "|---|:-:|---|"
    assert "| Cid | swimming | 1980 |" in lines
    assert "| Bob | golf | 1970 |" not in lines


def test_rows_left_out_between_two_rows_leave_a_mark(make_compressor) -> None:
    text = "| k |\n|---|\n| red wine |\n| a b c d |\n| e f g h |\n| red wine |"
    (refined,) = Refiner(make_compressor(select="set")).refine("red wine", [Given(text=text)])
    assert refined.text == "| k |\n|---|\n| red wine |\n…\n| red wine |"


def test_the_budget_counts_header_and_rule_too(make_compressor) -> None:
    def n_pieces(text: str) -> int:
        return len(re.findall(r"\S", text))

    refiner = Refiner(make_compressor(budget=60, count_tokens=n_pieces))
    refined = refiner.refine("golf", [Given(text=TABLE), Given(text=TABLE.replace("Bob", "Rob"))])
    assert refined
    assert n_pieces("\n\n".join(each.text for each in refined)) <= 60


WORDS = st.text("ab.| -\n", max_size=12)


@settings(deadline=None)
@given(st.lists(st.one_of(WORDS, st.just("\n|a|b|\n|-|-|\n|c|d|\n|e. f|g|\n")), max_size=6))
def test_whatever_the_text_the_tree_holds_and_the_result_is_part_of_it(pieces: list[str]) -> None:
    import canopy_rag as canopy

    text = "".join(pieces)
    refiner = Refiner(canopy.Compressor("hashing", min_tokens=0))
    (refined,) = refiner.refine("c a", [Given(text=text)])
    assert refined.record["fallbacks"] == []
    assert len(refined.text) <= len(text)
    spans = [text[start:stop] for start, stop in refined.record["spans"]]
    assert [part for part in spans if part not in refined.text] == []
    if text.strip():
        check_tree(refiner._read(0, Given(text=text)).item.nodes)
