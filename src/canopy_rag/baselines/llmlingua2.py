"""LLMLingua-2: words are deleted from the retrieved items by a token classifier.

A peer, not a method of the paper: the most used prompt compressor. One round, one call. Microsoft's
package `llmlingua` itself runs, over the text of each retrieved item, without the question: that is
how LLMLingua-2 works.

It needs the package and the weights (`microsoft/llmlingua-2-xlm-roberta-large-meetingbank`, or the
smaller multilingual BERT) in a folder, `llmlingua2:model=FOLDER`; nothing is downloaded.

Differences from its use elsewhere:

- Not verbatim: what is shown of an item is a text of its own, with the item's id, and points to no
  place in it.
- Each item is compressed by itself, at a rate of 0.33, so that titles stay; the package's default
  compresses what it gets as one.
- Tables are compressed as the lines a reader would get, header included. Images and videos are
  shown whole.
- An item that does not get shorter is shown whole. Its time is the stage `compress`.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from canopy_rag._optional import require
from canopy_rag.baselines import _steps
from canopy_rag.baselines._selectors import has_sentences
from canopy_rag.baselines.base import Method, Parts, Spec, asked, one_round
from canopy_rag.config.values import Above
from canopy_rag.core.answer import Answer
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.evidence import Shown
from canopy_rag.core.questions import Question
from canopy_rag.core.render import Region, Style, render_item
from canopy_rag.core.types import Node, TextPayload
from canopy_rag.pipeline.loop import Loop

EXTRA = "llmlingua"
FEATURE = "the method `llmlingua2`"
FORCED = ["\n", "?", ".", "!", ","]
"""Tokens that always stay, as in the package's own experiments."""
_AT_WORK = threading.Lock()
"""One text at a time: torch uses its threads already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinguaSettings:
    """How much is deleted, by which weights."""

    model: str = ""
    """Folder of the weights."""
    rate: Annotated[float, Above(0)] = 0.33
    """Share of the tokens that stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMLingua2:
    """Deletes words, then reads."""

    name: str
    loop: Loop
    settings: LinguaSettings
    verbatim: bool = False

    async def answer(self, question: Question) -> Answer:
        """Answer one question."""
        gathered, prompt = _steps.begin(self.loop), asked(question)
        explained = await _steps.search(self.loop, gathered, question.text)
        whole = _steps.add(self.loop, gathered, explained)
        with gathered.clock.stage("compress"):
            entries = [await asyncio.to_thread(self._compressed, each) for each in whole.entries]
        with gathered.clock.stage("refine"):
            evidence = replace(whole, entries=tuple(entries))
            evidence = await _steps.readers_share(self.loop, evidence, prompt)
        gathered.finish(evidence)
        gathered.stop = "last_round"
        return await self.loop.finish(prompt, gathered)

    def _compressed(self, entry: Shown) -> Shown:
        """Return an entry with what the classifier leaves of its item's text."""
        item = entry.item
        if not has_sentences(item):
            return entry
        bare = Style(headings=item.modality == "table")
        (text,) = render_item(replace(item, title="", section=()), [Region(node=0, n=1)], bare)
        assert isinstance(text, str)  # without pictures there is one text
        with _AT_WORK:
            short = (
                _loaded(self.settings.model)
                .compress_prompt_llmlingua2([text], rate=self.settings.rate, force_tokens=FORCED)[
                    "compressed_prompt"
                ]
                .strip()
            )
        if not short or len(short) >= len(text):
            return entry
        root = Node(index=0, parent=None, children=(), start=0, stop=len(short))
        own = replace(item, modality="text", payload=TextPayload(text=short), nodes=(root,))
        return replace(
            entry, item=own, kept=(0,), node_similarities=(entry.value(0),), why="refined"
        )


@cache
def _loaded(model: str) -> Any:
    """Return the compressor of a folder, loaded once."""
    module = require("llmlingua", extra=EXTRA, feature=FEATURE)
    return module.PromptCompressor(model_name=model, use_llmlingua2=True, device_map="cpu")


def build(name: str, parts: Parts, settings: LinguaSettings) -> Method:
    """Return the method.

    Raises:
        MissingDependencyError: If its package is not installed.
        ConfigError: If there are no weights.
    """
    require("llmlingua", extra=EXTRA, feature=FEATURE)
    if not (Path(settings.model) / "config.json").is_file():
        raise ConfigError(
            f"method {name!r}: no weights in {settings.model!r}; give the folder of an LLMLingua-2 "
            "model as llmlingua2:model=FOLDER"
        )
    return LLMLingua2(name=name, loop=one_round(parts.loop), settings=settings)


SPECS = (
    Spec(
        name="llmlingua2",
        summary="one round, words deleted by LLMLingua-2; needs model=FOLDER",
        module=__name__,
        build=build,
        settings=LinguaSettings,
        packages=("llmlingua",),
    ),
)
