"""IRCoT: reasoning sentence by sentence, each one the next query, over ever more whole items.

Round 1 searches with the question. Then, at most `iterations` times (3), the model writes the next
sentence of its reasoning over everything retrieved. One that says "So the answer is:" ends the
chain, and what follows it is the answer; any other is the next query. A chain that has not said so
is answered by the reader over everything retrieved (P15).

Differences from the original (Trivedi et al., 2023, github.com/StonyBrookNLP/ircot), most of them
the paper's own:

- At most 3 sentences, not 10; k = 10 items for each query, not 2 to 8 paragraphs, without a limit
  of 15 in all; what goes beyond the cap is cut as for every method.
- The stop is the exact phrase, case aside, as in the implementations of HippoRAG and FlashRAG; the
  original stops at "answer is" with or without the colon.
- A chat model with an instruction and no examples; the original continues 15 or 20 worked ones.
- Every unfinished sentence is searched, as the paper says; the original searches with none that
  begins with "thus", "so" or the like, or calculates. The last sentence is searched too
  (`last=false` leaves it out): the paper allows either. A sentence that is written again is
  searched again.
- The shared encoder searches, not BM25 without question words. Items of every modality; the
  original drops paragraphs of over 600 words and near-duplicates.
- A model that writes more than a sentence is cut after the first, by the splitter that all methods
  share: no stop at a full stop, which would cut "3.5" and "St.". An empty reply ends the chain, as
  in the original; so does the phrase with nothing after it, and then the reader answers.
- `choice=true`: a multiple-choice question gets one more call that must name a letter. Without it a
  quarter of the paper's answers on LongVideoBench name none.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from canopy_rag.baselines import _steps
from canopy_rag.baselines.base import Method, Parts, Spec, asked, one_round, refined_always
from canopy_rag.config.values import Least
from canopy_rag.core.answer import Answer, Verdict
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.evidence import Evidence, Fallback
from canopy_rag.core.prompts import evidence_messages
from canopy_rag.core.protocols import LLM, ChatRequest, MediaPart, Message, SentenceSplitter
from canopy_rag.core.questions import Question
from canopy_rag.core.replies import Form
from canopy_rag.pipeline.loop import Gathered, Loop
from canopy_rag.pipeline.reader import Reading
from canopy_rag.pipeline.structured import Calls, ask

PHRASE = "So the answer is:"
"""Ends the chain; letter case does not count."""
THOUGHT_TOKENS = 200
"""Longest sentence, in tokens, as in the original."""
CHOICE_TOKENS = 32
"""Longest choice: the object with a letter and some white space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IRCoTSettings:
    """How long the chain may be, and how it ends."""

    iterations: Annotated[int, Least(1)] = 3
    """Most sentences."""
    last: bool = True
    """Search with the last sentence too, before the reader answers."""
    choice: bool = False
    """Make multiple-choice questions end with a letter."""


@dataclass(slots=True, kw_only=True)
class Chain:
    """How far one question is."""

    prompt: str
    gathered: Gathered
    thoughts: list[str]
    shown: Evidence
    """What the last sentence was written over."""
    answer: str | None = None
    """What follows the phrase; None while nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IRCoT:
    """Interleaves retrieval and reasoning."""

    name: str
    loop: Loop
    llm: LLM
    splitter: SentenceSplitter
    settings: IRCoTSettings
    verbatim: bool = True

    async def answer(self, question: Question) -> Answer:
        """Answer one question."""
        gathered = _steps.begin(self.loop)
        chain = Chain(
            prompt=asked(question), gathered=gathered, thoughts=[], shown=gathered.evidence
        )
        await _steps.until_deadline(self.loop, gathered, self._think(question.text, chain))
        if self.settings.choice and question.options:
            chain.answer = await self._choose(len(question.options), chain) or chain.answer
        if chain.answer is not None:
            _show(gathered, chain.shown)
            return gathered.answered(chain.prompt, Reading(chain.answer, (), 0, 0, llm_calls=0))
        with gathered.clock.stage("refine"):
            fitted = await _steps.readers_share(self.loop, gathered.evidence, chain.prompt)
        _show(gathered, fitted)
        return await self.loop.finish(chain.prompt, gathered)

    async def _think(self, query: str, chain: Chain) -> None:
        gathered = chain.gathered
        for _ in range(self.settings.iterations):
            await self._retrieve(query, gathered)
            query = await self._thought(chain)
            if not query or chain.answer is not None or _has_phrase(query):
                gathered.stop = "repeated_query" if not query else "sufficient"
                return
        if self.settings.last:
            await self._retrieve(query, gathered)
        gathered.stop = "last_round"

    async def _retrieve(self, query: str, gathered: Gathered) -> None:
        explained = await _steps.search(self.loop, gathered, query)
        with gathered.clock.stage("refine"):
            evidence = _steps.add(self.loop, gathered, explained)
        gathered.finish(evidence)

    async def _thought(self, chain: Chain) -> str:
        """Return the next sentence; empty if the model wrote none."""
        gathered = chain.gathered
        with gathered.clock.stage("refine"):
            chain.shown = await self._fitted("ircot_thought", chain, THOUGHT_TOKENS)
        with gathered.clock.stage("think"):
            parts = await _steps.shown(self.loop, chain.shown)
            messages = _messages("ircot_thought", parts, chain)
            reply = await self.llm.complete(
                ChatRequest(messages=messages, max_tokens=THOUGHT_TOKENS)
            )
        thought, chain.answer = first_thought(reply.text, self.splitter)
        if thought:
            chain.thoughts.append(thought)
        finished = _has_phrase(thought)
        reasons = ["an empty reply; the chain ends"] if not thought else []
        if finished and chain.answer is None:
            reasons.append("nothing follows the stop phrase; the reader answers")
        notes = tuple(Fallback(stage="think", reason=reason) for reason in reasons)
        verdict = Verdict(sufficient=finished, follow_up=None if finished else thought or None)
        gathered.count(replace(_steps.one_call(reply), fallbacks=notes), verdict=verdict)
        return thought

    async def _choose(self, n_options: int, chain: Chain) -> str | None:
        """Return the letter that the model must choose, or None if that could not be had."""
        gathered = chain.gathered
        with gathered.clock.stage("refine"):
            chain.shown = await self._fitted("ircot_choice", chain, CHOICE_TOKENS)
        with gathered.clock.stage("read"):
            parts = await _steps.shown(self.loop, chain.shown)
            asked_for = await ask(
                self.llm,
                choice_form(string.ascii_uppercase[:n_options]),
                _messages("ircot_choice", parts, chain),
                max_tokens=CHOICE_TOKENS,
                otherwise="the answer is not held to a letter",
            )
        gathered.count(asked_for)
        return asked_for.value

    async def _fitted(self, name: str, chain: Chain, max_tokens: int) -> Evidence:
        messages = _messages(name, (), chain)
        return await _steps.within(
            self.loop, chain.gathered.evidence, messages, max_tokens=max_tokens
        )


def first_thought(text: str, splitter: SentenceSplitter) -> tuple[str, str | None]:
    """Return the first sentence of a reply, and the answer that follows the phrase in it.

    Args:
        text: A reply.
        splitter: Finds sentences.

    Returns:
        The sentence, empty if there is none, and the answer without its final full stop; None if
        the sentence does not say the phrase, or nothing follows it.
    """
    sentence = _first_sentence(text, splitter)
    if not _has_phrase(sentence):
        return sentence, None
    # What follows may stand on the next line, or have been taken for a sentence of its own.
    after = text[_place(text) + len(PHRASE) :]
    answer = _first_sentence(after, splitter)
    thought = sentence[: _place(sentence) + len(PHRASE)]
    return f"{thought} {answer}".strip(), answer.removesuffix(".").strip() or None


def choice_form(letters: str) -> Form[str]:
    """Return the structured reply that names one of the letters."""

    def of_object(fields: Any) -> str | None:
        value = fields.get("answer")
        return value.strip().upper() if _is_letter(value, letters) else None

    def of_words(text: str) -> str | None:
        bare = text.strip().strip("().\"'*")
        return bare.upper() if _is_letter(bare, letters) else None

    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(letters)}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return Form(name="choice", schema=schema, of_object=of_object, of_words=of_words)


def _is_letter(value: object, letters: str) -> bool:
    return isinstance(value, str) and len(value.strip()) == 1 and value.strip().upper() in letters


def _first_sentence(text: str, splitter: SentenceSplitter) -> str:
    for line in text.splitlines():
        for start, stop in splitter.split(line):
            return line[start:stop]
    return ""


def _place(text: str) -> int:
    return text.lower().find(PHRASE.lower())


def _has_phrase(text: str) -> bool:
    return _place(text) >= 0


def _messages(name: str, parts: Sequence[str | MediaPart], chain: Chain) -> tuple[Message, ...]:
    thoughts = "\n".join(chain.thoughts) or "(nothing yet)"
    return evidence_messages(name, parts, question=chain.prompt, thoughts=thoughts)


def _show(gathered: Gathered, evidence: Evidence) -> None:
    """Take over what of the evidence is in the answer's prompt, and what had to give way."""
    gathered.evidence = evidence
    gathered.count(Calls(fallbacks=evidence.fallbacks))


def build(name: str, parts: Parts, settings: IRCoTSettings) -> Method:
    """Return the method.

    Raises:
        ConfigError: If there is no chat model, or nothing that finds the end of a sentence.
    """
    if parts.splitter is None:
        raise ConfigError(f"method {name!r} needs a sentence splitter; give its parts one")
    return IRCoT(
        name=name,
        loop=one_round(refined_always(parts.loop)),
        llm=parts.chat(name),
        splitter=parts.splitter,
        settings=settings,
    )


SPECS = (
    Spec(
        name="ircot",
        summary="reasoning sentence by sentence, each one the next query, over whole items",
        module=__name__,
        build=build,
        settings=IRCoTSettings,
    ),
)
