from __future__ import annotations

import pytest

from canopy_rag.datasets.gold import answer_spans, spans_of_any


def found(text: str, answer: str) -> list[str]:
    return [text[start:stop] for start, stop in answer_spans(text, answer)]


@pytest.mark.parametrize(
    "text",
    ["in 1945", "4.5 m", "1,400", "1.4", "4,000", "the 4th", "A4 paper", "14", "4x", "0.4.", "x_4"],
)
def test_a_number_is_not_found_inside_another_word_or_number(text: str) -> None:
    assert found(text, "4") == []


@pytest.mark.parametrize("text", ["4", "(4)", "4.", "4, 5", "3-4", "$4", "4%", "1, 4", "4. Then"])
def test_a_number_is_found_beside_marks(text: str) -> None:
    assert found(text, "4") == ["4"]


def test_a_word_is_found_whole_in_any_letter_case() -> None:
    assert found("The CAT, cats; Cat's. concat", "cat") == ["CAT", "Cat"]
    assert found("Élan vital, ÉLAN", "élan") == ["Élan", "ÉLAN"]


def test_white_space_and_marks_between_words_may_differ_but_offsets_are_exact() -> None:
    text = "born 14  December\n1972 , in St . Louis"
    assert found(text, "14 December 1972, in St. Louis") == [text[5:]]
    assert found("a cost of $ 5.2 billion", "$5.2 billion") == ["$ 5.2 billion"]
    assert found("rock-and-roll", "rock - and - roll") == ["rock-and-roll"]


def test_a_number_is_not_put_together_from_two() -> None:
    assert found("there were 5. 2 of them left", "5.2") == []
    assert found("at 5: 30 left", "5:30") == []


def test_words_are_not_found_run_together() -> None:
    assert found("newyork", "new york") == []


def test_dashes_and_quotes_are_alike() -> None:
    assert found("1999–2000, the “Rock ’n’ Roll” era", "1999-2000") == ["1999–2000"]
    assert found("1999–2000, the “Rock ’n’ Roll” era", "\"rock 'n' roll\"") == ["“Rock ’n’ Roll”"]


def test_scripts_without_spaces_need_no_word_border() -> None:
    assert found("他住在北京市中心", "北京") == ["北京"]
    assert found("กรุงเทพมหานคร", "เทพ") == ["เทพ"]
    assert found("Москвабыла", "Москва") == []


@pytest.mark.parametrize("answer", ["", "  ", "...", "—"])
def test_an_answer_without_letters_or_digits_is_not_looked_for(answer: str) -> None:
    assert found("a text ... with — marks", answer) == []


def test_an_answer_that_looks_like_a_pattern_is_taken_literally() -> None:
    assert found("C++ (a.k.a. see-plus-plus) and C", "C++") == ["C++"]
    assert found("axb a.b", "a.b") == ["a.b"]


def test_all_places_of_all_answers_are_disjoint_and_in_order() -> None:
    text = "Roman Empire, the Roman and the Roman Empire"
    spans = spans_of_any(text, ["Empire", "roman empire", "Roman", "Greece"])
    assert [text[start:stop] for start, stop in spans] == ["Roman Empire", "Roman", "Roman Empire"]


def test_a_long_text_of_marks_takes_no_longer_than_its_length() -> None:
    assert found("- " * 50_000 + "x", "- " * 200 + "y") == []
