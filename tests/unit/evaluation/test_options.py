from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.evaluation.options import chosen_option

ROWS = json.loads(
    (Path(__file__).parents[2] / "golden" / "metrics" / "options.json").read_text("utf-8")
)
CARS = ["a red car", "a blue car", "a green car", "a white car"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["reply"] or "empty")
def test_a_reply_chooses_the_option_that_a_reader_would_see_in_it(row):
    assert chosen_option(row["reply"], row["options"]) == row["letter"]


@given(
    st.sampled_from("ABCD"), st.sampled_from(["{}", "({})", "{}.", "{}) x", "Answer: {}", "**{}**"])
)
def test_any_usual_form_of_a_letter_chooses_it(letter, form):
    assert chosen_option(form.format(letter), CARS) == letter


@given(st.text(max_size=40), st.lists(st.text(max_size=8), min_size=1, max_size=26))
def test_any_reply_gives_a_letter_of_the_options_or_none(reply, options):
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]
    assert chosen_option(reply, options) in {None, *letters}


@pytest.mark.parametrize("n", [0, 27])
def test_without_options_or_with_more_than_letters_it_is_an_error(n):
    with pytest.raises(ValueError, match=f"has 1 to 26 options, this has {n}"):
        chosen_option("A", ["x"] * n)
