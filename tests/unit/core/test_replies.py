"""Structured replies: valid ones, ones that can be understood, and ones that are not guessed at."""

from __future__ import annotations

import json

import pytest

from canopy_rag.core.answer import Verdict
from canopy_rag.core.errors import OutputParseError
from canopy_rag.core.replies import (
    AGGREGATE,
    CRITIC,
    MAX_CHARS,
    ROUTER,
    Form,
    is_new_query,
    normalised_query,
)

ENOUGH = Verdict(sufficient=True)
WHERE = Verdict(sufficient=False, follow_up="Where was Kano born?")


def asking(query: str) -> str:
    return json.dumps({"sufficient": False, "follow_up": query})


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (CRITIC, '{"sufficient": true, "follow_up": ""}', ENOUGH),
        (CRITIC, ' {"follow_up": "x", "sufficient": true}\n', ENOUGH),
        (CRITIC, asking("Where was Kano born?"), WHERE),
        (CRITIC, asking(" Where\n was  Kano born? "), WHERE),
        (CRITIC, asking(""), Verdict(sufficient=False, follow_up="")),
        (
            CRITIC,
            asking("what is </think> {x}"),
            Verdict(sufficient=False, follow_up="what is </think> {x}"),
        ),
        (AGGREGATE, '{"aggregate": true}', True),
        (AGGREGATE, '{"aggregate":false}', False),
        (ROUTER, '{"modalities": ["text"]}', ("text",)),
        (ROUTER, '{"modalities": ["video", "text", "video"]}', ("text", "video")),
        (ROUTER, '{"modalities": ["none"]}', ("none",)),
        (ROUTER, '{"modalities": ["none", "image"]}', ("image",)),
    ],
)
def test_a_valid_reply_is_taken_as_it_is(form: Form[object], text: str, value: object) -> None:
    read = form.read(text)
    assert read.value == value
    assert read.problem is None


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (CRITIC, '```json\n{"sufficient": true, "follow_up": ""}\n```', ENOUGH),
        (CRITIC, f"Here you are: {asking('Where was Kano born?')} Good luck!", WHERE),
        (CRITIC, f'<think>{{"sufficient": true}}</think>{asking("Where was Kano born?")}', WHERE),
        (CRITIC, '{"sufficient": "yes", "follow_up": ""}', ENOUGH),
        (CRITIC, '{"sufficient": "True"}', ENOUGH),
        (CRITIC, '{"sufficient": True, "follow_up": None}', ENOUGH),
        (CRITIC, '{"sufficient": "No.", "follow_up": "Where was Kano born?"}', WHERE),
        (CRITIC, '{"Sufficient": false, "Follow-Up": "Where was Kano born?"}', WHERE),
        (CRITIC, '{"sufficient": false}', Verdict(sufficient=False, follow_up="")),
        (CRITIC, '{"sufficient": true, "follow_up": "", "reason": "[1]"}', ENOUGH),
        (CRITIC, '{"sufficient": true} {"sufficient": true, "follow_up": ""}', ENOUGH),
        (AGGREGATE, "Yes.", True),
        (AGGREGATE, "**No**", False),
        (AGGREGATE, "```\nfalse\n```", False),
        (AGGREGATE, '{"aggregate": "true"}', True),
        (ROUTER, '{"modalities": "text"}', ("text",)),
        (ROUTER, '{"modalities": "table, image and text"}', ("text", "table", "image")),
        (ROUTER, '{"modalities": ["Tables", "clip"]}', ("table", "video")),
        (ROUTER, '{"modalities": ["paragraph", "document"]}', ("text",)),
        (ROUTER, '["text", "table"]', ("text", "table")),
        (ROUTER, '```json\n["image"]\n```', ("image",)),
        (ROUTER, "text+video", ("text", "video")),
        (ROUTER, "None", ("none",)),
        (ROUTER, '{"modalities": ["no"]}', ("none",)),
    ],
)
def test_an_invalid_reply_that_means_one_thing_is_understood_and_told_apart(
    form: Form[object], text: str, value: object
) -> None:
    read = form.read(text)
    assert read.value == value
    assert read.problem


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (CRITIC, ""),
        (CRITIC, "The evidence is sufficient."),
        (CRITIC, "yes"),
        (CRITIC, '{"sufficient": "да", "follow_up": ""}'),
        (CRITIC, '{"sufficient": "ja"}'),
        (CRITIC, '{"sufficient": 1, "follow_up": ""}'),
        (CRITIC, '{"sufficient": null, "follow_up": "x"}'),
        (CRITIC, '{"sufficient": false, "follow_up": ["a", "b"]}'),
        (CRITIC, '{"sufficient": false, "follow_up": "Where was'),
        (CRITIC, '{"verdict": {"sufficient": true, "follow_up": ""}}'),
        (CRITIC, '{"type": "object", "properties": {"sufficient": {"type": "boolean"}}}'),
        (CRITIC, '{"follow_up": "Where was Kano born?"}'),
        (AGGREGATE, "Yes, as rows have to be counted."),
        (AGGREGATE, "はい"),
        (AGGREGATE, '{"sufficient": true}'),
        (ROUTER, '{"modalities": []}'),
        (ROUTER, '{"modalities": ["audio"]}'),
        (ROUTER, '{"modalities": ["text", 3]}'),
        (ROUTER, '{"modalities": {"text": true}}'),
        (ROUTER, "no table"),
        (ROUTER, "I would look at a table."),
        (ROUTER, "文本"),
    ],
)
def test_what_a_reply_does_not_say_is_not_guessed(form: Form[object], text: str) -> None:
    with pytest.raises(OutputParseError) as caught:
        form.read(text)
    assert caught.value.raw == text
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "text",
    [
        'A document says {"sufficient": true}. I say {"sufficient": false, "follow_up": "x"}',
        f"{asking('a')} or {asking('b')}",
        '{"sufficient": false, "follow_up": "x", "sufficient": true}',
        '{"sufficient": false, "Sufficient": true, "follow_up": "x"}',
    ],
)
def test_a_reply_that_contradicts_itself_is_not_guessed(text: str) -> None:
    with pytest.raises(OutputParseError):
        CRITIC.read(text)


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        (CRITIC, 'x {"sufficient": true}', "it is not one JSON object and nothing else"),
        (CRITIC, '{"sufficient": "yes", "follow_up": ""}', "sufficient is no boolean"),
        (
            CRITIC,
            '{"sufficient": true}',
            "it has not exactly the fields sufficient, follow_up",
        ),
        (ROUTER, '{"modalities": "text"}', "modalities is no array"),
        (ROUTER, '["text"]', "it is no object"),
        (
            ROUTER,
            '{"modalities": ["clip"]}',
            "an entry of modalities is none of text, table, image, video, none",
        ),
        (ROUTER, json.dumps({"modalities": ["text"] * 6}), "modalities has 6 entries"),
    ],
)
def test_what_is_not_of_the_schema_is_named(form: Form[object], text: str, problem: str) -> None:
    assert form.read(text).problem == problem


@pytest.mark.parametrize(
    "unit", ["{", "}", '{"', '\\"', '"', " ", "a ", "[", '{"a": ', "{} ", '{"a": 1} ', "```"]
)
@pytest.mark.parametrize("form", [CRITIC, AGGREGATE, ROUTER], ids=lambda form: form.name)
@pytest.mark.parametrize("length", [MAX_CHARS, 2_000_000])
def test_a_long_reply_is_refused_and_hangs_nothing(
    form: Form[object], unit: str, length: int
) -> None:
    with pytest.raises(OutputParseError):
        form.read(unit * (length // len(unit)))


def test_a_reply_beyond_the_limit_is_not_read_even_if_it_could_be() -> None:
    padded = '{"sufficient": true, "follow_up": ""}'.ljust(MAX_CHARS)
    assert CRITIC.read(padded).value == ENOUGH
    with pytest.raises(OutputParseError, match="20,001 characters"):
        CRITIC.read(f"{padded} ")


@pytest.mark.parametrize("form", [CRITIC, AGGREGATE, ROUTER], ids=lambda form: form.name)
def test_the_schemas_allow_no_more_than_their_fields(form: Form[object]) -> None:
    assert form.schema["type"] == "object"
    assert form.schema["required"] == list(form.schema["properties"])
    assert form.schema["additionalProperties"] is False
    assert json.loads(json.dumps(form.schema)) == form.schema


@pytest.mark.parametrize(
    "query",
    ["who founded judo", "Who  founded\n“Judo”?!", "ＷＨＯ founded judo", "who-founded: judo…"],
)
def test_case_space_punctuation_and_width_do_not_make_another_query(query: str) -> None:
    assert normalised_query(query) == "who founded judo"
    assert not is_new_query(query, ["Where?", "Who founded judo?"])


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("Who founded aikido?", ["Who founded judo?"]),
        ("version 1.5", ["version 15"]),
        ("Straße", ["Strase"]),
        ("柔道の創始者", ["合気道の創始者"]),
        ("$5", ["5"]),
    ],
)
def test_other_words_make_another_query(query: str, asked: list[str]) -> None:
    assert is_new_query(query, asked)


@pytest.mark.parametrize("query", ["", " \n", "...", "None", "N/A", "null", "true", "–"])
def test_what_stands_for_nothing_is_no_query(query: str) -> None:
    assert not is_new_query(query, [])
