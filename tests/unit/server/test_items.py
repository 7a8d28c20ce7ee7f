from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from canopy_rag.api import Index
from canopy_rag.config import load
from canopy_rag.core.types import ImagePayload
from canopy_rag.server import items as items_module
from canopy_rag.server.errors import ApiError
from canopy_rag.server.files import original, source_pdf


async def id_of(client: Any, uri: str, modality: str, query: str = "the") -> str:
    """Return the id of an item of a source."""
    body = {"query": query, "k": 100, "modalities": [modality], "select": "paper", "budget": 100000}
    items = (await client.post("/v1/search", json=body)).json()["items"]
    return next(each["id"] for each in items if each["fragments"][0]["source"]["uri"].endswith(uri))


async def test_a_text_is_given_with_its_sentences_and_neighbours(
    client_of: Any, index: Index
) -> None:
    async with client_of() as client:
        found = await id_of(client, "lighthouse.html", "text", "puffins breed in the turf")
        item = (await client.get(f"/v1/items/{found}")).json()
        assert item["id"] == found
        text = item["text"]["text"]
        assert (item["text"]["start"], item["text"]["stop"]) == (0, len(text))
        assert item["stop"] == len(text)
        assert any("puffins" in text[int(a) : int(b)] for a, b in item["leaves"])
        for heading in item["text"]["headings"]:
            assert heading["text"] in text[heading["start"] : heading["stop"]]
        after = (await client.get(f"/v1/items/{item['next']}")).json()
    assert after["previous"] == found
    assert after["source"]["uri"] == item["source"]["uri"]
    assert item["media"] is None


async def test_a_text_comes_in_pages(client_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "TEXT_PAGE", 100)
    async with client_of() as client:
        found = await id_of(client, "lighthouse.html", "text", "puffins breed in the turf")
        first = (await client.get(f"/v1/items/{found}")).json()
        second = (await client.get(f"/v1/items/{found}", params={"start": 100})).json()
        part = (await client.get(f"/v1/items/{found}", params={"start": 5, "stop": 9})).json()
        beyond = (await client.get(f"/v1/items/{found}", params={"start": 10**9})).json()
    assert (len(first["text"]["text"]), second["text"]["start"]) == (100, 100)
    assert part["text"]["text"] == first["text"]["text"][5:9]
    assert beyond["text"]["text"] == ""


async def test_no_page_is_longer_than_one_however_much_is_asked_for(
    client_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "TEXT_PAGE", 100)
    monkeypatch.setattr(items_module, "TABLE_PAGE", 20)
    async with client_of() as client:
        for name, modality, query, page in (
            ("lighthouse.html", "text", "puffins breed in the turf", 100),
            ("squares.csv", "table", "row square", 20),
        ):
            found = await id_of(client, name, modality, query)
            params = {"start": 10, "stop": 10**9}
            part = (await client.get(f"/v1/items/{found}", params=params)).json()[modality]
            assert (part["start"], part["stop"]) == (10, 10 + page)
            assert len(part.get("text") or part["rows"]) == page


async def test_a_table_comes_in_pages_of_rows(client_of: Any) -> None:
    async with client_of() as client:
        found = await id_of(client, "squares.csv", "table", "row square")
        params = {"start": 100, "stop": 103}
        item = (await client.get(f"/v1/items/{found}", params=params)).json()
    assert item["table"]["header"] == ["name", "square"]
    assert item["table"]["n_rows"] == item["stop"] == 150
    assert item["table"]["rows"] == [[f"row {n}", str(n * n)] for n in (100, 101, 102)]
    assert len(item["leaves"]) == 150


async def test_a_video_tells_its_segments(client_of: Any) -> None:
    async with client_of() as client:
        found = await id_of(client, ".webm", "video")
        item = (await client.get(f"/v1/items/{found}")).json()
    segments = item["video"]["segments"]
    assert [each["start"] for each in segments] == [start for start, _ in item["leaves"]]
    assert item["media"] == f"/v1/items/{found}/media"


async def test_media_comes_whole_or_in_ranges(client_of: Any, sources: Path) -> None:
    content = (sources / "videos/big_buck_bunny_0_30.webm").read_bytes()
    async with client_of() as client:
        place = f"/v1/items/{await id_of(client, '.webm', 'video')}/media"
        whole = await client.get(place)
        middle = await client.get(place, headers={"Range": "bytes=1000-1999"})
        last = await client.get(place, headers={"Range": "bytes=-10"})
        beyond = await client.get(place, headers={"Range": f"bytes={len(content)}-"})
        nonsense = await client.get(place, headers={"Range": "bytes=x-y"})
        head = await client.head(place)
        same = await client.get(
            place, headers={"Range": "bytes=0-9", "If-Range": whole.headers["etag"]}
        )
    assert whole.content == content
    assert whole.headers["content-type"] == "video/webm"
    assert (middle.status_code, middle.content) == (206, content[1000:2000])
    assert middle.headers["content-range"] == f"bytes 1000-1999/{len(content)}"
    assert last.content == content[-10:]
    assert beyond.status_code == 416
    assert beyond.json()["error"]["type"] == "range_not_satisfiable"
    assert beyond.headers["content-range"].endswith(f"*/{len(content)}")
    assert nonsense.status_code == 400
    assert nonsense.json()["error"]["type"] == "invalid_request"
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(content))
    assert same.status_code == 206


async def test_media_that_is_opened_by_itself_runs_nothing(client_of: Any) -> None:
    async with client_of() as client:
        found = await id_of(client, "espresso.jpg", "image")
        reply = await client.get(f"/v1/items/{found}/media")
    assert reply.headers["content-type"] == "image/jpeg"
    assert reply.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("what", ["", "/media", "/pages/1"])
@pytest.mark.parametrize(
    "item",
    [
        "no-such-item",
        "..%2F..%2Fetc%2Fpasswd",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "pictures%2Fespresso.jpg",
        "x%00",
        "x'%20OR%201=1--",
        "%F0%9F%8C%B3",
    ],
)
async def test_there_is_nothing_but_items(
    client_of: Any, said: Any, sources: Path, item: str, what: str
) -> None:
    async with client_of() as client:
        reply = await client.get(f"/v1/items/{item}{what}")
    assert reply.status_code == 404
    said(reply)
    assert str(sources) not in reply.text
    assert "root:" not in reply.text


async def test_items_without_media_or_pages_say_so(client_of: Any, said: Any) -> None:
    async with client_of() as client:
        table = await id_of(client, "squares.csv", "table", "row square")
        for what in ("media", "pages/1"):
            reply = await client.get(f"/v1/items/{table}/{what}")
            assert reply.status_code == 404
            said(reply)


async def test_a_page_of_a_pdf_is_drawn_in_the_size_that_the_boxes_are_in(client_of: Any) -> None:
    async with client_of() as client:
        found = await id_of(client, ".pdf", "text", "ethanol iowa")
        item = (await client.get(f"/v1/items/{found}")).json()
        (page,) = item["pages"]
        drawn = await client.get(page["image"], params={"width": 396})
        again = await client.get(page["image"], params={"width": 396})
        beyond = await client.get(f"/v1/items/{found}/pages/999")
        wide = await client.get(page["image"], params={"width": 100_000})
    assert (page["page"], page["width"], page["height"]) == (1, 792, 612)
    picture = Image.open(io.BytesIO(drawn.content))
    assert picture.size == (396, 306)
    assert picture.convert("L").getextrema() == (0, 255)
    assert again.content == drawn.content
    assert beyond.status_code == 404
    assert wide.status_code == 400


async def test_a_browser_keeps_a_page_for_as_long_as_the_file_is_the_same(
    client_of: Any, own: Index, tmp_path: Path
) -> None:
    file = tmp_path / "files/tram.pdf"
    async with client_of(over=own) as client:
        found = await id_of(client, ".pdf", "text", "tram")
        address = f"/v1/items/{found}/pages/1"
        first = await client.get(address)
        held = {"If-None-Match": first.headers["etag"]}
        same = await client.get(address, headers=held)
        other = await client.get(address, headers=held, params={"width": 300})
        file.write_bytes(file.read_bytes() + b"\n")
        changed = await client.get(address, headers=held)
    assert first.headers["cache-control"] == "private, no-cache"
    assert [each.status_code for each in (first, same, other, changed)] == [200, 304, 200, 200]
    assert same.content == b""


def test_a_picture_outside_the_indexed_folders_is_not_sent(
    index: Index, sources: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    Image.new("RGB", (4, 4)).save(secret)
    (sources / "pictures" / "link.png").symlink_to(secret)
    try:
        item = next(found.found.item for found in index.explain("cup", k=3, modalities=["image"]))
        assert isinstance(item.payload, ImagePayload)
        for media in (
            str(secret),
            f"../../../../../../..{secret}",
            f"pictures/../../../../../../../..{secret}",
            "pictures/link.png",
            "http://127.0.0.1:1/x.png",
            "file:///etc/passwd",
            "data:text/html;base64,PHNjcmlwdD4=",
            "data:image/svg+xml;base64,PHN2Zz4=",
            "data:image/png;base64,%%%",
        ):
            hostile = replace(item, payload=replace(item.payload, media=media))
            with pytest.raises(ApiError) as caught:
                original(hostile, index.path)
            assert caught.value.status == 404, media
            assert str(secret) not in caught.value.message.replace(media, "")
        hostile = replace(item, source=replace(item.source, uri="../../../etc/x.pdf"))
        with pytest.raises(ApiError):
            source_pdf(hostile, index.path)
    finally:
        (sources / "pictures" / "link.png").unlink()


@pytest.fixture
def own(tmp_path: Path) -> Index:
    """An index of a TIFF and a PDF that may be broken."""
    fpdf = pytest.importorskip("fpdf")
    folder = tmp_path / "files"
    folder.mkdir()
    Image.new("RGB", (30, 20), "red").save(folder / "red square.tif")
    page = fpdf.FPDF()
    page.add_page()
    page.set_font("helvetica", size=12)
    page.multi_cell(0, 8, "The tram to the zoo leaves at nine. It is green.")
    page.output(str(folder / "tram.pdf"))
    config = load({"index.path": str(tmp_path / "index"), "encoder.name": "hashing"}, {})
    index = Index.open(create=True, config=config)
    assert index.add(folder).failed == []
    return index


async def test_a_tiff_comes_as_a_jpeg(client_of: Any, own: Index) -> None:
    async with client_of(over=own) as client:
        found = await id_of(client, ".tif", "image")
        reply = await client.get(f"/v1/items/{found}/media")
    assert reply.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(reply.content)).size == (30, 20)


async def test_a_file_that_is_gone_or_broken_by_now_leaves_the_item(
    client_of: Any, own: Index, tmp_path: Path
) -> None:
    async with client_of(over=own) as client:
        found = await id_of(client, ".pdf", "text", "tram")
        (tmp_path / "files/tram.pdf").write_bytes(b"%PDF-1.7 broken")
        broken = (await client.get(f"/v1/items/{found}")).json()
        drawn = await client.get(f"/v1/items/{found}/pages/1")
        (tmp_path / "files/tram.pdf").unlink()
        gone = (await client.get(f"/v1/items/{found}")).json()
        page = await client.get(f"/v1/items/{found}/pages/1")
    assert broken["pages"] == gone["pages"] == []
    assert "tram to the zoo" in gone["text"]["text"]
    assert (drawn.status_code, page.status_code) == (404, 404)
    assert str(tmp_path) not in drawn.text + page.text
