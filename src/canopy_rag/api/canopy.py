"""`Canopy`: answers over an index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, overload

from canopy_rag.api.index import Index
from canopy_rag.config import Config
from canopy_rag.core.answer import Answer, Round
from canopy_rag.core.errors import CanopyError, DataError
from canopy_rag.core.evidence import Evidence
from canopy_rag.core.protocols import LLM
from canopy_rag.pipeline import factory
from canopy_rag.pipeline._sync import iterate, run
from canopy_rag.pipeline.reader import AnswerStyle

OnError = Literal["raise", "return"]


class Canopy:
    """Answers questions over an index, with citations.

    Args:
        index: An index, or its folder.
        llm: Base URL of an OpenAI-compatible server, `local`, a chat model, or `none` for the
            extractive reader; None: as configured.
        model: Name of the server's model.
        config: All settings; None: the index's.
        reader: `cited` answers cite fragments; `short` ones are bare (D14).
    """

    def __init__(
        self,
        index: Index | str | Path,
        llm: str | LLM | None = None,
        *,
        model: str | None = None,
        config: Config | None = None,
        reader: AnswerStyle = "cited",
    ) -> None:
        self._index = index if isinstance(index, Index) else Index.open(index, config=config)
        config = config or self._index.config
        if llm is None or isinstance(llm, str):
            named = replace(
                config.llm, name=llm or config.llm.name, model=model or config.llm.model
            )
            llm = factory.build_llm(named)
        self._in_flight = config.llm.max_in_flight
        self._llm = llm
        self._loop = factory.build_loop(
            config,
            self._index.encoder,
            self._index.store,
            llm,
            style=reader,
            load=self._index.load,
        )

    @property
    def index(self) -> Index:
        """Where evidence comes from."""
        return self._index

    def ask(self, question: str) -> Answer:
        """Answer a question; works inside a running event loop too.

        Raises:
            LLMError: If the reader's model does not answer.
        """
        return run(self.aask(question))

    async def aask(self, question: str) -> Answer:
        """Answer a question."""
        if not question.strip():
            raise DataError("the question is empty; ask something")
        return await self._loop.answer(question)

    @overload
    def ask_many(
        self, questions: Sequence[str], *, on_error: Literal["raise"] = "raise"
    ) -> list[Answer]: ...

    @overload
    def ask_many(
        self, questions: Sequence[str], *, on_error: Literal["return"]
    ) -> list[Answer | CanopyError]: ...

    def ask_many(
        self, questions: Sequence[str], *, on_error: OnError = "raise"
    ) -> list[Answer] | list[Answer | CanopyError]:
        """Answer questions concurrently, in order; see `aask_many`."""
        return run(self.aask_many(questions, on_error=on_error))

    async def aask_many(
        self, questions: Sequence[str], *, on_error: OnError = "raise"
    ) -> list[Answer | CanopyError]:
        """Answer questions concurrently, in order, at most `llm.max_in_flight` at once.

        Every question ends by itself: with an answer, or with an error that names it.

        Args:
            questions: The questions.
            on_error: `return`: an error stands in the place of its answer. `raise`: the first
                error is raised once all questions have ended.

        Raises:
            CanopyError: With `raise`, naming the question, if one failed.
        """
        gate = asyncio.Semaphore(self._in_flight)

        async def one(question: str) -> Answer | CanopyError:
            async with gate:
                try:
                    return await self.aask(question)
                except CanopyError as error:
                    error.add_note(f"question: {question!r}")
                    return error

        ended = await asyncio.gather(*(one(question) for question in questions))
        failed = [each for each in ended if isinstance(each, CanopyError)]
        if failed and on_error == "raise":
            failed[0].add_note(f"{len(failed)} of {len(questions)} questions failed")
            raise failed[0]
        return list(ended)

    def stream(self, question: str) -> Iterator[Evidence | str | Answer]:
        """Yield the evidence, the pieces of the answer as they come, and the answer."""
        return iterate(self.astream(question))

    def astream(
        self, question: str, *, on_round: Callable[[Round], None] | None = None
    ) -> AsyncGenerator[Evidence | str | Answer, None]:
        """Yield the evidence, the pieces of the answer as they come, and the answer.

        Args:
            question: The question.
            on_round: Hears of each round before the evidence comes: when its own was found, and
                again, with the same number, when the critic has judged it.
        """
        if not question.strip():
            raise DataError("the question is empty; ask something")
        return self._loop.stream(question, on_round=on_round)

    async def aclose(self) -> None:
        """Give the model's connections back."""
        if self._llm is not None:
            await self._llm.aclose()

    def close(self) -> None:
        """Give the model's connections back."""
        run(self.aclose())
