from __future__ import annotations

import json
from typing import Any

import pytest

import canopy_rag as canopy
from canopy_rag.core.errors import DataError, StoreError
from tests.unit.integrations.conftest import JUDO, TABLE, BrokenEncoder

pytest.importorskip("langchain_core", reason="needs the extra `langchain`")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from canopy_rag.integrations.langchain import CanopyCompressor, CanopyRetriever

QUERY = "When was judo created?"
DOCUMENTS = [
    Document(id="a", page_content=JUDO, metadata={"source": "judo.txt", "page": 3}),
    Document(id="b", page_content="Tea comes from China.", metadata={"title": "Tea"}),
    Document(id="c", page_content=TABLE),
]


def test_content_is_refined_and_all_else_stays(compressor) -> None:
    before = [document.model_copy(deep=True) for document in DOCUMENTS]
    refined = CanopyCompressor(compressor=compressor).compress_documents(DOCUMENTS, QUERY)
    assert [document.id for document in refined] == ["a", "b", "c"]
    assert refined[0].page_content == "Judo was created in 1882 by Kano."
    assert refined[0].metadata.items() >= {"source": "judo.txt", "page": 3}.items()
    record = refined[0].metadata["canopy"]
    assert [JUDO[start:stop] for start, stop in record["spans"]] == [refined[0].page_content]
    assert record["fragments"][0]["source"]["uri"] == "judo.txt"
    assert before == DOCUMENTS


def test_the_metadata_is_json(compressor) -> None:
    for document in CanopyCompressor(compressor=compressor).compress_documents(DOCUMENTS, QUERY):
        assert json.loads(json.dumps(document.metadata)) == document.metadata


async def test_asynchronously_it_is_the_same(compressor) -> None:
    own = CanopyCompressor(compressor=compressor)
    assert await own.acompress_documents(DOCUMENTS, QUERY) == own.compress_documents(
        DOCUMENTS, QUERY
    )


def test_a_failure_gives_the_originals_with_the_reason(make_compressor) -> None:
    own = CanopyCompressor(compressor=make_compressor(BrokenEncoder()))
    refined = own.compress_documents(DOCUMENTS, QUERY)
    assert [each.page_content for each in refined] == [each.page_content for each in DOCUMENTS]
    assert "out of memory" in refined[0].metadata["canopy"]["fallbacks"][0]["reason"]


def test_the_settings_of_its_own_reach_the_compressor() -> None:
    own = CanopyCompressor(encoder="hashing", select="set", budget=40, cap="tail", min_tokens=0)
    selection = own._refiner._compressor.selection
    assert (selection.select, selection.budget, selection.cap) == ("set", 40, "tail")
    assert own._refiner._compressor.encoder.fingerprint.model == "hashing"


def test_a_setting_beside_a_compressor_is_refused(compressor) -> None:
    with pytest.raises(ValueError, match="give the compressor or budget, not both"):
        CanopyCompressor(compressor=compressor, budget=3)


def test_a_setting_that_cannot_work_or_is_unknown_is_named() -> None:
    with pytest.raises(ValueError, match="Did you mean 'minilm'"):
        CanopyCompressor(encoder="minilmm")
    with pytest.raises(ValueError, match="bugdet"):
        CanopyCompressor(bugdet=3)


def test_the_retriever_gives_ids_context_sources_and_fragments(index: canopy.Index) -> None:
    (first, *_) = CanopyRetriever(index=index).invoke("When are pears picked?")
    item = index.item(first.id)
    assert item.source.uri == first.metadata["source"] == "orchard.md"
    assert "Pears are picked in September." in first.page_content
    for fragment in first.metadata["canopy"]["fragments"]:
        assert fragment["text"] in first.page_content
        assert fragment["source"]["uri"] == "orchard.md"


def test_the_retriever_opens_a_folder_and_keeps_to_modalities(index: canopy.Index) -> None:
    found = CanopyRetriever(index=str(index.path), modalities=["table"]).invoke("Ada")
    assert [document.metadata["modality"] for document in found] == ["table"]
    assert found[0].page_content.splitlines()[:2] == ["people", "name | born"]


def test_the_retriever_with_set_shows_what_stands_out(index: canopy.Index) -> None:
    wide = CanopyRetriever(index=index).invoke("When are pears picked?")
    narrow = CanopyRetriever(index=index, select="set").invoke("When are pears picked?")
    assert 0 < len(narrow) < len(wide)


def test_the_retriever_refuses_what_it_cannot_do(index: canopy.Index, tmp_path) -> None:
    with pytest.raises(DataError, match="the query is empty"):
        CanopyRetriever(index=index).invoke(" ")
    with pytest.raises((StoreError, ValueError), match="no index"):
        CanopyRetriever(index=tmp_path / "nothing")


async def test_the_retrievers_callbacks_are_called(index: canopy.Index) -> None:
    seen: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
            seen.append(documents)

    config = {"callbacks": [Handler()]}
    found = await CanopyRetriever(index=index, k=2).ainvoke("pears", config=config)
    assert seen == [found]
    assert len(await CanopyRetriever(index=index).ainvoke("pears", k=1)) == 1
