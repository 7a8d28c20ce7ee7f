"""UniversalRAG: a router chooses the corpora, k items of each are read whole; two calls.

Differences from the original (Yeo et al., 2026, github.com/wgcyeo/UniversalRAG):

- Its categories paragraph and document are one corpus here, `text`, and clip and video another,
  `video`, as in the comparison of the paper: items have one granularity here.
- The router is the reader's model with Canopy's prompt and schema (P8, P18), not GPT-4o or a
  trained one. The original sends a reply that it cannot read to no retrieval (version 2) or to a
  random category (version 1); here all corpora are searched and the fallback says so.
- One encoder for all corpora, k = 10 of each; the original has one encoder for text and tables and
  another for pictures, and k = 1.
- Routed to `none`, the model answers from the question alone, as in the original.
- Corpora one after the other in the order text, table, image, video, by similarity within each;
  similarities of different corpora are not compared. So the cap cuts the later corpora first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from canopy_rag.baselines.base import Method, NoSettings, Parts, Spec, asked, one_round
from canopy_rag.core.answer import Answer
from canopy_rag.core.prompts import question_messages
from canopy_rag.core.protocols import LLM, ChatRequest
from canopy_rag.core.questions import Question
from canopy_rag.core.replies import NONE
from canopy_rag.core.types import Modality
from canopy_rag.pipeline.loop import Gathered, Loop
from canopy_rag.pipeline.reader import Reading
from canopy_rag.pipeline.retrieve import Retrieved, Retriever
from canopy_rag.pipeline.route import ModalityRouter

MAX_TOKENS = 64
"""Longest answer without evidence, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByCorpus(Retriever):
    """Puts the routed corpora one after the other, in the order of the modalities."""

    def retrieve_each(self, query: str, k: int, modalities: Sequence[Modality]) -> Retrieved:
        """Return the `k` nearest items of each corpus, with ranks over all of them."""
        found, node_query = self._each(query, k, modalities)
        listed = [each for own in found.values() for each in own]
        ranked = [
            replace(each, hit=replace(each.hit, rank=rank)) for rank, each in enumerate(listed, 1)
        ]
        return Retrieved(ranked, node_query)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalRAG:
    """One routed round over whole items, or none at all."""

    name: str
    loop: Loop
    llm: LLM
    verbatim: bool = True

    async def answer(self, question: Question) -> Answer:
        """Answer one question."""
        prompt = asked(question)
        gathered = await self.loop.gather(prompt, query=question.text)
        if gathered.rounds[0].routed == (NONE,):
            return await self._alone(prompt, gathered)
        return await self.loop.finish(prompt, gathered)

    async def _alone(self, prompt: str, gathered: Gathered) -> Answer:
        """Answer from the question alone."""
        messages = question_messages("reader_alone", question=prompt)
        with gathered.clock.stage("read"):
            reply = await self.llm.complete(ChatRequest(messages=messages, max_tokens=MAX_TOKENS))
        reading = Reading(
            reply.text.strip(),
            (),
            reply.prompt_tokens,
            reply.completion_tokens,
            llm_calls=1,
            cost=reply.cost,
        )
        return gathered.answered(prompt, reading)


def build(name: str, parts: Parts, settings: NoSettings) -> Method:
    """Return the method.

    Raises:
        ConfigError: If there is no chat model.
    """
    llm = parts.chat(name)
    loop = one_round(parts.loop)
    own = loop.retriever
    return UniversalRAG(
        name=name,
        llm=llm,
        loop=replace(
            loop,
            retriever=ByCorpus(encoder=own.encoder, store=own.store, hybrid=own.hybrid),
            router=ModalityRouter(llm=llm),
            retrieval=replace(loop.retrieval, none="answer"),
        ),
    )


SPECS = (
    Spec(
        name="universalrag",
        summary="a router, k items of each routed corpus whole, one round",
        module=__name__,
        build=build,
    ),
)
