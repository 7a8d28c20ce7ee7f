from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canopy_rag.core.errors import IngestError
from canopy_rag.media import data_uri, image_data_uri, load_image, locate


def picture_of(uri: str) -> Image.Image:
    head, _, body = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(body)))


def save(path: Path, color: object = "navy", mode: str = "RGB", **settings: object) -> str:
    Image.new(mode, (40, 20), color).save(path, **settings)
    return path.name


def test_an_image_is_found_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    save(tmp_path / "sub" / "a.png")
    image = load_image("sub/a.png", tmp_path)
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (40, 20), (0, 0, 128))


def test_without_a_root_the_path_is_absolute(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    assert load_image(str(tmp_path / "a.png"), None).size == (40, 20)
    with pytest.raises(IngestError, match=r"a\.png: is a relative path"):
        load_image("a.png", None)


@pytest.mark.parametrize("media", ["../a.png", "x/../../a.png"])
def test_a_path_that_leads_out_of_the_root_is_refused(media: str, tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "root" / "x").mkdir(parents=True)
    with pytest.raises(IngestError, match="leads out of"):
        load_image(media, tmp_path / "root")


def test_an_absolute_path_outside_the_root_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "root").mkdir()
    with pytest.raises(IngestError, match="leads out of"):
        load_image(str(tmp_path / "a.png"), tmp_path / "root")


def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "root").mkdir()
    try:
        (tmp_path / "root" / "b.png").symlink_to(tmp_path / "a.png")
    except OSError:
        pytest.skip("links need a right here that the user lacks")
    with pytest.raises(IngestError, match="leads out of"):
        load_image("b.png", tmp_path / "root")


@pytest.mark.parametrize("media", ["gone.png", "a\0b.png", ""])
def test_what_names_no_file_is_an_error_that_names_it(media: str, tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        load_image(media, tmp_path)
    assert caught.value.path == media


def test_a_page_of_a_tiff_is_named_behind_a_hash(tmp_path: Path) -> None:
    pages = [Image.new("RGB", (30 + page, 10)) for page in range(3)]
    pages[0].save(tmp_path / "s.tif", save_all=True, append_images=pages[1:])
    assert load_image("s.tif", tmp_path).width == 30
    assert load_image("s.tif#page=3", tmp_path).width == 32
    with pytest.raises(IngestError, match=r"s\.tif#page=4"):
        load_image("s.tif#page=4", tmp_path)


def test_a_file_whose_name_looks_like_a_page_is_that_file(tmp_path: Path) -> None:
    save(tmp_path / "a.png#page=2", format="PNG")
    assert locate("a.png#page=2", tmp_path) == ((tmp_path / "a.png#page=2").resolve(), 1)


def test_an_image_comes_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert load_image(save(tmp_path / "a.jpg", exif=exif), tmp_path).size == (20, 40)


def test_transparent_parts_are_white(tmp_path: Path) -> None:
    name = save(tmp_path / "a.png", (0, 0, 0, 0), "RGBA")
    assert load_image(name, tmp_path).getpixel((0, 0)) == (255, 255, 255)


def test_sixteen_bit_grey_is_stretched_and_not_clipped(tmp_path: Path) -> None:
    ramp = np.linspace(1000, 9000, 16, dtype=np.uint16).reshape(4, 4)
    Image.fromarray(ramp).save(tmp_path / "scan.png")
    red = np.asarray(load_image("scan.png", tmp_path))[:, :, 0].ravel()
    assert (red[0], red[-1]) == (0, 255)
    assert (np.diff(red.astype(int)) > 0).all()


def test_an_image_above_the_limit_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    name = save(tmp_path / "a.png")
    with pytest.raises(IngestError, match=r"a\.png: 40 x 20 pixels are above the limit of 799"):
        load_image(name, tmp_path, max_px=799)
    assert load_image(name, tmp_path, max_px=800).size == (40, 20)


def test_a_broken_image_is_an_error_that_names_it(tmp_path: Path) -> None:
    name = save(tmp_path / "a.png")
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:60])
    with pytest.raises(IngestError, match=r"a\.png: the image is truncated or corrupt"):
        load_image(name, tmp_path)


def test_a_data_uri_is_its_own_image() -> None:
    uri = data_uri(Image.new("RGB", (40, 20), "white"))
    assert load_image(uri, None).getpixel((0, 0)) == (255, 255, 255)
    assert load_image(uri, Path("anywhere")).size == (40, 20)


@pytest.mark.parametrize("uri", ["data:", "data:image/png,abc", "data:image/png;base64,@@"])
def test_a_malformed_data_uri_is_an_error(uri: str) -> None:
    with pytest.raises(IngestError, match="not a usable data URI"):
        load_image(uri, None)


def test_a_data_uri_for_a_reader_keeps_to_its_pixels_and_proportions(tmp_path: Path) -> None:
    name = save(tmp_path / "a.png")
    assert picture_of(image_data_uri(name, tmp_path)).size == (40, 20)
    assert picture_of(image_data_uri(name, tmp_path, max_px=200)).size == (20, 10)
    assert picture_of(image_data_uri(name, tmp_path, max_px=1)).size == (1, 1)
