"""A chat model that knows the gold: what a method's evidence is worth with perfect decisions.

It is no model. It takes the place of one in every method, reads the prompts that a model would get,
and answers each kind by what the question's gold says:

- **reader, "answerable"**: the accepted answer if it stands in the evidence, as whole words,
  otherwise `unknown`. Where the answer does not stand in the gold itself (yes and no, counts,
  options of a multiple choice): if something of every gold span is in the evidence. So a short
  answer may be found by chance in text that does not tell it; the figure is an upper bound.
- **critic, judge, thoughts**: enough as soon as every gold item is shown; otherwise the missing
  item's title (`oracle:titles`), or the benchmark's own next question (`oracle:hops`, MuSiQue's
  decomposition) where it has one.
- **router**: the modalities of the gold items; **classifier**: no question aggregates;
  **extractor**: the sentences that hold gold.

A gold item counts as shown if one of its leaves stands in the prompt. Its calls are counted and
timed like a model's; its name, which begins with `oracle`, stands in every report.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from canopy_rag.core.errors import LLMError, UnknownNameError
from canopy_rag.core.evidence import estimate_tokens
from canopy_rag.core.preferences import gold_leaves
from canopy_rag.core.prompts import neutral
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.core.questions import Question
from canopy_rag.core.render import node_body
from canopy_rag.core.replies import is_new_query
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import MODALITIES, Item
from canopy_rag.datasets.gold import spans_of_any

PREFIX = "oracle"
Decisions = Literal["titles", "hops"]
UNKNOWN = "unknown"
_FENCE_END = re.compile(r"</evidence-\w+>")
_ASKED = re.compile(r"^(?:Question|Query): (.*)$", re.MULTILINE)
_LISTED = re.compile(r"^- (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^\W*(\d+)\W+(.*)$", re.MULTILINE)
_SHORTEST = 8
"""Letters and digits that tell a leaf; shorter ones stand anywhere."""
_KNOWN = 4096
_STOP = "So the answer is:"

Fetch = Callable[[Sequence[str]], list[Item]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gold:
    """What is known of a question."""

    question: Question
    items: tuple[Item, ...]
    leaves: tuple[tuple[str, ...], ...]
    """Of each item: every leaf, squeezed; those too short to tell are left out."""
    gold: tuple[tuple[str, ...], ...]
    """The same of the gold leaves."""
    in_text: bool
    """Whether the answer stands in the gold."""


class OracleLLM:
    """Answers prompts by the gold of their question.

    Args:
        questions: All that will be asked. Of two with the same text the first counts.
        fetch: Gives items by id, such as a store's `get`.
        decisions: What is searched next: `titles` or `hops`.

    Raises:
        UnknownNameError: For other decisions.
    """

    vision = False
    context_tokens: int | None = None

    def __init__(
        self, questions: Sequence[Question], fetch: Fetch, decisions: str = "titles"
    ) -> None:
        if decisions not in get_args(Decisions):
            raise UnknownNameError("oracle", decisions, get_args(Decisions))
        self.name = f"{PREFIX}:{decisions}"
        self._hops = decisions == "hops"
        self._questions: dict[str, Question] = {}
        for question in questions:
            self._questions.setdefault(_first_line(question.text), question)
        self._fetch = fetch
        self._gold = lru_cache(maxsize=_KNOWN)(self._looked_up)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            LLMError: If the prompt holds none of the questions.
        """
        system, prompt = (
            "\n".join(part for part in message.content if isinstance(part, str))
            for message in (request.messages[0], request.messages[-1])
        )
        text = await asyncio.to_thread(self._reply, request, system, prompt)
        return Completion(
            text=text,
            prompt_tokens=estimate_tokens(system) + estimate_tokens(prompt),
            completion_tokens=estimate_tokens(text),
            tokens_are="estimated",
        )

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the reply as one piece."""
        reply = await self.complete(request)
        yield reply.text
        if ended is not None:
            ended(reply)

    async def count_tokens(self, text: str) -> int | None:
        """Return None: it has no tokens of its own."""
        return None

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return None: it sees no pictures."""
        return None

    async def aclose(self) -> None:
        """Do nothing."""

    def _reply(self, request: ChatRequest, system: str, prompt: str) -> str:
        shown, asked = _parts(prompt)
        name = request.schema_name
        if name == "aggregate":
            return '{"aggregate": false}'
        if name == "router":
            return json.dumps({"modalities": self._modalities(asked)})
        gold = self._known(asked)
        squeezed = _squeezed(shown)
        if name == "critic":
            return self._verdict(gold, squeezed, asked)
        if name == "judge":
            return _gaps(self._next(gold, squeezed, []))
        if name == "extract":
            return json.dumps({"ids": _useful(gold, shown)})
        answer = _answer(gold, shown, squeezed)
        if name == "choice":
            return json.dumps({"answer": answer if answer != UNKNOWN else "A"})
        if _STOP in system:
            return self._thought(gold, squeezed, answer)
        return answer

    def _known(self, asked: str) -> _Gold:
        found = _ASKED.search(asked)
        line = _first_line(found[1]) if found else ""
        if line not in self._questions:
            raise LLMError(f"the oracle knows no question {line!r}; it answers benchmarks alone")
        return self._gold(line)

    def _looked_up(self, line: str) -> _Gold:
        question = self._questions[line]
        spans: dict[str, list[tuple[float, float]]] = {}
        for span in question.gold:
            spans.setdefault(span.item_id, []).append((span.start, span.stop))
        items = tuple(self._fetch(list(spans)))
        wanted = [
            [_body(item, leaf) for leaf in sorted(gold_leaves(item.nodes, spans[item.id]))]
            for item in items
        ]
        return _Gold(
            question=question,
            items=items,
            leaves=tuple(_told(_body(item, leaf) for leaf in leaves(item.nodes)) for item in items),
            gold=tuple(_told(own) for own in wanted),
            in_text=not question.options
            and bool(
                spans_of_any("\n".join(text for own in wanted for text in own), question.answers)
            ),
        )

    def _modalities(self, asked: str) -> list[str]:
        """Return where the gold of a question lies, or the item that a follow-up query names."""
        found = _ASKED.search(asked)
        line = _first_line(found[1]) if found else ""
        if line not in self._questions:
            return list(MODALITIES)
        own = {item.modality for item in self._gold(line).items}
        return [each for each in MODALITIES if each in own] or list(MODALITIES)

    def _verdict(self, gold: _Gold, squeezed: str, asked: str) -> str:
        queries = _LISTED.findall(asked)
        if not _missing(gold, squeezed):
            return '{"sufficient": true, "follow_up": ""}'
        query = self._next(gold, squeezed, queries) or ""
        return json.dumps({"sufficient": False, "follow_up": query})

    def _next(self, gold: _Gold, squeezed: str, queries: Sequence[str]) -> str | None:
        """Return what is to be searched next: None if nothing is missing or nothing is new."""
        missing = _missing(gold, squeezed)
        if not missing:
            return None
        hops = gold.question.follow_ups[max(0, len(queries) - 1) :]
        wanted = list(hops) if self._hops and gold.question.follow_ups else _titles(missing)
        return next((each for each in wanted if is_new_query(each, queries)), None)

    def _thought(self, gold: _Gold, squeezed: str, answer: str) -> str:
        if answer != UNKNOWN:
            return f"{_STOP} {answer}."
        query = self._next(gold, squeezed, [gold.question.text])
        return f"{query or gold.question.text}."


def _parts(prompt: str) -> tuple[str, str]:
    """Return the evidence of a prompt, and what is asked."""
    ends = list(_FENCE_END.finditer(prompt))
    if not ends:
        return "", prompt
    return prompt[: ends[-1].start()], prompt[ends[-1].end() :]


def _first_line(text: str) -> str:
    line, _, _ = neutral(text.strip()).partition("\n")
    return " ".join(line.split())


def _squeezed(text: str) -> str:
    """Return letters and digits alone: what survives any way of writing an item out."""
    return re.sub(r"[\W_]+", "", text.casefold())


def _body(item: Item, leaf: int) -> str:
    node = item.nodes[leaf]
    return node_body(item, node.start, node.stop) or item.title


def _told(texts: Any) -> tuple[str, ...]:
    squeezed = [_squeezed(text) for text in texts]
    return tuple(text for text in squeezed if len(text) >= _SHORTEST) or tuple(squeezed)


def _missing(gold: _Gold, squeezed: str) -> list[Item]:
    return [
        item
        for item, own in zip(gold.items, gold.leaves, strict=True)
        if not any(text in squeezed for text in own)
    ]


def _titles(items: Sequence[Item]) -> list[str]:
    return [item.title for item in items]


def _answer(gold: _Gold, shown: str, squeezed: str) -> str:
    question = gold.question
    if gold.in_text:
        stands = bool(spans_of_any(shown, question.answers))
    else:
        stands = bool(gold.items) and all(
            any(text in squeezed for text in own) for own in gold.gold if own
        )
    if not stands or not question.answers:
        return UNKNOWN
    scale = f" {question.scale}" if question.scale else ""
    return f"{question.answers[0]}{scale}"


def _gaps(query: str | None) -> str:
    if query is None:
        return '{"sufficient": true, "gap_items": []}'
    gap: Mapping[str, str] = {
        "category": "other",
        "target": query,
        "slot": "",
        "description": query,
    }
    return json.dumps({"sufficient": False, "gap_items": [gap]})


def _useful(gold: _Gold, shown: str) -> list[int]:
    """Return the numbers of the first six listed sentences that hold gold."""
    wanted = [text for own in gold.gold for text in own]
    found = [
        int(number)
        for number, line in _NUMBERED.findall(shown)
        if any(text in _squeezed(line) or _squeezed(line) == text for text in wanted)
    ]
    return found[:6]
