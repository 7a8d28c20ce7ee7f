"""Citations in answers, objects in structured replies."""

from __future__ import annotations

import pytest

from canopy_rag.core.errors import OutputParseError
from canopy_rag.core.parsing import Citation, citations, json_object, unknown_citations


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Kano [1].", [1]),
        ("Kano[3][1], again [3]", [3, 1]),
        ("Kano [1, 2,4]", [1, 2, 4]),
        ("Kano [2-4]", [2, 3, 4]),
        ("Kano [2–3; 1]", [2, 3, 1]),
        ("Kano [4-2]", [2, 3, 4]),
        ("Kano [1 and 2]", [1, 2]),
        ("嘉納治五郎【1】［2］", [1, 2]),
        ("[1、2] [٣]", [1, 2, 3]),
        ("[^2]", [2]),
        ("[1](http://a)", [1]),
        ("nothing [] [a] [1a] (1) 1 [-1] [1.5]", []),
        ("a number of a document [ 2]", []),
        ("[0] [6] [1-9999999]", []),
        ("[3-900000]", [3, 4, 5]),
        (f"[{'9' * 5000}]", []),
    ],
)
def test_the_cited_fragments_are_found_in_order_each_once(text: str, numbers: list[int]) -> None:
    assert [each.n for each in citations(text, 5)] == numbers


def test_a_citation_knows_its_bracket() -> None:
    assert citations("Kano [2].", 3) == [Citation(n=2, start=5, stop=8)]


def test_numbers_of_no_fragment_are_reported_and_not_cited() -> None:
    text = "Kano [7][1], [0, 7], [2-9], [1914-1918]"
    assert [each.n for each in citations(text, 3)] == [1, 2, 3]
    assert unknown_citations(text, 3) == [7, 0, 9, 1914, 1918]


def test_without_fragments_nothing_is_cited() -> None:
    assert citations("[1]", 0) == []
    assert unknown_citations("[1]", 0) == [1]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": {"b": "}"}}\n```', {"a": {"b": "}"}}),
        ('It is {not JSON} but {"a": 1} and {"b": 2}', {"a": 1}),
        ('<think>{"a": 0}</think>{"a": 1}', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "\\"{"}', {"a": '"{'}),
    ],
)
def test_the_object_of_a_reply_is_found(text: str, parsed: dict[str, object]) -> None:
    assert json_object(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no object",
        "[1, 2]",
        '{"a": {"b": 1}, "c": "brok',
        '{"a": {"b": 1}',
        '{"a": ' * 100_000,
        "{" * 100_000,
    ],
)
def test_a_reply_without_a_whole_object_is_an_error_that_keeps_it(text: str) -> None:
    with pytest.raises(OutputParseError) as caught:
        json_object(text)
    assert caught.value.raw == text
    assert len(str(caught.value)) < 200
