"""What to search next, by words alone."""

from __future__ import annotations

import pytest

from canopy_rag.core.bridges import _IN_PARENTHESES, Clue, covers, follow_up_query, names


def clue(title: str, text: str, similarity: float = 0.5) -> Clue:
    return Clue(
        item_id=title or "untitled", title=title, context=title, text=text, similarity=similarity
    )


QUESTION = "When did the director of Lost Horizon die?"
FILM = clue("Lost Horizon (film)", "It was directed by Frank Capra in 1937.", 0.7)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It was directed by Frank Capra.", ["Frank Capra"]),
        ("The Bank of England and the Royal Mint", ["Bank of England", "Royal Mint"]),
        ("J. R. R. Tolkien wrote it. Lewis read it.", ["J. R. R. Tolkien", "Lewis"]),
        ("Apollo 11 flew in July 1969", ["Apollo 11"]),
        ("On Monday, May 4, nothing happened.", []),
        ("Ludwig van Beethoven's works, O'Neill's play", ["Ludwig van Beethoven", "O'Neill"]),
        ("Éric Žižek met Михаи́л Су́слов", ["Éric Žižek", "Михаи́л Су́слов"]),
        ("Rome. Paris, Rome", ["Rome", "Paris"]),
        ("no name here, not even 1984", []),
        ("講道館は柔道の総本山です", []),
        ("", []),
    ],
)
def test_names_are_runs_of_words_with_capitals(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_the_follow_up_is_what_is_left_of_the_question_and_the_new_names() -> None:
    assert follow_up_query(QUESTION, [FILM], [QUESTION]) == "When did the of die Frank Capra"


def test_the_fragment_nearest_to_the_question_leads() -> None:
    others = [clue("Shangri-La", "James Hilton invented it.", 0.6), FILM]
    assert follow_up_query(QUESTION, others, [QUESTION]).endswith("Frank Capra")


def test_names_already_searched_are_passed_over() -> None:
    other = clue("Shangri-La", "James Hilton invented it.", 0.6)
    query = follow_up_query(QUESTION, [FILM, other], [QUESTION, "when died frank capra"])
    assert query.endswith("James Hilton")


def test_titles_of_shown_items_are_passed_over() -> None:
    capra = clue("Frank Capra", "He was born in Sicily.", 0.6)
    assert follow_up_query(QUESTION, [FILM, capra], [QUESTION]).endswith("Sicily")


def test_a_name_inside_a_longer_word_of_a_query_is_new() -> None:
    shown = [clue("a", "it was Ann", 0.5)]
    assert follow_up_query("whose planning?", shown, ["whose planning?"]).endswith("Ann")


@pytest.mark.parametrize(
    "shown", [[], [clue("", "")], [clue("a", "no name in here")], [clue("Lost Horizon", "Lost.")]]
)
def test_without_a_new_name_nothing_is_asked(shown: list[Clue]) -> None:
    assert follow_up_query(QUESTION, shown, [QUESTION]) == ""


def test_a_list_of_names_is_cut() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    shown = [clue("States", ", ".join(f"{letter}land" for letter in letters))]
    query = follow_up_query("which state?", shown, [])
    assert query == "which Aland Bland Cland Dland Eland Fland Gland Hland"


def test_a_question_is_covered_by_one_item_that_has_its_words() -> None:
    assert covers("When was judo founded?", [clue("Judo", "Kano founded it in 1882.")])
    assert covers("Who directs films?", [clue("x", "directing"), clue("x", "a film")])


def test_a_question_is_not_covered_by_two_items_together() -> None:
    shown = [clue("Judo", "Kano founded it."), clue("Aikido", "It is a martial art.")]
    assert not covers("Was judo founded before aikido?", shown)


def test_a_question_of_function_words_is_never_covered() -> None:
    assert not covers("Who was it?", [clue("Who", "was it")])
    assert not covers("", [])


def test_untitled_items_are_told_apart() -> None:
    one = Clue(item_id="1", title="", context="", text="judo", similarity=0.1)
    two = Clue(item_id="2", title="", context="", text="founded", similarity=0.1)
    assert not covers("When was judo founded?", [one, two])


def test_a_title_of_nothing_but_spaces_takes_linear_time() -> None:
    assert _IN_PARENTHESES.sub("", " " * 1_000_000) == " " * 1_000_000
    assert _IN_PARENTHESES.sub("", "Paris  (Texas) or (b)(c)") == "Paris or"
