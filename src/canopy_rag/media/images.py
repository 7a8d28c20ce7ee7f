"""Images: opened without decoding, decoded upright as RGB, scaled, as data URIs."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import IngestError, MissingDependencyError
from canopy_rag.media.files import locate
from canopy_rag.media.quiet import quiet

try:
    from PIL import Image, ImageOps, TiffImagePlugin, UnidentifiedImageError
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "reading pictures needs `pillow`, which is not installed. "
        "Run: pip install 'canopy-rag[index]'"
    ) from error

MAX_IMAGE_PX = 100_000_000
"""Larger images are not decoded."""
READER_IMAGE_PX = 1_000_000
"""Pixels of an image sent to a reader; vision models scale larger ones down themselves."""

# Only plain decoders: Pillow also knows formats that start other programs, such as EPS.
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP")

_DEEP_MODES = ("I", "F")


def load_image(media: str, root: Path | None, *, max_px: int = MAX_IMAGE_PX) -> Image.Image:
    """Return an image upright as RGB on white; of an animated one the first frame.

    Args:
        media: An image payload's `media`: path (see `locate`) or `data:` URI.
        root: The folder that `media` is relative to; None for an absolute path.
        max_px: A larger image is refused before it is decoded.

    Raises:
        IngestError: Naming the file, if it is missing, outside `root`, broken or too large.
    """
    source: Path | io.BytesIO
    if media.startswith("data:"):
        source, page, name = io.BytesIO(_data_of(media)), 1, f"{media[:40]}..."
    else:
        (source, page), name = locate(media, root), media
    with open_image(source, name) as image:
        if page > 1:
            seek_page(image, page - 1, name)
        if image.width * image.height > max_px:
            raise IngestError(
                name, f"{image.width} x {image.height} pixels are above the limit of {max_px}"
            )
        return decode(image, name)


def image_data_uri(media: str, root: Path | None, *, max_px: int = READER_IMAGE_PX) -> str:
    """Return an image as a JPEG `data:` URI of at most `max_px` pixels.

    Raises:
        IngestError: As `load_image`.
    """
    return data_uri(load_image(media, root), max_px=max_px)


def data_uri(image: Image.Image, *, max_px: int = READER_IMAGE_PX) -> str:
    """Return an RGB image as a JPEG `data:` URI, scaled down to at most `max_px` pixels."""
    small = scaled(image, max_px)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=90)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def scaled(image: Image.Image, max_px: int) -> Image.Image:
    """Return `image` with at most `max_px` pixels, its proportions kept; never enlarged."""
    shrink = math.sqrt(max_px / (image.width * image.height))
    if shrink >= 1:
        return image
    size = (max(1, int(image.width * shrink)), max(1, int(image.height * shrink)))
    return image.resize(size, Image.Resampling.LANCZOS)


def open_image(source: Path | io.BytesIO, name: str) -> Image.Image:
    """Open an image without decoding it, however large it claims to be.

    Close it, for instance with `with`.

    Raises:
        IngestError: If it is missing, empty, not an image, or of a format not in `FORMATS`.
    """
    with foreign_decoder(name):
        return Image.open(source, formats=FORMATS)


def seek_page(image: Image.Image, index: int, name: str) -> None:
    """Go to a page of a TIFF, 0-based.

    Raises:
        IngestError: If there is no such page.
    """
    with foreign_decoder(name):
        image.seek(index)


def n_pages(image: Image.Image, name: str) -> int:
    """Return the number of pages of a TIFF; 1 for every other format.

    Raises:
        IngestError: If the file breaks off between pages.
    """
    if image.format != "TIFF":
        return 1
    with foreign_decoder(name):
        return int(getattr(image, "n_frames", 1))


def exif_value(image: Image.Image, tag: int, name: str) -> Any:
    """Return a value of the EXIF data in the file's head, or None. Never decodes the image.

    Pillow's own `getexif` decodes a PNG that has none, however large it claims to be.

    Raises:
        IngestError: If the file is broken.
    """
    with foreign_decoder(name):
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            return image.tag_v2.get(tag)
        exif = Image.Exif()
        exif.load(image.info.get("exif") or b"")
        return exif.get(tag)


def decode(image: Image.Image, name: str) -> Image.Image:
    """Decode the opened page of an image: upright, RGB, transparent parts white.

    Grey of more than 8 bit is stretched to black and white.

    Raises:
        IngestError: If it is truncated or corrupt.
    """
    with foreign_decoder(name):
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _DEEP_MODES or image.mode.startswith("I;"):
        # Pillow clips deep grey at 255 when it converts, which leaves scans white.
        grey = image.convert("F")
        low, high = grey.getextrema()
        scale = 255 / (high - low) if high > low else 0
        return grey.point(lambda value: value * scale - low * scale).convert("L").convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        canvas = Image.new("RGB", image.size, "white")
        canvas.paste(image, mask=image.getchannel("A"))
        return canvas
    return image if image.mode == "RGB" else image.convert("RGB")


@contextlib.contextmanager
def foreign_decoder(name: str) -> Iterator[None]:
    """Run Pillow quietly and without its own limit, and name the file in whatever it raises.

    Pillow's limit, one for the whole process, would hide the size of an image that is too large;
    callers compare sizes with a limit of their own before they decode. Its warnings (odd EXIF, odd
    palettes) concern nothing that is shown. The limit is changed under the lock of `quiet`.
    """
    with quiet():
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        except FileNotFoundError as error:
            raise IngestError(name, "the file is gone") from error
        except UnidentifiedImageError as error:
            raise IngestError(
                name, "is empty or not an image; PNG, JPEG, WebP, TIFF, GIF and BMP are read"
            ) from error
        except Exception as error:
            # Decoders of damaged data raise whatever they trip over: SyntaxError, struct.error,
            # KeyError, zlib.error and more.
            raise IngestError(name, f"the image is truncated or corrupt: {error}") from error
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _data_of(uri: str) -> bytes:
    head, comma, body = uri.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError("expected `data:<type>;base64,<data>`")
        return base64.b64decode(body, validate=True)
    except (ValueError, binascii.Error) as error:
        raise IngestError(f"{uri[:40]}...", f"not a usable data URI: {error}") from error
