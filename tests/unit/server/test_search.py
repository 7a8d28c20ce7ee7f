from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from canopy_rag.api import Compressor
from canopy_rag.core.errors import ModelError


async def test_a_search_gives_the_evidence_of_the_index(client_of: Any, index: Any) -> None:
    async with client_of() as client:
        reply = await client.post("/v1/search", json={"query": "How is coffee brewed?"})
    assert reply.status_code == 200
    assert reply.json() == index.search("How is coffee brewed?").to_dict()


async def test_question_is_another_name_of_query(client_of: Any) -> None:
    async with client_of() as client:
        one = await client.post("/v1/search", json={"query": "coffee"})
        other = await client.post("/v1/search", json={"question": "coffee"})
        both = await client.post("/v1/search", json={"question": "coffee", "query": "tea"})
        none = await client.post("/v1/search", json={"k": 3})
        empty = await client.post("/v1/search", json={"query": " \n"})
    assert one.json() == other.json()
    assert {each.status_code for each in (both, none, empty)} == {400}


async def test_fields_narrow_the_search(client_of: Any) -> None:
    body = {"query": "lighthouse", "k": 3, "modalities": ["table"], "budget": 40, "cap": "tail"}
    async with client_of() as client:
        evidence = (await client.post("/v1/search", json=body)).json()
    assert {each["modality"] for each in evidence["items"]} == {"table"}
    assert len(evidence["items"]) + len(evidence["left_out"]) == 3
    assert evidence["tokens"] <= 40


@pytest.mark.parametrize(
    "field",
    [
        {"k": 0},
        {"k": 101},
        {"modalities": []},
        {"modalities": ["sound"]},
        {"budget": 0},
        {"select": "best"},
        {"qeury": "x"},
    ],
)
async def test_a_field_that_cannot_work_is_named(
    client_of: Any, said: Any, field: dict[str, Any]
) -> None:
    async with client_of() as client:
        reply = await client.post("/v1/search", json={"query": "x", **field})
    assert reply.status_code == 400
    assert next(iter(field)) in said(reply)["message"]


async def test_searching_leaves_the_event_loop_alone(
    client_of: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread, threads = threading.current_thread(), []
    plain = type(index).search

    def search(self: Any, *args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return plain(self, *args, **options)

    monkeypatch.setattr(type(index), "search", search)
    async with client_of() as client:
        await client.post("/v1/search", json={"query": "coffee"})
    assert threads
    assert loop_thread not in threads


async def test_too_many_searches_are_sent_away_until_some_have_ended(
    client_of: Any, said: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, started = threading.Event(), threading.Semaphore(0)
    plain = type(index).search

    def search(self: Any, *args: Any, **options: Any) -> Any:
        started.release()
        assert release.wait(30)
        return plain(self, *args, **options)

    monkeypatch.setattr(type(index), "search", search)
    async with client_of(server__max_searches=2, server__threads=1) as client:

        async def ask(query: str) -> Any:
            return await client.post("/v1/search", json={"query": query})

        running = [asyncio.ensure_future(ask(f"coffee {number}")) for number in range(2)]
        await asyncio.to_thread(started.acquire)
        health = await client.get("/health")
        while "canopy_searches_in_flight 2.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0)
        refused = await ask("tea")
        release.set()
        done = await asyncio.gather(*running)
        after = await ask("tea")
    assert health.status_code == 200
    assert refused.status_code == 503
    assert said(refused)["type"] == "overloaded"
    assert int(refused.headers["retry-after"]) >= 1
    assert [each.status_code for each in done] == [200, 200]
    assert after.status_code == 200


async def test_work_that_takes_too_long_is_given_up(
    client_of: Any, said: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(type(index), "search", lambda *_, **__: release.wait(30))
    async with client_of(server__timeout_s=0.05) as client:
        reply = await client.post("/v1/search", json={"query": "coffee"})
    release.set()
    assert reply.status_code == 504
    assert said(reply)["type"] == "timeout"


async def test_explain_gives_the_trees(client_of: Any, index: Any) -> None:
    body = {"query": "How is coffee brewed?", "k": 3}
    async with client_of() as client:
        found = (await client.post("/v1/explain", json=body)).json()
        with_texts = (await client.post("/v1/explain", json={**body, "texts": True})).json()
    expected = [each.to_dict() for each in index.explain(body["query"], k=3)]
    assert found["query"] == body["query"]
    assert with_texts["items"] == expected
    for each in expected:
        for node in each["nodes"]:
            del node["text"]
    assert found["items"] == expected


async def test_explain_of_an_item_tells_of_that_item_alone(client_of: Any, said: Any) -> None:
    async with client_of() as client:
        hits = (await client.post("/v1/search", json={"query": "tea", "k": 30})).json()["items"]
        last = hits[-1]["id"]
        body = {"query": "tea", "k": 1, "item": last}
        found = (await client.post("/v1/explain", json=body)).json()["items"]
        missing = await client.post("/v1/explain", json={"query": "tea", "item": "../x"})
    assert [each["item_id"] for each in found] == [last]
    assert missing.status_code == 404
    assert "/" not in said(missing)["message"].replace("../x", "")


DOCUMENTS = [
    "Pears are sweet. The lock is blue. Trains leave at nine in the morning from the old station.",
    {"id": "t", "title": "Prices", "table": {"header": ["fruit", "price"], "rows": [["fig", 3]]}},
    {"text": "Coal is black. Snow is white. Grass is green in the summer and brown in autumn."},
]


async def test_compress_gives_what_the_compressor_gives(client_of: Any, index: Any) -> None:
    body = {"query": "When do trains leave?", "documents": DOCUMENTS, "min_tokens": 0}
    async with client_of() as client:
        evidence = (await client.post("/v1/compress", json=body)).json()
    own = Compressor(index.encoder, min_tokens=0).compress(body["query"], DOCUMENTS)
    assert evidence == own.to_dict()
    assert [each["id"] for each in evidence["items"]][1] == "t"


async def test_compress_takes_the_most_similar_documents_in_their_order(client_of: Any) -> None:
    body = {"query": "green grass and a fig", "documents": DOCUMENTS, "k": 2}
    async with client_of() as client:
        evidence = (await client.post("/v1/compress", json=body)).json()
        unknown = await client.post("/v1/compress", json={**body, "documents": [3]})
    assert [each["rank"] for each in evidence["items"]] == [1, 2]
    assert evidence["items"][0]["id"] == "t"
    assert unknown.status_code == 400


@pytest.fixture
def trap() -> Any:
    """A port that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    "document",
    [
        {"path": "/etc/passwd"},
        {"path": "http://127.0.0.1:{port}/x.png", "modality": "image"},
        {"path": "file:///etc/passwd", "modality": "image"},
        {"text": "a", "path": "/etc/passwd"},
        {"path": None},
        {"url": "http://127.0.0.1:{port}/x"},
        {"image_url": {"url": "http://127.0.0.1:{port}/x"}},
        {"media": "http://127.0.0.1:{port}/x", "modality": "image"},
    ],
)
async def test_no_file_is_opened_and_no_address_fetched_for_a_caller(
    client_of: Any, said: Any, trap: Any, document: dict[str, Any]
) -> None:
    port = trap.getsockname()[1]
    asked = {
        name: value.format(port=port) if isinstance(value, str) else value
        for name, value in document.items()
    }
    async with client_of() as client:
        reply = await client.post("/v1/compress", json={"query": "x", "documents": [asked]})
    assert reply.status_code == 400
    assert "root:" not in reply.text
    assert said(reply)["type"] == "invalid_request"


async def test_an_address_as_a_text_is_a_text(client_of: Any, trap: Any) -> None:
    text = f"http://127.0.0.1:{trap.getsockname()[1]}/x"
    async with client_of() as client:
        reply = await client.post("/v1/compress", json={"query": "x", "documents": [text]})
    assert reply.json()["items"][0]["fragments"][0]["text"] == text


@pytest.mark.parametrize("k", [None, 1])
async def test_a_document_that_is_none_is_the_callers_mistake(
    client_of: Any, said: Any, k: int | None
) -> None:
    documents = ["Coffee is bitter.", {"modality": "image", "text": "x"}]
    async with client_of() as client:
        body = {"query": "x", "documents": documents, "k": k}
        reply = await client.post("/v1/compress", json=body)
    assert reply.status_code == 400
    assert "modality" in said(reply)["message"]


async def test_a_model_that_cannot_be_loaded_is_not_the_callers_mistake(
    client_of: Any, said: Any, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ModelError("the weights are damaged")

    monkeypatch.setattr(type(index.encoder), "encode_items", broken)
    async with client_of() as client:
        body = {"query": "x", "documents": ["Coffee is bitter."]}
        reply = await client.post("/v1/compress", json=body)
    assert reply.status_code == 502
    assert said(reply)["type"] == "model_error"
