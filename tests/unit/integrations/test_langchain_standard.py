"""LangChain's own contract for retrievers."""

from __future__ import annotations

from typing import Any

import pytest

import canopy_rag as canopy

pytest.importorskip("langchain_tests", reason="needs the extra `frameworks`")

from langchain_tests.integration_tests import RetrieversIntegrationTests

from canopy_rag.integrations.langchain import CanopyRetriever


class TestCanopyRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _index(self, index: canopy.Index) -> None:
        self.index = index

    @property
    def retriever_constructor(self) -> type[CanopyRetriever]:
        return CanopyRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return "When are pears picked?"
