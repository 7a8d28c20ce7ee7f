"""`Compressor`: bring your own documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from canopy_rag.api.budgets import fitted, with_budget
from canopy_rag.config import Config, SelectConfig
from canopy_rag.core.budget import Cap
from canopy_rag.core.errors import DataError, EncodeError
from canopy_rag.core.evidence import Evidence, Fallback, Shown
from canopy_rag.core.protocols import Encoder, Found, TokenCounter
from canopy_rag.core.select import Select
from canopy_rag.core.types import Hit, Item
from canopy_rag.pipeline import factory
from canopy_rag.pipeline.compressor import Explained, add_round, explain
from canopy_rag.pipeline.documents import DocumentLike, to_items

When = Literal["always", "needed"]


class Compressor:
    """Shows of each document just the part that a query needs: bring your own documents.

    What is shown is verbatim and in order, and never nothing. Every document keeps at least one
    region, unless the budget leaves it out; with `select="set"` one in which nothing stands out
    among all of them is left out. If the documents cannot be encoded they come back whole, with a
    `Fallback` (D9).

    Args:
        encoder: Encoder name, or an encoder; None: as configured (`minilm`).
        config: All settings; the arguments below go first.
        select: Scope of selection (D11): `paper`, the default here, or `set`.
        budget: Most tokens; None: as configured, or 16,000.
        cap: What goes first over budget: `margin` or `tail` (D8).
        when: `needed`: leave documents whole that fit the budget.
        min_tokens: Documents that are no longer together stay whole.
        count_tokens: Counts the tokens of your reader; None: the encoder's tokenizer, and counts
            are labelled estimated.

    Raises:
        ConfigError: If a setting cannot work.
    """

    def __init__(
        self,
        encoder: str | Encoder | None = None,
        *,
        config: Config | None = None,
        select: Select | None = None,
        budget: int | None = None,
        cap: Cap | None = None,
        when: When | None = None,
        min_tokens: int | None = None,
        count_tokens: TokenCounter | None = None,
    ) -> None:
        self._config = config or Config()
        base = self._config.select
        self._selection = with_budget(
            replace(
                base,
                select=select or base.select,
                budget=base.budget if budget is None else budget,
                cap=cap or base.cap,
                when=when or base.when,
                min_tokens=base.min_tokens if min_tokens is None else min_tokens,
            )
        )
        self._encoder = _encoder_of(encoder, self._config)
        self._count = count_tokens

    @property
    def encoder(self) -> Encoder:
        """What compares queries and nodes."""
        return self._encoder

    @property
    def config(self) -> Config:
        """The settings it was made with, without the arguments that went first."""
        return self._config

    @property
    def selection(self) -> SelectConfig:
        """What it shows, and within which budget."""
        return self._selection

    def compress(self, query: str, documents: Sequence[DocumentLike]) -> Evidence:
        """Return the parts of the documents that the query needs, documents in order.

        Args:
            query: The question or search query.
            documents: Strings, dicts as `canopy compress` takes them, items, paths (a file may
                hold several items), pandas or polars frames, PIL images.

        Raises:
            DataError: If a document is not one, or two have the same id.
        """
        if not isinstance(query, str):
            raise DataError(f"the query must be a string, got {type(query).__name__}")
        items = self._items(documents)
        evidence = Evidence(meter=factory.build_meter(self._encoder, self._count))
        try:
            explained = self._explain(query, items)
        except EncodeError as error:
            whole = [_whole(item, query, rank) for rank, item in enumerate(items, start=1)]
            note = Fallback(stage="encode", reason=str(error))
            return replace(evidence.add(whole), fallbacks=(note,))
        return fitted(add_round(evidence, explained, query, self._selection), self._selection)

    def explain(self, query: str, documents: Sequence[DocumentLike]) -> list[Explained]:
        """Return each document's tree with similarities and what was decided at each node.

        Raises:
            EncodeError: If a document cannot be encoded.
        """
        return self._explain(query, self._items(documents))

    def _items(self, documents: Sequence[DocumentLike]) -> list[Item]:
        return to_items(
            documents, lambda each, name: factory.read_document(each, name, self._config.ingest)
        )

    def _explain(self, query: str, items: list[Item]) -> list[Explained]:
        vectors = self._encoder.encode_items(items)
        queries = self._encoder.encode_queries([query])
        found = [
            Found(
                hit=Hit(
                    item_id=item.id,
                    corpus=item.corpus,
                    similarity=float(each.item @ queries.retrieval[0]),
                    rank=rank,
                ),
                item=item,
                nodes=each.nodes,
            )
            for rank, (item, each) in enumerate(zip(items, vectors, strict=True), start=1)
        ]
        return explain(found, queries.of(0), self._selection.over("paper"))


def _encoder_of(encoder: str | Encoder | None, config: Config) -> Encoder:
    if encoder is None:
        return factory.build_encoder(config.encoder)
    if isinstance(encoder, str):
        return factory.build_encoder(replace(config.encoder, name=encoder))
    return encoder


def _whole(item: Item, query: str, rank: int) -> Shown:
    return Shown(item=item, kept=(0,), why="whole", query=query, round=1, rank=rank, similarity=0.0)
