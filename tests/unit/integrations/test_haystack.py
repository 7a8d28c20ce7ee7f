import json
import threading
from typing import Any

import pytest

from canopy_rag.core.errors import EncodeError
from canopy_rag.integrations._refining import Refiner
from canopy_rag.testing.hashing import HashingEncoder
from tests.unit.integrations.conftest import JUDO, TABLE, BrokenEncoder

pytest.importorskip("haystack", reason="needs the extra `haystack`")

import haystack
from haystack import Document, Pipeline, component
from haystack.dataclasses import ByteStream

from canopy_rag.integrations.haystack import CanopyCompressor

QUERY = "When was judo created?"
DOCUMENTS = [
    Document(id="a", content=JUDO, meta={"page": 3}, score=0.9, embedding=[0.1, 0.2]),
    Document(id="b", blob=ByteStream(b"\x89PNG", mime_type="image/png"), score=0.5),
    Document(id="c", content=TABLE),
]
SETTINGS: dict[str, Any] = {
    "encoder": "hashing",
    "select": "paper",
    "budget": 80,
    "cap": "margin",
    "min_tokens": 0,
}
# Haystack 3 asks who vouches for components that are not its own; 2 has one class for each way.
VOUCHED: dict[str, Any] = (
    {} if haystack.__version__ < "3" else {"allowed_modules": ["canopy_rag.*", "tests.*"]}
)
AsyncPipeline: Any = getattr(haystack, "AsyncPipeline", Pipeline)


@component
class Documents:
    """Stands for a retriever."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": DOCUMENTS}


def test_content_is_refined_and_all_else_stays() -> None:
    before = [document.to_dict() for document in DOCUMENTS]
    refined = CanopyCompressor(**SETTINGS).run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [document.id for document in refined] == ["a", "b", "c"]
    assert refined[0].content == "Judo was created in 1882 by Kano."
    assert (refined[0].score, refined[0].meta["page"]) == (0.9, 3)
    assert refined[1] == DOCUMENTS[1]
    assert refined[2].content.startswith("| name | sport | born |\n|---|:-:|---|\n")
    record = refined[0].meta["canopy"]
    assert [JUDO[start:stop] for start, stop in record["spans"]] == [refined[0].content]
    assert json.loads(json.dumps(record)) == record
    assert [document.to_dict() for document in DOCUMENTS] == before


async def test_asynchronously_it_is_the_same() -> None:
    own = CanopyCompressor(**SETTINGS)
    assert await own.run_async(query=QUERY, documents=DOCUMENTS) == own.run(
        query=QUERY, documents=DOCUMENTS
    )


def test_a_failure_gives_the_originals_with_the_reason(make_compressor) -> None:
    own = CanopyCompressor(**SETTINGS)
    own._refiner = Refiner(make_compressor(BrokenEncoder()))
    refined = own.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [document.content for document in refined] == [d.content for d in DOCUMENTS]
    assert "out of memory" in refined[0].meta["canopy"]["fallbacks"][0]["reason"]


def test_its_settings_survive_a_dictionary_and_are_all_of_them() -> None:
    data = CanopyCompressor(**SETTINGS).to_dict()
    assert data == {
        "type": "canopy_rag.integrations.haystack.CanopyCompressor",
        "init_parameters": SETTINGS,
    }
    assert CanopyCompressor.from_dict(data).to_dict() == data


def pipeline(kind: Any = Pipeline) -> Any:
    made = kind()
    made.add_component("retriever", Documents())
    made.add_component("compressor", CanopyCompressor(**SETTINGS))
    made.connect("retriever.documents", "compressor.documents")
    return made


def contents(results: dict[str, Any]) -> list[str | None]:
    return [document.content for document in results["compressor"]["documents"]]


def test_it_works_in_a_pipeline_and_after_a_round_trip_through_yaml() -> None:
    inputs = {"retriever": {"query": QUERY}, "compressor": {"query": QUERY}}
    first = contents(pipeline().run(inputs))
    assert first[0] == "Judo was created in 1882 by Kano."
    written = pipeline().dumps()
    assert "budget: 80" in written
    assert contents(Pipeline.loads(written, **VOUCHED).run(inputs)) == first


async def test_it_works_in_an_asynchronous_pipeline() -> None:
    inputs = {"retriever": {"query": QUERY}, "compressor": {"query": QUERY}}
    results = await pipeline(AsyncPipeline).run_async(inputs)
    assert contents(results)[0] == "Judo was created in 1882 by Kano."


class Counting(HashingEncoder):
    """Counts calls with queries; the first so many fail."""

    n_calls = 0
    n_failing = 0

    def encode_queries(self, queries: Any) -> Any:
        self.n_calls += 1
        if self.n_calls <= self.n_failing:
            raise EncodeError(queries[0], "the server is not up")
        return super().encode_queries(queries)


def test_warming_up_loads_the_encoder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Counting()
    own = CanopyCompressor(**SETTINGS)
    monkeypatch.setattr(own._compressor, "_encoder", encoder)
    own.warm_up()
    own.warm_up()
    assert encoder.n_calls == 1
    assert own.run(query=QUERY, documents=[])["documents"] == []


async def test_an_encoder_that_is_not_up_ends_no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"retriever": {"query": QUERY}, "compressor": {"query": QUERY}}
    made, later = pipeline(), pipeline(AsyncPipeline)
    for each in (made, later):
        encoder = Counting()
        encoder.n_failing = 2  # one to warm up, one in the first run
        own = each.get_component("compressor")
        monkeypatch.setattr(own._compressor, "_encoder", encoder)
    assert contents(made.run(inputs)) == [document.content for document in DOCUMENTS]
    assert contents(made.run(inputs))[0] == "Judo was created in 1882 by Kano."
    assert contents(await later.run_async(inputs)) == [document.content for document in DOCUMENTS]


async def test_warming_up_holds_no_event_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    own = CanopyCompressor(**SETTINGS)
    monkeypatch.setattr(own, "warm_up", lambda: threads.append(threading.current_thread()))
    await own.warm_up_async()
    assert threads
    assert threading.current_thread() not in threads


def test_a_setting_that_cannot_work_is_named() -> None:
    with pytest.raises(ValueError, match="Did you mean 'minilm'"):
        CanopyCompressor(encoder="minilmm")
