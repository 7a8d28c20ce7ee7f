"""`qwen3-vl`: Qwen3-VL-Embedding, the paper's encoder for text, tables, images and video (P1).

Each node is encoded on its own, as the last token's state of a conversation that holds it. Tables
and texts are read as text with their context; an image as its pixels with its title, caption and
OCR; a video's node as the sampled frames of its segments, each pair after its time in the file,
with title and subtitles. With an adapter, items and their queries keep the frozen model's vectors
(f0) and nodes get the adapted ones (f_theta), both from one model in memory.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.errors import CanopyError, ConfigError, EncodeError
from canopy_rag.core.node_text import node_text
from canopy_rag.core.protocols import Fingerprint, MediaPlace
from canopy_rag.core.types import Item, Modality, Node
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors
from canopy_rag.encoders.adapters import Adapter, check_base
from canopy_rag.encoders.hub import Checkpoint
from canopy_rag.encoders.pictures import Pictures, frame_times
from canopy_rag.encoders.placement import Placement
from canopy_rag.encoders.qwen3_inputs import (
    EMPTY,
    EXTRA,
    Budgets,
    Inputs,
    Reading,
    instruction_sentence,
)
from canopy_rag.encoders.qwen3_model import Network, load_config, load_model
from canopy_rag.encoders.windows import batches

if TYPE_CHECKING:
    from PIL import Image

NAME = "qwen3-vl"
DEFAULT_MODEL = "Qwen/Qwen3-VL-Embedding-2B"
QUERY_INSTRUCTION = "Retrieve images or text relevant to the user's query."
"""From the model's own examples; the paper's is not known."""
DOCUMENT_INSTRUCTION = "Represent the user's input."
"""The model's default."""
POOLING = 1
"""Goes up when the same weights would give other vectors."""
BATCH_TOKENS_CPU = 2048
BATCH_TOKENS_GPU = 16384
POOL = 4
"""Batches that are sorted by length together; their pictures are in memory at once."""
FRAMES_AT_ONCE = 16
"""Frames decoded in full size before they are reduced."""

Rows = NDArray[np.float32]
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Options:
    """How the model is asked, and where it computes."""

    query_instruction: str = QUERY_INSTRUCTION
    document_instruction: str = DOCUMENT_INSTRUCTION
    dim: int | None = None
    """Dimensions that are kept of each vector before it is normalised (Matryoshka); None: all."""
    budgets: Budgets = field(default_factory=Budgets)
    placement: Placement = field(default_factory=Placement)
    batch_tokens: int | None = None
    """Most tokens of one forward pass, padding included; None: 16,384 on a GPU, 2,048 on a CPU."""

    def __post_init__(self) -> None:
        for name in ("dim", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"encoder.{name} must be at least 1, got {value}")


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    key: Key
    name: str
    """What to call it in an error."""
    reading: Reading


class Qwen3VL:
    """Encodes queries and items of all modalities.

    Args:
        model: Folder of a checkpoint, or `owner/name` on the hub, `@revision` added or not; None:
            Qwen/Qwen3-VL-Embedding-2B. Fetched on first use unless downloads are forbidden.
        options: How it is asked.
        adapter: Of kind `lora`, for nodes (f_theta).
        place: Finds the pictures and videos of items; None: by absolute path or `data:` URI.

    Raises:
        ConfigError: If an argument cannot work. Files are looked at on first use.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        options: Qwen3Options | None = None,
        adapter: Adapter | None = None,
        place: MediaPlace | None = None,
    ) -> None:
        self._named = model is not None
        self._files = Checkpoint(model or DEFAULT_MODEL, extra=EXTRA)
        self._options = options or Qwen3Options()
        self._adapter = adapter
        self._pictures = Pictures(place)
        self._query = instruction_sentence(self._options.query_instruction)
        self._document = instruction_sentence(self._options.document_instruction)
        self._lock = threading.RLock()

    @property
    def options(self) -> Qwen3Options:
        """How it is asked, and where it computes."""
        return self._options

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on; of a folder a checksum is taken once."""
        base = self._base_fingerprint
        if self._adapter is None:
            return base
        return replace(base, revision=f"{base.revision}+{self._adapter.digest}")

    @cached_property
    def _base_fingerprint(self) -> Fingerprint:
        revision = f"{self._files.identity[:16]}.{POOLING}"
        if self._document != DOCUMENT_INSTRUCTION:
            revision += f".{hashlib.sha256(self._document.encode()).hexdigest()[:8]}"
        for name, value in self._options.budgets.unusual().items():
            revision += f".{name}={value}"
        return Fingerprint(
            model=f"{NAME}:{self._files.name}" if self._named else NAME,
            revision=revision,
            mode="node",
            instruction=self._query,
            dim=self._dim,
        )

    @property
    def media(self) -> frozenset[Modality]:
        """Images and videos; a video's segment without frames is read through its subtitles."""
        return frozenset({"image", "video"})

    @property
    def languages(self) -> frozenset[str] | None:
        """Over thirty, more than are worth a list."""
        return None

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens."""
        return len(self._inputs.text_ids(text))

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order, surrounding white space aside.

        An empty one is read as "NULL", which is the model's own way; an over-long one is cut.

        Raises:
            EncodeError: If the model fails.
        """
        texts = [query.strip() for query in queries]
        unique = dict.fromkeys(texts)

        def tasks() -> Iterator[_Task]:
            for position, text in enumerate(unique):
                yield _Task((text,), f"query {position}", self._inputs.reading(self._query, text))

        node = self._encode(tasks(), adapted=True)
        retrieval = node if self._one_pass else self._encode(tasks(), adapted=False)
        return QueryVectors(
            retrieval=self._stack([retrieval[(text,)] for text in texts]),
            node=self._stack([node[(text,)] for text in texts]),
        )

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and their nodes, in order.

        The result does not depend on the batch but for rounding; nodes that say the same within
        one call have the same vector exactly.

        Raises:
            EncodeError: Naming the item that failed, a broken picture or video included.
            MissingDependencyError: If a video is to be read and the `video` extra is missing.
        """
        keys = [
            [_key(item, node, self._times(item, node)) for node in item.nodes] for item in items
        ]
        nodes = self._encode(self._tasks(items, keys, roots=False), adapted=True)
        whole = nodes
        if not self._one_pass:
            whole = self._encode(self._tasks(items, keys, roots=True), adapted=False)
        return [
            ItemVectors(
                item=whole[own[0]],
                nodes=NodeVectors(rows=self._stack([nodes[key] for key in own]).astype(np.float16)),
            )
            for own in keys
        ]

    def query_reading(self, query: str) -> Reading:
        """Return what the model reads of a query; for training."""
        return self._inputs.reading(self._query, query.strip())

    def node_readings(
        self, item: Item, nodes: Sequence[Node], frames: dict[float, Image.Image] | None = None
    ) -> list[Reading]:
        """Return what the model reads of some of an item's nodes, in order; for training.

        Args:
            item: Whose nodes they are.
            nodes: Some of them.
            frames: Of the item's video, decoded before, by their seconds; those that are missing
                are decoded and added. None: all are decoded.

        Raises:
            EncodeError: Naming the item, if its picture or video is broken.
        """
        frames = self._frames(item, nodes, frames)
        return [self._reading(item, node, frames) for node in nodes]

    def batch(self, readings: Sequence[Reading]) -> dict[str, NDArray[Any]]:
        """Return readings as the arrays that the network takes, padded on the right."""
        return self._inputs.batch(readings)

    def load_network(self) -> Any:
        """Return the frozen network, apart from the one that encodes; for training."""
        return load_model(self._files.folder(), self._options.placement)

    def _tasks(
        self, items: Sequence[Item], keys: Sequence[Sequence[Key]], *, roots: bool
    ) -> Iterator[_Task]:
        """Yield what has to be read, each key once."""
        seen: set[Key] = set()
        for item, own in zip(items, keys, strict=True):
            new = {
                key: node
                for node, key in zip(item.nodes[: 1 if roots else None], own, strict=False)
                if key not in seen
            }
            seen |= set(new)
            frames = self._frames(item, list(new.values()))
            for key, node in new.items():
                yield _Task(key, item.id, self._reading(item, node, frames))

    def _reading(self, item: Item, node: Node, frames: dict[float, Image.Image]) -> Reading:
        times = self._times(item, node)
        images = [self._pictures.image(item)] if item.modality == "image" else []
        try:
            return self._inputs.reading(
                self._document,
                node_text(item, node),
                images=images,
                frames=[frames[time] for time in times],
                times=times,
            )
        except ValueError as error:
            if isinstance(error, CanopyError):
                raise
            raise EncodeError(item.id, str(error)) from error

    def _times(self, item: Item, node: Node) -> list[float]:
        return frame_times(item, node, self._options.budgets.max_frames)

    def _frames(
        self, item: Item, nodes: Sequence[Node], known: dict[float, Image.Image] | None = None
    ) -> dict[float, Image.Image]:
        """Return the frames that a video's nodes need, none larger than the largest use of it."""
        frames = {} if known is None else known
        times = sorted({time for node in nodes for time in self._times(item, node)} - set(frames))
        for begin in range(0, len(times), FRAMES_AT_ONCE):
            from canopy_rag.media.images import scaled

            chunk = times[begin : begin + FRAMES_AT_ONCE]
            for time, frame in zip(chunk, self._pictures.frames(item, chunk), strict=True):
                frames[time] = scaled(frame, self._options.budgets.max_frame_px)
        return frames

    def _encode(self, tasks: Iterator[_Task], *, adapted: bool) -> dict[Key, Rows]:
        """Return the unit vector of each task by its key."""
        rows: dict[Key, Rows] = {}
        pool: list[_Task] = []
        n_tokens = 0
        for task in tasks:
            pool.append(task)
            n_tokens += len(task.reading.ids)
            if n_tokens >= POOL * self._batch_tokens:
                self._read(pool, rows, adapted=adapted)
                pool, n_tokens = [], 0
        self._read(pool, rows, adapted=adapted)
        return rows

    def _read(self, tasks: Sequence[_Task], rows: dict[Key, Rows], *, adapted: bool) -> None:
        lengths = [len(task.reading.ids) for task in tasks]
        for positions in batches(lengths, self._batch_tokens if tasks else 1):
            batch = [tasks[position] for position in positions]
            try:
                with self._lock:
                    states = self._network.states(
                        self._inputs.batch([task.reading for task in batch]), adapted=adapted
                    )
            except CanopyError:
                raise
            except Exception as error:  # whatever the runtime raises
                raise EncodeError(
                    batch[0].name,
                    f"the model failed on a batch of {len(batch)} inputs of up to "
                    f"{max(lengths[position] for position in positions)} tokens: {error}; if "
                    "memory ran out, lower encoder.batch_tokens",
                ) from error
            for task, state in zip(batch, states, strict=True):
                rows[task.key] = _unit(state[: self._dim], task.name)

    def _stack(self, rows: Sequence[Rows]) -> Rows:
        return np.asarray(rows, np.float32).reshape(len(rows), self._dim)

    @cached_property
    def _dim(self) -> int:
        text = self._files.json("config.json").get("text_config")
        hidden = text.get("hidden_size") if isinstance(text, dict) else None
        if not isinstance(hidden, int):
            raise ConfigError(
                f"encoder model {self._files.name!r}: its config.json tells no hidden size; is it "
                "a Qwen3-VL? For another model use hf:<model>"
            )
        dim = self._options.dim or hidden
        if dim > hidden:
            raise ConfigError(f"encoder dim {dim} is above the model's {hidden} dimensions")
        return dim

    @property
    def _one_pass(self) -> bool:
        """Whether f_theta ranks items, too: there is no adapter, or it was trained to (D12)."""
        return self._adapter is None or self._adapter.retrieves

    @property
    def _batch_tokens(self) -> int:
        default = BATCH_TOKENS_GPU if self._network.on_gpu else BATCH_TOKENS_CPU
        return self._options.batch_tokens or default

    @property
    def _inputs(self) -> Inputs:
        with self._lock:
            return self._loaded_inputs

    @property
    def _network(self) -> Network:
        with self._lock:
            return self._loaded_network

    @cached_property
    def _loaded_inputs(self) -> Inputs:
        folder = self._files.folder()
        return Inputs(folder, load_config(folder), self._options.budgets)

    @cached_property
    def _loaded_network(self) -> Network:
        folder = None
        if self._adapter is not None:
            check_base(self._adapter, self._base_fingerprint)
            folder = self._adapter.folder
        return Network(self._files.folder(), folder, self._options.placement)


def _key(item: Item, node: Node, times: Sequence[float]) -> Key:
    """Return what two nodes share if and only if they read the same."""
    text = node_text(item, node).strip() or EMPTY
    if item.modality == "image" or times:
        return (item.id, text, *times)
    return (text,)


def _unit(state: Rows, name: str) -> Rows:
    length = float(np.linalg.norm(state.astype(np.float64)))
    if not np.isfinite(length) or length == 0:
        raise EncodeError(name, "the model gave no number; are its weights damaged?")
    return np.asarray(state / length, np.float32)
