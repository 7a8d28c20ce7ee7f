"""What is missing, as S2G-RAG's judge says it, and the query that asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canopy_rag.core.replies import Form

MAX_GAPS = 3
"""Most gaps that the query asks for, as in the original."""
CATEGORIES = ("bridge_entity", "attribute", "relation", "evidence_span", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One thing that is missing."""

    target: str
    """What it is about."""
    slot: str
    """What of it."""
    description: str

    @property
    def query(self) -> str:
        """Target and slot, or the description where both are empty."""
        return " ".join(f"{self.target} {self.slot}".split()) or " ".join(self.description.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the judge said."""

    sufficient: bool
    gaps: tuple[Gap, ...] = ()


def gap_query(question: str, gaps: Sequence[Gap]) -> str:
    """Return the question with the gaps behind it; without gaps the question alone.

    >>> gap_query("Who wed Ada?", [Gap(target="Ada", slot="husband", description="")])
    'Who wed Ada? Ada husband'
    """
    return " ".join([question, *(gap.query for gap in gaps if gap.query)])


def _of_object(fields: Mapping[str, Any]) -> Judged | None:
    sufficient, items = fields.get("sufficient"), fields.get("gap_items", [])
    if not isinstance(sufficient, bool) or not isinstance(items, list):
        return None
    if sufficient:
        return Judged(sufficient=True)
    found = [_gap(each) for each in items if isinstance(each, dict)]
    return Judged(sufficient=False, gaps=tuple(gap for gap in found if gap.query)[:MAX_GAPS])


def _gap(fields: Mapping[str, Any]) -> Gap:
    return Gap(
        **{
            name: value if isinstance(value := fields.get(name), str) else ""
            for name in ("target", "slot", "description")
        }
    )


JUDGE: Form[Judged] = Form(
    name="judge",
    schema={
        "type": "object",
        "properties": {
            "sufficient": {"type": "boolean"},
            "gap_items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "category": {"type": "string", "enum": list(CATEGORIES)},
                        "target": {"type": "string"},
                        "slot": {"type": "string"},
                        "description": {"type": "string"},
                    },
                    "required": ["category", "target", "slot", "description"],
                    "additionalProperties": False,
                },
                "minItems": 0,
                "maxItems": MAX_GAPS,
            },
        },
        "required": ["sufficient", "gap_items"],
        "additionalProperties": False,
    },
    of_object=_of_object,
)
"""Whether the evidence suffices, and what is missing."""
