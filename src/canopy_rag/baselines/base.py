"""What all methods of a comparison share (P15): the parts they are built from, and the answer.

Same items, same vectors, same retrieval encoder, same reader: methods differ in what they do with
them, and nothing else.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from canopy_rag.baselines._selectors import whole
from canopy_rag.core.answer import Answer
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import LLM, SentenceSplitter
from canopy_rag.core.questions import Question
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.retrieve import Retriever


@runtime_checkable
class Method(Protocol):
    """A way to answer questions over a store. It holds no state of a question: any number may run.

    Every answer has the rounds with their hits, the evidence of the answer prompt, all calls of the
    chat model, and the seconds of each stage, so that all methods are measured alike:

    | stage | what it is |
    |---|---|
    | `retrieve` | the query's embedding, similarities |
    | `search` | vector search and reading what is found; no part of the paper's latency |
    | `refine` | evidence within its budget |
    | `route`, `classify`, `critic`, `judge`, `extract`, `think` | calls of the chat model |
    | `compress` | a compressor with a model of its own |
    | `read` | the answer |
    """

    @property
    def name(self) -> str:
        """The name with its parameters, as `registry.build` takes it: `flat:m=5`."""
        ...

    @property
    def verbatim(self) -> bool:
        """Whether all evidence stands in the items as it is shown."""
        ...

    async def answer(self, question: Question) -> Answer:
        """Answer one question.

        Only `question.text` and its options are looked at, never its answers or its gold.

        Raises:
            EncodeError: If a query cannot be encoded.
            LLMError: If the reader does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What methods are built from. Building one is cheap: parts may differ by question."""

    loop: Loop
    """The whole pipeline: retriever with the node encoder (f_theta), reader, critic, classifier,
    settings. Its router is not used: `canopy-routed` and `universalrag` have their own."""
    llm: LLM | None = None
    """The one chat model of all other calls (P18): router, thoughts, judge, extractor."""
    frozen: Retriever | None = None
    """Finds the same items and compares their nodes with the frozen encoder (f0); the loop's own
    where there is no adapter. None: methods that need f0 are refused."""
    splitter: SentenceSplitter | None = None
    """Finds the end of a sentence that a model wrote."""

    def chat(self, method: str) -> LLM:
        """Return the chat model.

        Raises:
            ConfigError: If there is none.
        """
        if self.llm is None:
            raise ConfigError(f"method {method!r} needs a chat model; give --llm")
        return self.llm

    def retriever(self, method: str, encoder: str) -> Retriever:
        """Return the retriever whose node vectors are of `encoder`, `f0` or `f_theta`.

        Raises:
            ConfigError: If there is none for f0.
        """
        if encoder != "f0":
            return self.loop.retriever
        if self.frozen is None:
            raise ConfigError(
                f"method {method!r} compares nodes with the frozen encoder (f0); these parts have "
                "none: index the items with the encoder without its adapter too"
            )
        return self.frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """A method without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A method as the registry lists it."""

    name: str
    summary: str
    """One line."""
    module: str
    """Its module, whose docstring says what differs from the original and why."""
    build: Callable[[str, Parts, Any], Method]
    """From the full name, the parts and the settings."""
    settings: type[Any] = NoSettings
    """A dataclass: the parameters after the colon, with defaults and bounds."""
    packages: tuple[str, ...] = ()
    """Modules of packages that it needs and canopy does not bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMethod:
    """A method that is the loop, configured."""

    name: str
    loop: Loop
    verbatim: bool = True

    async def answer(self, question: Question) -> Answer:
        """Answer one question."""
        return await self.loop.answer(asked(question), query=question.text)


def with_rounds(loop: Loop, rounds: int | None) -> Loop:
    """Return the loop with at most so many rounds; None: as it is."""
    if rounds is None:
        return loop
    return replace(loop, retrieval=replace(loop.retrieval, rounds=rounds))


def one_round(loop: Loop) -> Loop:
    """Return the loop with a single round over whole items: no critic, router, classifier."""
    retrieval = replace(loop.retrieval, rounds=1, route="off")
    return replace(
        loop, critic=None, router=None, classifier=None, selector=whole, retrieval=retrieval
    )


def refined_always(loop: Loop) -> Loop:
    """Return the loop without the pass-through of small evidence, which is Canopy's own (D9)."""
    return replace(loop, selection=replace(loop.selection, min_tokens=0, when="always"))


def asked(question: Question) -> str:
    r"""Return a question as readers, critics and judges get it: with its options, lettered.

    The query of round 1 is the question without them.

    >>> asked(Question(id="1", text="Which colour?", answers=("B",), kind="", gold=(),
    ...                options=("red", "blue")))
    'Which colour?\nA. red\nB. blue'
    """
    letters = string.ascii_uppercase
    if len(question.options) > len(letters):
        raise ConfigError(
            f"question {question.id!r} has {len(question.options)} options; 26 at most"
        )
    options = [
        f"{letter}. {option}" for letter, option in zip(letters, question.options, strict=False)
    ]
    return "\n".join([question.text, *options])
