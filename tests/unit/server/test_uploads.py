from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.api import Index
from canopy_rag.config import ServerConfig, load
from canopy_rag.core.errors import StoreError
from canopy_rag.server import uploads as uploads_module
from canopy_rag.server.uploads import MAX_NAME_BYTES, Uploads, harmless

BINARY = {"Content-Type": "application/octet-stream"}
ZEBRA = b"# Zoo\n\nThe zebra sleeps in the east wing. The bear is awake.\n"


@pytest.fixture
def own(tmp_path: Path) -> Index:
    """An empty index."""
    config = load({"index.path": str(tmp_path / "index"), "encoder.name": "hashing"}, {})
    return Index.open(create=True, config=config)


@pytest.fixture
def taking(client_of: Any, own: Index) -> Any:
    """Open a client of a server that takes files."""
    return lambda **options: client_of(
        over=own, headers=BINARY, server__allow_upload=True, **options
    )


async def ended(client: Any, upload: dict[str, Any]) -> dict[str, Any]:
    """Return an upload when it has ended."""
    async with asyncio.timeout(60):
        while True:
            found: dict[str, Any] = (await client.get(f"/v1/uploads/{upload['id']}")).json()
            if found["state"] in ("done", "failed"):
                return found
            await asyncio.sleep(0.01)


async def put(client: Any, name: str, content: Any) -> Any:
    return await client.post("/v1/uploads", params={"name": name}, content=content)


async def test_nobody_may_add_files_unless_that_is_allowed(
    client_of: Any, said: Any, own: Index
) -> None:
    async with client_of(over=own, headers=BINARY) as client:
        for reply in (
            await put(client, "zoo.md", ZEBRA),
            await client.get("/v1/uploads"),
            await client.get("/v1/uploads/x"),
        ):
            assert reply.status_code == 403
            assert "--allow-upload" in said(reply)["message"]
    assert not (own.path / "uploads").exists()


async def test_a_file_is_indexed_and_found(taking: Any) -> None:
    async with taking() as client:
        before = (await client.post("/v1/search", json={"query": "zebra"}, headers=JSON)).json()
        reply = await put(client, "zoo.md", ZEBRA)
        upload = await ended(client, reply.json())
        after = (await client.post("/v1/search", json={"query": "zebra"}, headers=JSON)).json()
        listed = (await client.get("/v1/uploads")).json()
    assert reply.status_code == 202
    assert before["items"] == []
    assert (upload["state"], upload["items"], upload["bytes"]) == ("done", 1, len(ZEBRA))
    assert upload["report"]["files"]["indexed"] == 1
    assert "zebra" in after["items"][0]["fragments"][0]["text"]
    assert listed == {"uploads": [upload]}


JSON = {"Content-Type": "application/json"}


async def test_a_file_of_the_same_name_replaces_the_one_before(taking: Any) -> None:
    async with taking() as client:
        await ended(client, (await put(client, "zoo.md", ZEBRA)).json())
        second = await ended(client, (await put(client, "zoo.md", b"The ape is old.\n")).json())
        body = {"query": "zebra ape", "k": 10}
        found = (await client.post("/v1/search", json=body, headers=JSON)).json()
    assert second["report"]["files"]["replaced"] == 1
    texts = [each["fragments"][0]["text"] for each in found["items"]]
    assert texts == ["The ape is old."]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../../etc/cron.d/job.txt", "job.txt"),
        ("..\\..\\windows\\system.txt", "system.txt"),
        ("/etc/passwd.txt", "passwd.txt"),
        ("C:\\boot.txt", "boot.txt"),
        ("a\x00b\x1b[31m\r\n.txt", "ab[31m.txt"),
        ("report\u202etxt.md", "reporttxt.md"),
        ("...txt.txt", "txt.txt"),
        ("CON.txt", "_CON.txt"),
        ("<script>.html", "script.html"),
        ("na\u0308me.txt", "n\u00e4me.txt"),
        (".hidden.md", "hidden.md"),
        ("photo.txt ", "photo.txt"),
        ("\udcff.txt", "txt"),
        ("-rf.txt", "-rf.txt"),
    ],
)
def test_of_a_hostile_name_a_harmless_one_is_left(name: str, kept: str) -> None:
    assert harmless(name) == kept


def test_a_long_name_is_cut_before_its_suffix() -> None:
    found = harmless("\u6728" * 500 + ".pdf")
    assert found.endswith(".pdf")
    assert len(found.encode()) <= MAX_NAME_BYTES


@pytest.mark.parametrize("name", ["../../escape.md", "..%2f..%2fescape.md", "/tmp/escape.md"])
async def test_no_name_leads_out_of_the_folder(
    taking: Any, own: Index, tmp_path: Path, name: str
) -> None:
    async with taking() as client:
        upload = await ended(client, (await put(client, name, ZEBRA)).json())
    written = [path for path in tmp_path.rglob("*escape.md")]
    assert written == [own.path / "uploads" / upload["name"]]


@pytest.mark.parametrize("name", ["run.exe", "index.json", "zoo", ".md", "..", "a.md.sh", "x.svg"])
async def test_files_that_are_not_read_are_not_taken(
    taking: Any, said: Any, own: Index, name: str
) -> None:
    async with taking() as client:
        reply = await put(client, name, b"x")
    assert reply.status_code == 415
    assert ".md" in said(reply)["message"]
    assert not (own.path / "uploads").exists()


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", ""])
async def test_only_plain_bytes_are_taken(taking: Any, said: Any, kind: str) -> None:
    async with taking() as client:
        reply = await client.post(
            "/v1/uploads", params={"name": "a.md"}, content=ZEBRA, headers={"Content-Type": kind}
        )
    assert reply.status_code == 415
    assert "octet-stream" in said(reply)["message"]


async def test_a_file_that_is_too_long_leaves_nothing(taking: Any, said: Any, own: Index) -> None:
    async def endless() -> Any:
        while True:
            yield b"word " * 100

    async with taking(server__max_upload_bytes=2000) as client:
        told = await put(client, "long.txt", b"x" * 3000)
        found_out = await put(client, "long.txt", endless())
        empty = await put(client, "long.txt", b"")
    assert (told.status_code, found_out.status_code, empty.status_code) == (413, 413, 400)
    assert said(found_out)["type"] == "too_large"
    assert list((own.path / "uploads").iterdir()) == []


async def test_all_files_together_have_a_limit(taking: Any, said: Any) -> None:
    async with taking(server__max_uploads_bytes=100) as client:
        await ended(client, (await put(client, "zoo.md", ZEBRA)).json())
        reply = await put(client, "zoo2.md", ZEBRA)
    assert reply.status_code == 413
    assert "no room" in said(reply)["message"]


async def test_files_that_arrive_together_have_that_limit_too(taking: Any, own: Index) -> None:
    arriving, n_started = asyncio.Event(), 0

    async def half_and_half() -> Any:
        nonlocal n_started
        yield ZEBRA[:30]
        n_started += 1
        if n_started == 2:
            arriving.set()
        await arriving.wait()
        yield ZEBRA[30:]

    async with taking(server__max_uploads_bytes=100) as client:
        replies = await asyncio.gather(
            put(client, "one.md", half_and_half()), put(client, "two.md", half_and_half())
        )
        for reply in replies:
            if reply.status_code == 202:
                await ended(client, reply.json())
    assert 413 in [reply.status_code for reply in replies]
    assert sum(each.stat().st_size for each in (own.path / "uploads").iterdir()) <= 100


async def test_a_stopped_server_indexes_no_file_that_waits(
    own: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release, added = threading.Event(), threading.Event(), []

    def slow(self: Any, path: Path, **_: Any) -> Any:
        added.append(path.name)
        started.set()
        assert release.wait(30)
        raise StoreError("no")

    async def body() -> Any:
        yield ZEBRA

    monkeypatch.setattr(type(own), "add", slow)
    uploads = Uploads(own, ServerConfig(allow_upload=True), lambda _: None)
    await uploads.take("a.md", body())
    await asyncio.to_thread(started.wait, 30)
    second = await uploads.take("b.md", body())
    uploads.close()
    release.set()
    await asyncio.to_thread(uploads._thread.join, 30)
    assert added == ["a.md"]
    assert uploads.get(second.id).state == "waiting"


async def test_files_that_waited_when_a_server_died_are_indexed_by_the_next(
    own: Index,
) -> None:
    folder = own.path / "uploads"
    folder.mkdir()
    (folder / "zoo.md").write_bytes(ZEBRA)
    (folder / ".0123.part").write_bytes(ZEBRA[:3])
    (folder / "notes.xyz").write_bytes(b"of no kind that is read")
    ended: list[str] = []
    for expected in ({"indexed": 1}, {"unchanged": 1}):
        uploads = Uploads(own, ServerConfig(allow_upload=True), ended.append)
        uploads.resume()
        (only,) = uploads.latest()
        uploads._waiting.put(None)
        assert uploads._thread is not None
        await asyncio.to_thread(uploads._thread.join, 30)
        assert uploads.get(only.id).state == "done"
        report = uploads.get(only.id).report
        assert report is not None
        assert expected.items() <= report["files"].items()
    assert ended == ["done", "done"]
    assert sorted(each.name for each in folder.iterdir()) == ["notes.xyz", "zoo.md"]


def test_without_earlier_uploads_there_is_nothing_to_resume(own: Index) -> None:
    uploads = Uploads(own, ServerConfig(allow_upload=True), lambda _: None)
    uploads.resume()
    assert uploads.latest() == []


async def test_a_client_that_vanishes_leaves_nothing(
    app_of: Any, scope_of: Any, own: Index
) -> None:
    messages = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": ZEBRA, "more_body": True},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        pass

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/octet-stream")]
    app = app_of(over=own, server__allow_upload=True)
    scope = scope_of("POST", "/v1/uploads", headers, b"name=zoo.md")
    await asyncio.wait_for(app(scope, receive, send), 10)
    assert messages == []
    assert list((own.path / "uploads").iterdir()) == []


async def test_a_file_that_cannot_be_read_says_why_and_others_go_on(
    taking: Any, own: Index
) -> None:
    async with taking() as client:
        bad = (await put(client, "broken.pdf", b"%PDF-1.7 nonsense")).json()
        good = (await put(client, "zoo.md", ZEBRA)).json()
        failed, done = await ended(client, bad), await ended(client, good)
    assert (failed["state"], done["state"]) == ("failed", "done")
    assert failed["error"]
    assert str(own.path) not in failed["error"]


async def test_an_index_that_another_process_writes_to_is_told(
    taking: Any, own: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any, **__: Any) -> Any:
        raise StoreError(f"the index in {str(own.path)!r} is being written by process 7")

    monkeypatch.setattr(type(own), "add", busy)
    async with taking() as client:
        failed = await ended(client, (await put(client, "zoo.md", ZEBRA)).json())
    assert failed["state"] == "failed"
    assert "being written" in failed["error"]
    assert str(own.path.parent) not in failed["error"]


async def test_searching_goes_on_while_files_are_indexed(
    taking: Any, own: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = threading.Event(), threading.Event()
    plain = type(own).add

    def slow(self: Any, *paths: Any, **options: Any) -> Any:
        started.set()
        assert release.wait(30)
        return plain(self, *paths, **options)

    monkeypatch.setattr(type(own), "add", slow)
    async with taking() as client:
        upload = (await put(client, "zoo.md", ZEBRA)).json()
        await asyncio.to_thread(started.wait, 30)
        state = (await client.get(f"/v1/uploads/{upload['id']}")).json()["state"]
        search = await client.post("/v1/search", json={"query": "zebra"}, headers=JSON)
        release.set()
        await ended(client, upload)
    assert state == "indexing"
    assert search.status_code == 200


async def test_too_many_waiting_files_are_sent_away(
    taking: Any, own: Index, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, started = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        started.set()
        assert release.wait(30)
        raise StoreError("no")

    monkeypatch.setattr(uploads_module, "MAX_WAITING", 1)
    monkeypatch.setattr(type(own), "add", slow)
    async with taking() as client:
        first = (await put(client, "a.md", ZEBRA)).json()
        await asyncio.to_thread(started.wait, 30)
        second = (await put(client, "b.md", ZEBRA)).json()
        third = await put(client, "c.md", ZEBRA)
        release.set()
        await ended(client, first)
        await ended(client, second)
    assert third.status_code == 503
    assert said(third)["type"] == "overloaded"
