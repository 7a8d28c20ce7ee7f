"""Sentences of retrieved items under global numbers, for a model that chooses by number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canopy_rag.core.node_text import leaf_texts
from canopy_rag.core.prompts import neutral_numbers
from canopy_rag.core.replies import Form
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item

MAX_SENTENCES = 40
"""Most sentences of an item that are listed, as in the original."""
MAX_IDS = 6
"""Most sentences that are taken of a round, as in the original."""
_LISTED = re.compile(r"\[?\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*\]?\.?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A leaf as it is listed."""

    id: int
    """From 1, over all items."""
    place: int
    """Its item's position in the round."""
    leaf: int
    line: str
    """`[id] title (number in the item): text`."""


def listed(items: Sequence[Item]) -> list[Sentence]:
    """Return the leaves of items in order, the first `MAX_SENTENCES` of each; none without words.

    A row comes as `column: cell; column: cell`, an image as its caption, a segment as its
    subtitles.
    """
    found: list[Sentence] = []
    for place, item in enumerate(items):
        texts = zip(leaves(item.nodes), leaf_texts(item), strict=True)
        with_words = [(leaf, " ".join(text.split())) for leaf, text in texts if text.strip()]
        for number, (leaf, text) in enumerate(with_words[:MAX_SENTENCES], 1):
            n = len(found) + 1
            line = neutral_numbers(f"{item.title} ({number}): {text}".lstrip())
            found.append(Sentence(id=n, place=place, leaf=leaf, line=f"[{n}] {line}"))
    return found


def _of_object(fields: Mapping[str, Any]) -> tuple[int, ...] | None:
    value = fields.get("ids")
    if not isinstance(value, list):
        return None
    numbers = [_number(each) for each in value]
    if any(number is None for number in numbers):
        return None
    return tuple(dict.fromkeys(number for number in numbers if number is not None))


def _number(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,6}\s*", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _of_words(text: str) -> tuple[int, ...] | None:
    bare = text.strip()
    if bare == "[]":
        return ()
    match = _LISTED.fullmatch(bare)
    return None if match is None else tuple(dict.fromkeys(map(int, match[1].split(","))))


EXTRACT: Form[tuple[int, ...]] = Form(
    name="extract",
    schema={
        "type": "object",
        "properties": {
            "ids": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 0,
                "maxItems": MAX_IDS,
            }
        },
        "required": ["ids"],
        "additionalProperties": False,
    },
    of_object=_of_object,
    of_words=_of_words,
)
"""Numbers of sentences, each once, in the order of the reply. A bare list is understood."""
