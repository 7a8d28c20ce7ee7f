"""Haystack: `CanopyCompressor`, a component between retriever and prompt builder.

Docs: docs/integrations/haystack.md.
"""

# Annotations are objects here, not strings: Haystack 2 compares those of `run` when it connects
# components, and does not resolve strings.
import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from canopy_rag._optional import require

require("haystack", extra="haystack", feature="the Haystack integration")

from haystack import Document, component, default_from_dict, default_to_dict

from canopy_rag.core.budget import Cap
from canopy_rag.core.errors import ConfigError, MissingDependencyError
from canopy_rag.core.select import Select
from canopy_rag.integrations._refining import KEY, Given, Refined, Refiner, make_compressor

__all__ = ["CanopyCompressor"]

_log = logging.getLogger(__name__)


@component
class CanopyCompressor:
    """Leaves of each retrieved document the part that the query needs.

    Ids, scores, metadata and order stay; `content` becomes a part of the original or stays all of
    it. Rows of Markdown tables are never cut, and their header comes along. A document without
    text, such as a picture, passes as it is. `meta["canopy"]` says what was kept and why: `spans`
    are half-open character intervals of the original text. If something fails, the original stays
    and `fallbacks` says what. A document that keeps nothing (over budget, or with `select="set"`)
    is left out, as Haystack's rankers do; never all of them.

    Args:
        encoder: Encoder name; None: as configured (`minilm`).
        select: `paper`, the default: every document keeps something. `set`: what stands out among
            all.
        budget: Most tokens of all documents together; None: as configured, or 16,000.
        cap: What goes first over budget: `margin` or `tail`.
        min_tokens: Documents that are no longer together stay whole; None: as configured (32).

    Raises:
        ConfigError: If a setting cannot work.
    """

    def __init__(
        self,
        encoder: str | None = None,
        select: Select | None = None,
        budget: int | None = None,
        cap: Cap | None = None,
        min_tokens: int | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "encoder": encoder,
            "select": select,
            "budget": budget,
            "cap": cap,
            "min_tokens": min_tokens,
        }
        self._compressor = make_compressor(**self._settings)
        self._refiner = Refiner(self._compressor)
        self._is_warm = False

    def warm_up(self) -> None:
        """Load the encoder's weights, once; without it the first run does.

        Pipelines call it before every run, so an encoder that fails ends none of them: the run
        gives the originals back, and the next one tries again.

        Raises:
            ConfigError: If a setting turns out not to work when the encoder loads.
            MissingDependencyError: If the encoder needs an extra that is not installed.
        """
        if self._is_warm:
            return
        try:
            self._compressor.encoder.encode_queries(["warm up"])
        except (ConfigError, MissingDependencyError):
            raise
        except Exception as error:
            _log.warning("the encoder cannot be warmed up", exc_info=error)
        else:
            self._is_warm = True

    async def warm_up_async(self) -> None:
        """Load the encoder's weights in a thread; see `warm_up`."""
        await asyncio.to_thread(self.warm_up)

    def to_dict(self) -> dict[str, Any]:
        """Return type and settings, for `Pipeline.dumps`."""
        return dict(default_to_dict(self, **self._settings))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return a component with the settings that `to_dict` wrote."""
        made: Self = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Refine retrieved documents.

        Args:
            query: The question or search query.
            documents: Retrieved documents, best first; they are not changed.

        Returns:
            `documents`: in order, with refined text.

        Raises:
            ConfigError: If a setting turns out not to work when the encoder loads.
            MissingDependencyError: If the encoder needs an extra that is not installed.
        """
        texts = [at for at, document in enumerate(documents) if document.content is not None]
        given = [_given(documents[at]) for at in texts]
        shown = {texts[each.position]: each for each in self._refiner.refine(query, given)}
        return {"documents": _results(documents, shown)}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Refine retrieved documents in a thread; see `run`."""
        results: dict[str, list[Document]] = await asyncio.to_thread(self.run, query, documents)
        return results


def _given(document: Document) -> Given:
    title, path = document.meta.get("title"), document.meta.get("file_path")
    return Given(
        text=document.content or "",
        title=title if isinstance(title, str) else "",
        uri=path if isinstance(path, str) else document.id,
    )


def _results(documents: Sequence[Document], shown: dict[int, Refined]) -> list[Document]:
    results: list[Document] = []
    for at, document in enumerate(documents):
        if document.content is None:
            results.append(document)
        elif at in shown:
            meta = {**document.meta, KEY: shown[at].record}
            results.append(replace(document, content=shown[at].text, meta=meta))
    return results
