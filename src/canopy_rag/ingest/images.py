"""Image files: one item per picture, with its caption and the text in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canopy_rag.core.trees import image_tree
from canopy_rag.core.types import ImagePayload, Item, Place, Source, SourceSpan, item_id
from canopy_rag.ingest import ocr
from canopy_rag.ingest.notes import note
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.ingest.sidecar import caption_files, readable_name, sidecar_caption
from canopy_rag.media.images import (
    decode,
    exif_value,
    n_pages,
    open_image,
    seek_page,
)

_EXIF_DESCRIPTION = 0x010E
_EXIF_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)
_TIFF_SUBFILE_TYPE = 254
_REDUCED_COPY = 1
_MAX_DESCRIPTION = 2000


def sidecars(path: Path) -> list[Path]:
    """Return the other files that the items of `path` depend on."""
    return caption_files(path)


def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
    """Yield the pictures of an image file: one, or one for each page of a TIFF.

    Of an animated image the first frame counts. The caption is a sidecar text file, else the
    description inside the file, else the file's name as words. A picture above
    `options.max_image_px` is never decoded: its item has caption and size alone, and a note says
    so. The `media` of a TIFF's later pages is `uri#page=2` and so on.

    Args:
        path: The file.
        uri: What its items call it; their `media` too.
        options: OCR, the size limit, where notes go.

    Raises:
        IngestError: If the file is missing, empty, truncated, corrupt or no image.
        MissingDependencyError: If `options.ocr` is `on` and the `ocr` extra is not installed.
    """
    sidecar = sidecar_caption(path, uri, options)
    title = readable_name(path)
    ordinal = 0
    with open_image(path, uri) as image:
        pages = n_pages(image, uri)
        for index in range(pages):
            if pages > 1:
                seek_page(image, index, uri)
                if index and _is_reduced_copy(image):
                    continue
            payload = ImagePayload(
                media=uri if index == 0 else f"{uri}#page={index + 1}",
                **_content(image, uri, options),
                caption=sidecar or _description(image, uri) or title,
            )
            spans = (SourceSpan(start=0, stop=1, places=(Place(page=index + 1),)),)
            yield Item(
                id=item_id(uri, ordinal),
                modality="image",
                title=title,
                payload=payload,
                nodes=image_tree(),
                source=Source(uri=uri, ordinal=ordinal, spans=spans if pages > 1 else ()),
            )
            ordinal += 1


def _content(image: Any, uri: str, options: IngestOptions) -> dict[str, Any]:
    """Return size and text of the current page, checking that it can be decoded."""
    width, height = image.size
    if width * height > options.max_image_px:
        note(
            options,
            uri,
            f"{width} x {height} pixels are above the limit of {options.max_image_px}; indexed by "
            "its caption alone, without looking inside",
        )
        if exif_value(image, _EXIF_ORIENTATION, uri) in _SIDEWAYS:
            width, height = height, width
        return {"width": width, "height": height}
    picture = decode(image, uri)
    reads = options.ocr == "on" or (options.ocr == "auto" and ocr.available())
    text = ocr.read_text(picture) if reads else ""
    return {"width": picture.width, "height": picture.height, "ocr": text}


def _is_reduced_copy(image: Any) -> bool:
    """Whether a TIFF's page is a smaller copy of another, as in a pyramid or a preview."""
    return bool(int(image.tag_v2.get(_TIFF_SUBFILE_TYPE, 0)) & _REDUCED_COPY)


def _description(image: Any, uri: str) -> str:
    """Return what the file itself says that the picture shows, or nothing."""
    inside = image.info.get("Description") or exif_value(image, _EXIF_DESCRIPTION, uri)
    if isinstance(inside, bytes):
        inside = inside.decode("utf-8", "replace")
    if not isinstance(inside, str):
        return ""
    return " ".join(inside.replace("\0", " ").split())[:_MAX_DESCRIPTION]
