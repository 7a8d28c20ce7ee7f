"""What was decoded for training is kept, so that a video is not decoded again at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from canopy_rag.core.types import Item, Node
from canopy_rag.encoders.qwen3_inputs import Reading

if TYPE_CHECKING:
    from PIL import Image

KEEP_BYTES = 2 * 1024**3
"""Most bytes that are kept, in main memory, by each process: 2 GiB. Ours."""
BYTES_PER_PX = 3


class Reader(Protocol):
    """Reads nodes, as `encoders.qwen3_vl.Qwen3VL` does."""

    def node_readings(
        self, item: Item, nodes: Sequence[Node], frames: dict[float, Image.Image] | None = None
    ) -> list[Reading]:
        """Return what is read of some nodes; frames that had to be decoded are added."""
        ...


@dataclass(slots=True)
class _Kept:
    item: Item
    frames: dict[float, Image.Image] = field(default_factory=dict)
    """By their seconds, as large as any node reads them: other nodes show the same ones."""
    readings: dict[int, Reading] = field(default_factory=dict)
    """By node: its tokens, and its pictures at their size, not yet normalised."""
    n_bytes: int = 0


class KeptReadings:
    """Reads nodes and keeps what was read of the items used last.

    Args:
        reader: Reads and decodes.
        max_bytes: Most bytes that are kept; 0: nothing is.
    """

    def __init__(self, reader: Reader, max_bytes: int = KEEP_BYTES) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._kept: dict[str, _Kept] = {}  # the one used last stands last
        self.n_bytes = 0
        """Kept now."""

    def of(self, item: Item, nodes: Sequence[int]) -> list[Reading]:
        """Return what is read of some of an item's nodes, in order.

        Raises:
            EncodeError: Naming the item, if its picture or video is broken.
        """
        kept = self._kept.pop(item.id, None)
        self.n_bytes -= kept.n_bytes if kept is not None else 0
        if kept is None or kept.item is not item:  # two collections may share an id
            kept = _Kept(item)
        missing = [node for node in nodes if node not in kept.readings]
        if missing:
            asked = [item.nodes[node] for node in missing]
            read = self._reader.node_readings(item, asked, kept.frames)
            kept.readings.update(zip(missing, read, strict=True))
            kept.n_bytes = _n_bytes(kept.frames, kept.readings)
        self._kept[item.id] = kept
        self.n_bytes += kept.n_bytes
        while self.n_bytes > self._max_bytes:
            self.n_bytes -= self._kept.pop(next(iter(self._kept))).n_bytes
        return [kept.readings[node] for node in nodes]


def _n_bytes(frames: Mapping[float, Image.Image], readings: Mapping[int, Reading]) -> int:
    """Return the size of tokens and of pictures, each counted once however often it is read."""
    pictures = list(frames.values())
    n_bytes = 0
    for reading in readings.values():
        n_bytes += int(reading.ids.nbytes + reading.kinds.nbytes)
        pictures += [*reading.images, *(frame for pair in reading.pairs for frame in pair)]
    sizes: dict[int, int] = {id(picture): picture.width * picture.height for picture in pictures}
    return n_bytes + BYTES_PER_PX * sum(sizes.values())
