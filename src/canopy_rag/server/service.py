"""What the routes work with: index, answers, gates and threads of one server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from starlette.requests import Request

from canopy_rag.api import Canopy, Compressor, Index
from canopy_rag.config import Config, RetrievalConfig, SelectConfig
from canopy_rag.core.protocols import LLM
from canopy_rag.server.admission import Gate, Workers
from canopy_rag.server.bodies import AskBody, CompressBody, SelectionBody
from canopy_rag.server.cache import Cache
from canopy_rag.server.keys import Key, Sessions
from canopy_rag.server.metrics import Metrics
from canopy_rag.server.uploads import Uploads

Section = TypeVar("Section", RetrievalConfig, SelectConfig)
MAX_HEAVY = 32
"""Compressions, pages and pictures at work or waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server."""

    index: Index
    config: Config
    llm: LLM | None
    key: Key | None
    cookie: str
    """Name of the cookie of signed-in browsers."""
    sessions: Sessions
    metrics: Metrics
    searches: Workers
    """Short work: searches, trees, items."""
    heavy: Workers
    """Work that may take long: documents to encode, pages and pictures to draw."""
    answers: Gate
    uploads: Uploads | None
    """None: nobody may add files."""
    pictures: Cache
    """Pages and pictures that were drawn."""

    def selection(self, body: SelectionBody) -> SelectConfig:
        """Return what of the hits is shown, as the body asks for it."""
        return _changed(
            self.config.select,
            {
                "select": body.select,
                "budget": body.budget,
                "cap": body.cap,
                "when": getattr(body, "when", None),
                "min_tokens": getattr(body, "min_tokens", None),
                "repeat": getattr(body, "repeat", None),
            },
        )

    def compressor(self, body: CompressBody) -> Compressor:
        """Return what compresses documents as the body asks for it."""
        config = replace(self.config, select=self.selection(body))
        return Compressor(self.index.encoder, config=config)

    def canopy(self, body: AskBody) -> Canopy:
        """Return what answers as the body asks for it; it shares index and model with all others.

        Raises:
            ConfigError: If the settings do not go together.
        """
        route = {True: "llm", False: "off", None: None}[body.route]
        wanted = {"k": body.k, "rounds": body.rounds, "route": route}
        retrieval = _changed(self.config.retrieval, wanted)
        config = replace(self.config, retrieval=retrieval, select=self.selection(body))
        return Canopy(self.index, "none" if self.llm is None else self.llm, config=config)

    def close(self) -> None:
        """Stop the threads."""
        self.searches.close()
        self.heavy.close()
        if self.uploads is not None:
            self.uploads.close()


def service_of(request: Request) -> Service:
    """Return the service that answers a request."""
    service: Service = request.app.state.service
    return service


def _changed(section: Section, wanted: dict[str, Any]) -> Section:
    return replace(section, **{name: value for name, value in wanted.items() if value is not None})
