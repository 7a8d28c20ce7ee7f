from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from canopy_rag.core import codec
from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import ImagePayload, Item
from canopy_rag.ingest import images, ocr
from canopy_rag.ingest.options import IngestOptions


@pytest.fixture
def blind(options: IngestOptions) -> IngestOptions:
    return replace(options, ocr="off")


@pytest.fixture
def notes() -> list[str]:
    return []


def read(path: Path, options: IngestOptions) -> list[Item]:
    return list(images.parse(path, f"pictures/{path.name}", options))


def payload(item: Item) -> ImagePayload:
    assert isinstance(item.payload, ImagePayload)
    return item.payload


def save(path: Path, size: tuple[int, int] = (40, 20), **settings: object) -> Path:
    Image.new("RGB", size, "navy").save(path, **settings)
    return path


def png_header(width: int, height: int) -> bytes:
    """Return a tiny PNG that claims a size: decoding it would fail, or take all memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + start + chunk(b"IEND", b"")


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif", "gif", "bmp"])
def test_an_image_is_one_item_with_size_media_and_readable_name(
    suffix: str, tmp_path: Path, blind: IngestOptions
) -> None:
    (item,) = read(save(tmp_path / f"night_sky-2.{suffix}"), blind)
    assert item.modality == "image"
    assert item.title == "night sky 2"
    assert payload(item) == ImagePayload(
        media=f"pictures/night_sky-2.{suffix}", width=40, height=20, caption="night sky 2"
    )
    assert [(node.start, node.stop) for node in item.nodes] == [(0, 1)]
    assert codec.loads(Item, codec.dumps(item)) == item


def test_width_and_height_are_those_after_exif_rotation(
    tmp_path: Path, blind: IngestOptions
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (item,) = read(save(tmp_path / "a.jpg", exif=exif), blind)
    assert (payload(item).width, payload(item).height) == (20, 40)


def test_each_page_of_a_tiff_is_an_item_that_knows_its_page(
    tmp_path: Path, blind: IngestOptions
) -> None:
    pages = [Image.new("L", (30 + page, 10)) for page in range(3)]
    pages[0].save(tmp_path / "scan.tiff", save_all=True, append_images=pages[1:])
    items = read(tmp_path / "scan.tiff", blind)
    assert [payload(item).media for item in items] == [
        "pictures/scan.tiff",
        "pictures/scan.tiff#page=2",
        "pictures/scan.tiff#page=3",
    ]
    assert [payload(item).width for item in items] == [30, 31, 32]
    assert [item.source.spans[0].places[0].page for item in items] == [1, 2, 3]
    assert len({item.id for item in items}) == 3


def test_reduced_copies_in_a_tiff_are_no_pages(tmp_path: Path, blind: IngestOptions) -> None:
    preview = Image.new("L", (4, 2))
    preview.encoderinfo = {"tiffinfo": {254: 1}}
    Image.new("L", (40, 20)).save(tmp_path / "a.tif", save_all=True, append_images=[preview])
    assert [payload(item).width for item in read(tmp_path / "a.tif", blind)] == [40]


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_of_an_animation_the_first_frame_counts(
    suffix: str, tmp_path: Path, blind: IngestOptions
) -> None:
    more = [Image.new("RGB", (40, 20), color) for color in ("red", "green")]
    save(tmp_path / f"a.{suffix}", save_all=True, append_images=more)
    assert len(read(tmp_path / f"a.{suffix}", blind)) == 1


def test_the_caption_is_the_sidecar_of_the_full_name_then_of_the_stem(
    tmp_path: Path, blind: IngestOptions
) -> None:
    path = save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("by\nstem", encoding="utf-8")
    assert payload(read(path, blind)[0]).caption == "by stem"
    (tmp_path / "a.png.txt").write_text("by name", encoding="utf-8")
    assert payload(read(path, blind)[0]).caption == "by name"
    assert [file.name for file in images.sidecars(path)] == ["a.png.txt", "a.txt"]


def test_a_long_text_beside_a_picture_is_no_caption(tmp_path: Path, blind: IngestOptions) -> None:
    path = save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("word " * 5000, encoding="utf-8")
    assert payload(read(path, blind)[0]).caption == "a"


def test_an_unreadable_caption_is_noted_and_the_picture_indexed(
    tmp_path: Path, blind: IngestOptions, notes: list[str]
) -> None:
    path = save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_bytes(b"\x00\x01\x02")
    options = replace(blind, note=lambda uri, message: notes.append(f"{uri} {message}"))
    assert payload(read(path, options)[0]).caption == "a"
    assert len(notes) == 1
    assert notes[0].startswith("pictures/a.png its caption a.txt")


def test_without_a_callback_notes_go_to_the_log(
    tmp_path: Path, blind: IngestOptions, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_bytes(b"\x00\x01\x02")
    read(path, blind)
    assert "a.txt" in caplog.text


def test_the_caption_inside_the_file_comes_before_its_name(
    tmp_path: Path, blind: IngestOptions
) -> None:
    inside = PngImagePlugin.PngInfo()
    inside.add_text("Description", "A lighthouse\nat dusk")
    assert payload(read(save(tmp_path / "a.png", pnginfo=inside), blind)[0]).caption == (
        "A lighthouse at dusk"
    )
    exif = Image.Exif()
    exif[0x010E] = "A harbour"
    assert payload(read(save(tmp_path / "b.jpg", exif=exif), blind)[0]).caption == "A harbour"


def test_a_picture_above_the_limit_is_indexed_without_being_decoded(
    tmp_path: Path, blind: IngestOptions, notes: list[str]
) -> None:
    (tmp_path / "big_map.png").write_bytes(png_header(20_000, 20_000))
    limit = Image.MAX_IMAGE_PIXELS
    options = replace(blind, ocr="on", note=lambda uri, message: notes.append(message))
    (item,) = read(tmp_path / "big_map.png", options)
    assert payload(item) == ImagePayload(
        media="pictures/big_map.png", width=20_000, height=20_000, caption="big map"
    )
    assert "20000 x 20000" in notes[0]
    assert limit == Image.MAX_IMAGE_PIXELS


def test_within_the_limit_a_file_that_claims_too_much_is_truncated(
    tmp_path: Path, blind: IngestOptions
) -> None:
    (tmp_path / "a.png").write_bytes(png_header(2_000, 2_000))
    with pytest.raises(IngestError, match=r"pictures/a\.png: the image is truncated or corrupt"):
        read(tmp_path / "a.png", blind)


def test_the_size_of_a_sideways_picture_above_the_limit_is_that_after_rotation(
    tmp_path: Path, blind: IngestOptions, notes: list[str]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "a.jpg", exif=exif)
    options = replace(blind, max_image_px=100, note=lambda uri, message: notes.append(message))
    (item,) = read(path, options)
    assert (payload(item).width, payload(item).height) == (20, 40)


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def saved(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((60, 40), 90).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<svg/>",
        b"\x89PNG\r\n\x1a\n",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        *(half(saved(kind)) for kind in ("PNG", "JPEG", "WEBP", "TIFF", "BMP")),
    ],
)
def test_what_is_no_whole_image_is_an_error_that_names_the_file(
    content: bytes, tmp_path: Path, blind: IngestOptions
) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(IngestError) as caught:
        read(tmp_path / "a.png", blind)
    assert caught.value.path == "pictures/a.png"


def test_a_vanished_file_is_an_error_that_says_so(tmp_path: Path, blind: IngestOptions) -> None:
    with pytest.raises(IngestError, match=r"pictures/gone\.png: the file is gone"):
        read(tmp_path / "gone.png", blind)


def test_text_is_read_when_ocr_is_on_and_not_when_it_is_off(
    tmp_path: Path, options: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "a.png")
    monkeypatch.setattr(ocr, "read_text", lambda image: f"{image.width} pixels of {image.mode}")
    monkeypatch.setattr(ocr, "available", lambda: False)
    found = {
        mode: payload(read(path, replace(options, ocr=mode))[0]).ocr
        for mode in ("on", "auto", "off")
    }
    assert found == {"on": "40 pixels of RGB", "auto": "", "off": ""}
    monkeypatch.setattr(ocr, "available", lambda: True)
    assert payload(read(path, options)[0]).ocr == "40 pixels of RGB"
