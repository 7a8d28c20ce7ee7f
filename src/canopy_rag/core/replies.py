"""The structured replies of critic, classifier and router: their schemas, read strictly or not.

A reply of the schema is taken as it is. Any other is read as far as it can mean one thing only, and
told apart, so that it can be recorded (D15): text around the object, `yes` for `true`, modalities
in a string. What is not English, or contradicts itself, is not guessed at.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from canopy_rag.core.answer import Verdict
from canopy_rag.core.errors import OutputParseError
from canopy_rag.core.parsing import json_objects, unique_fields
from canopy_rag.core.types import MODALITIES

T = TypeVar("T")
FormName = Literal["critic", "aggregate", "router", "judge", "extract", "choice"]
"""The last three are of methods to compare with (`baselines`)."""
NONE = "none"
"""The router's category for queries that need no retrieval."""

MAX_CHARS = 20_000
"""A longer reply is not read: these objects are a line or two."""

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_CATEGORIES = {
    **{category: category for category in (*MODALITIES, NONE)},
    **{"texts": "text", "paragraph": "text", "document": "text", "tables": "table"},
    **{"images": "image", "videos": "video", "clip": "video", "no": NONE},
}
"""What may be written for a category; paragraph, document and clip are UniversalRAG's (P8)."""
_SEPARATOR = re.compile(r"[+,;/|&\n]|\band\b")
_FENCE = re.compile(r"\A\s*```\w*")
_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_NO_QUERIES = frozenset({"", "none", "null", "n a", "true", "false"})
"""What stands for an empty follow-up query, normalised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[T]):
    """What a structured reply says."""

    value: T
    problem: str | None = None
    """What of it is not of the schema; None when it is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[T]):
    """One kind of structured reply."""

    name: FormName
    schema: Mapping[str, Any]
    """JSON schema, within what servers and their grammars commonly know."""
    of_object: Callable[[Mapping[str, Any]], T | None]
    """Reads an object, valid or not; None if it does not say."""
    of_words: Callable[[str], T | None] = lambda _: None
    """Reads a reply without an object; None if it does not say."""

    def read(self, text: str) -> Reply[T]:
        """Return what a reply says.

        Raises:
            OutputParseError: If it does not say, or says several things.
        """
        problem = _problem(text, self.schema)
        if problem is None:
            value = self.of_object(json.loads(text))
            assert value is not None  # a valid object says it
            return Reply(value=value)
        return Reply(value=self._meant(text, problem), problem=problem)

    def _meant(self, text: str, problem: str) -> T:
        if len(text) > MAX_CHARS:
            raise OutputParseError(problem, raw=text)
        said = [value for each in json_objects(text) if (value := self.of_object(each)) is not None]
        if not said and (value := self.of_words(text)) is not None:
            said = [value]
        if not said:
            raise OutputParseError(problem, raw=text)
        if any(each != said[0] for each in said):
            raise OutputParseError("it holds several objects that say different things", raw=text)
        return said[0]


def _object_schema(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _verdict(fields: Mapping[str, Any]) -> Verdict | None:
    fields = _plain(fields)
    sufficient = _boolean(fields.get("sufficient"))
    follow_up = fields.get("followup")
    if sufficient is None or not isinstance(follow_up, str | None):
        return None
    return Verdict(
        sufficient=sufficient, follow_up=None if sufficient else " ".join((follow_up or "").split())
    )


def _aggregate(fields: Mapping[str, Any]) -> bool | None:
    return _boolean(_plain(fields).get("aggregate"))


def _aggregate_words(text: str) -> bool | None:
    return _boolean(_bare(text))


def _modalities(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    value = _plain(fields).get("modalities")
    if isinstance(value, str):
        return _listed(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return _categories(value)
    return None


def _listed(text: str) -> tuple[str, ...] | None:
    """Read categories that stand in a string, or in a reply that is nothing else."""
    return _categories(_SEPARATOR.split(_bare(text)))


def _categories(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return categories each once, in the order of `MODALITIES`; none only alone."""
    named = {_CATEGORIES.get(_bare(word)) for word in words}
    if not named or None in named:
        return None
    return tuple(each for each in MODALITIES if each in named) or (NONE,)


CRITIC: Form[Verdict] = Form(
    name="critic",
    schema=_object_schema(sufficient={"type": "boolean"}, follow_up={"type": "string"}),
    of_object=_verdict,
)
"""The critic's verdict (P7). White space in the follow-up query is made even."""

AGGREGATE: Form[bool] = Form(
    name="aggregate",
    schema=_object_schema(aggregate={"type": "boolean"}),
    of_object=_aggregate,
    of_words=_aggregate_words,
)
"""Whether a question needs whole tables (P6)."""

ROUTER: Form[tuple[str, ...]] = Form(
    name="router",
    schema=_object_schema(
        modalities={
            "type": "array",
            "items": {"type": "string", "enum": [*MODALITIES, NONE]},
            "minItems": 1,
            # Without it small models repeat themselves until `max_tokens`.
            "maxItems": len(MODALITIES) + 1,
        }
    ),
    of_object=_modalities,
    of_words=_listed,
)
"""The modalities to search (P8), in the order of `MODALITIES`, or `none` alone."""


def normalised_query(query: str) -> str:
    """Return what two queries have in common if they count as the same (D5).

    Letter case, white space, punctuation and the width of characters do not count.

    >>> normalised_query("Who  founded “Judo”?") == normalised_query("who founded judo")
    True
    """
    text = unicodedata.normalize("NFKC", query).casefold()
    marks = (" " if unicodedata.category(char)[0] in "PZC" else char for char in text)
    return " ".join("".join(marks).split())


def is_new_query(query: str, asked: Collection[str]) -> bool:
    """Whether a follow-up query asks for something, and is none of those asked before (D5).

    >>> is_new_query("N/A", []), is_new_query("Kano's birthplace", ["Who founded judo?"])
    (False, True)
    """
    normalised = normalised_query(query)
    return normalised not in _NO_QUERIES.union(map(normalised_query, asked))


def _problem(text: str, schema: Mapping[str, Any]) -> str | None:
    """Return why a reply is not valid; None if it is."""
    if not text.strip():
        return "it is empty"
    if len(text) > MAX_CHARS:
        return f"it has {len(text):,} characters"
    try:
        parsed = json.loads(text, object_pairs_hook=unique_fields)
    except (ValueError, RecursionError):
        return "it is not one JSON object and nothing else"
    return _mismatch(parsed, schema, "it")


_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}


def _mismatch(value: Any, schema: Mapping[str, Any], name: str) -> str | None:
    """Return how a value differs from one of the schemas above; None if it does not."""
    truth = isinstance(value, bool) and schema["type"] == "integer"  # True is an int
    if truth or not isinstance(value, _TYPES[schema["type"]]):
        return f"{name} is no {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{name} is none of {', '.join(schema['enum'])}"
    parts: list[tuple[Any, Mapping[str, Any], str]] = []
    if isinstance(value, list):
        if not schema["minItems"] <= len(value) <= schema["maxItems"]:
            return f"{name} has {len(value)} entries"
        parts = [(each, schema["items"], f"an entry of {name}") for each in value]
    elif isinstance(value, dict):
        if value.keys() != schema["properties"].keys():
            return f"{name} has not exactly the fields {', '.join(schema['properties'])}"
        parts = [(value[key], part, key) for key, part in schema["properties"].items()]
    return next((found for part in parts if (found := _mismatch(*part))), None)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with their names as letters alone: `Follow-Up` is `followup`.

    None if two are the same then.
    """
    plain = {re.sub(r"[\W_]", "", name).lower(): value for name, value in fields.items()}
    return plain if len(plain) == len(fields) else {}


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _BOOLEANS.get(_bare(value)) if isinstance(value, str) else None


def _bare(text: str) -> str:
    """Return a text in lower case without code fence, quotes and marks around it."""
    found = _CORE.search(_FENCE.sub("", text, count=1))
    return found[0].lower() if found else ""
