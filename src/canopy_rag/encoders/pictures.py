"""Pictures and frames of items, for encoders that read pixels; a failure names the item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from canopy_rag.core.errors import EncodeError, IngestError
from canopy_rag.core.protocols import MediaPlace
from canopy_rag.core.types import ImagePayload, Item, Node, VideoPayload

if TYPE_CHECKING:
    from PIL import Image


def anywhere(media: str) -> tuple[str, Path | None]:
    """Find media by absolute path or `data:` URI, as documents that are handed over have it."""
    return media, None


class Pictures:
    """Loads the pixels of items.

    Args:
        place: Finds an item's media; None: `anywhere`.
    """

    def __init__(self, place: MediaPlace | None = None) -> None:
        self._place = place or anywhere

    def image(self, item: Item) -> Image.Image:
        """Return an image upright as RGB.

        Raises:
            EncodeError: If its file is gone, broken or too large.
            MissingDependencyError: If Pillow is not installed.
        """
        payload = item.payload
        if not isinstance(payload, ImagePayload):
            raise TypeError(f"item {item.id!r} is no image but of modality {item.modality!r}")
        from canopy_rag.media import load_image

        with _naming(item):
            return load_image(*self._place(payload.media))

    def frames(self, item: Item, times: Sequence[float]) -> list[Image.Image]:
        """Return the frames of a video at these seconds, upright as RGB, in order.

        All are in memory at once, as large as the video shows them.

        Raises:
            EncodeError: If its file is gone, broken, or shows no frame there.
            MissingDependencyError: If the `video` extra is not installed.
        """
        payload = item.payload
        if not isinstance(payload, VideoPayload):
            raise TypeError(f"item {item.id!r} is no video but of modality {item.modality!r}")
        if not times:
            return []
        from canopy_rag.media import load_frames

        name, root = self._place(payload.media)
        with _naming(item):
            return load_frames(name, times, root)


def frame_times(item: Item, node: Node, most: int) -> list[float]:
    """Return when the sampled frames of a video's node are on screen, ascending.

    Args:
        item: A video; others have none.
        node: Of its tree.
        most: If there are more, this many of them, evenly spread from the first to the last.
    """
    if not isinstance(item.payload, VideoPayload):
        return []
    times = [
        time
        for segment in item.payload.segments
        if segment.start < node.stop and node.start < segment.stop
        for time in segment.frames
    ]
    if len(times) <= most:
        return times
    if most == 1:
        return [times[len(times) // 2]]
    return [times[round(step * (len(times) - 1) / (most - 1))] for step in range(most)]


@contextmanager
def _naming(item: Item) -> Iterator[None]:
    try:
        yield
    except IngestError as error:
        raise EncodeError(item.id, f"its picture cannot be read: {error}") from error
