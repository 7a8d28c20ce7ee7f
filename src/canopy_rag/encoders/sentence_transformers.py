"""`hf:<model>`: any model of sentence-transformers, from a folder or the hub.

Each node is encoded on its own. Images and videos are read as pixels as far as the model can, with
their text where it takes both at once; otherwise through their text. Prompts for queries and
documents are the model's own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import CanopyError, ConfigError, EncodeError, ModelError
from canopy_rag.core.node_text import node_text
from canopy_rag.core.protocols import Fingerprint, MediaPlace
from canopy_rag.core.types import Item, Modality, Node
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors
from canopy_rag.encoders.hub import Checkpoint
from canopy_rag.encoders.pictures import Pictures, frame_times
from canopy_rag.encoders.placement import Placement, device_of, loading_options

EXTRA = "hf"
FEATURE = "an encoder hf:<model>"
EMPTY = "NULL"
"""What a node or query without words is read as: some models have no vector for no tokens."""
POOLING = 1
"""Goes up when the same weights would give other vectors."""
MAX_CHARS_PER_TOKEN = 64
"""A text is cut at this many characters per token of the window; the model cuts the rest."""
NO_WINDOW = 8192
"""Window of a model that tells none, for the cut above."""
BATCH = 32
"""Texts of one forward pass."""
MEDIA_BATCH = 8
"""Inputs with pictures of one forward pass, and in memory at once."""
MAX_FRAMES = 16
"""Frames of a video's node that are read, evenly spread."""
FRAME_PX = 250_000
"""Pixels that a frame is reduced to; the model's own processor scales further."""
CLOCK = 10
"""Frames are told to the model in tenths of a second."""

Rows = NDArray[np.float32]
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HFOptions:
    """How the model is asked, and where it computes."""

    query_prompt: str | None = None
    """What is put before queries; None: the model's own prompt for queries, if it has one."""
    dim: int | None = None
    """Dimensions that are kept of each vector before it is normalised (Matryoshka); None: all."""
    placement: Placement = field(default_factory=Placement)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    key: Key
    name: str
    """What to call it in an error."""
    input: Any
    """As sentence-transformers takes it."""
    kind: str
    """Inputs of one kind make a batch."""


class SentenceTransformers:
    """Encodes queries and items.

    Args:
        model: Folder of a model, or `owner/name` on the hub, `@revision` added or not. Only
            safetensors are read, and no code of the model's.
        options: How it is asked.
        place: Finds the pictures and videos of items; None: by absolute path or `data:` URI.

    Raises:
        ConfigError: If an argument cannot work. Files are looked at on first use.
    """

    def __init__(
        self,
        model: str,
        *,
        options: HFOptions | None = None,
        place: MediaPlace | None = None,
    ) -> None:
        self._files = Checkpoint(model, extra=EXTRA)
        self._options = options or HFOptions()
        if self._options.dim is not None and self._options.dim < 1:
            raise ConfigError(f"encoder dim must be at least 1, got {self._options.dim}")
        self._pictures = Pictures(place)
        self._lock = threading.RLock()

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on.

        Of a folder a checksum is taken once. A model whose files do not tell its dimensions is
        loaded for them.
        """
        return Fingerprint(
            model=f"hf:{self._files.name}",
            revision=f"{self._files.identity[:16]}.{POOLING}",
            mode="node",
            instruction=self._query_prompt,
            dim=self._dim,
        )

    @property
    def media(self) -> frozenset[Modality]:
        """What the model reads of images and videos; asking loads it."""
        found: set[Modality] = set()
        if self._model.supports("image"):
            found.add("image")
        if self._model.supports("video"):
            found.add("video")
        return frozenset(found)

    @property
    def languages(self) -> frozenset[str] | None:
        """Not told by models in a way that programs can read."""
        return None

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens."""
        return len(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order; the model cuts an over-long one.

        Raises:
            EncodeError: If the model fails.
        """
        texts = [self._text(query) for query in queries] if queries else []
        tasks = (
            _Task((text,), f"query {position}", text, "query")
            for position, text in enumerate(dict.fromkeys(texts))
        )
        found = self._encode(tasks)
        rows = self._stack([found[(text,)] for text in texts])
        return QueryVectors(retrieval=rows, node=rows)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and their nodes, in order; nodes that say the same have the same vector.

        Raises:
            EncodeError: Naming the item that failed, a broken picture or video included.
        """
        keys = [[self._key(item, node) for node in item.nodes] for item in items]
        found = self._encode(self._tasks(items, keys))
        return [
            ItemVectors(
                item=found[own[0]],
                nodes=NodeVectors(rows=self._stack([found[key] for key in own]).astype(np.float16)),
            )
            for own in keys
        ]

    def _tasks(self, items: Sequence[Item], keys: Sequence[Sequence[Key]]) -> Iterator[_Task]:
        seen: set[Key] = set()
        for item, own in zip(items, keys, strict=True):
            for node, key in zip(item.nodes, own, strict=True):
                if key not in seen:
                    seen.add(key)
                    yield self._task(item, node, key)

    def _task(self, item: Item, node: Node, key: Key) -> _Task:
        text = self._text(node_text(item, node))
        kind = key[0]
        if kind == "text":
            return _Task(key, item.id, text, "text")
        value: Any
        if kind == "image":
            value = self._pictures.image(item)
        else:
            value = self._video(item, frame_times(item, node, MAX_FRAMES))
        both = self._model.supports((kind, "text")) and text != EMPTY
        content = {str(kind): value, "text": text} if both else {str(kind): value}
        return _Task(key, item.id, content, f"{kind}{'+text' if both else ''}")

    def _key(self, item: Item, node: Node) -> Key:
        """Return what two nodes share if and only if they read the same."""
        text = self._text(node_text(item, node))
        times = frame_times(item, node, MAX_FRAMES)
        if item.modality in self.media and (item.modality == "image" or times):
            return (item.modality, item.id, text, *times)
        return ("text", text)

    def _video(self, item: Item, times: Sequence[float]) -> dict[str, Any]:
        from canopy_rag.media.images import scaled

        frames = [scaled(frame, FRAME_PX) for frame in self._pictures.frames(item, times)]
        first = frames[0].size
        array = np.stack([np.asarray(frame.resize(first)) for frame in frames])
        indices = [round(time * CLOCK) for time in times]
        metadata = {
            "fps": float(CLOCK),
            "frames_indices": indices,
            "total_num_frames": indices[-1] + 1,
            "duration": (indices[-1] + 1) / CLOCK,
            "width": first[0],
            "height": first[1],
        }
        return {"array": array, "video_metadata": metadata}

    def _encode(self, tasks: Iterator[_Task]) -> dict[Key, Rows]:
        """Return the unit vector of each task by its key."""
        rows: dict[Key, Rows] = {}
        waiting: dict[str, list[_Task]] = {}
        for task in tasks:
            pool = waiting.setdefault(task.kind, [])
            pool.append(task)
            # Texts are cheap to hold, and sorted by length among many they need less padding.
            if len(pool) == (BATCH * 16 if isinstance(task.input, str) else MEDIA_BATCH):
                self._read(pool, rows)
                waiting[task.kind] = []
        for pool in waiting.values():
            if pool:
                self._read(pool, rows)
        return rows

    def _read(self, tasks: Sequence[_Task], rows: dict[Key, Rows]) -> None:
        kind = tasks[0].kind
        options: dict[str, Any] = {
            "batch_size": BATCH if kind in ("query", "text") else MEDIA_BATCH
        }
        if kind.startswith("video"):
            options["processing_kwargs"] = {"video": {"do_sample_frames": False}}
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        if kind == "query" and self._options.query_prompt is not None:
            options["prompt"] = self._options.query_prompt
        try:
            with self._lock:
                found = encode([task.input for task in tasks], show_progress_bar=False, **options)
        except CanopyError:
            raise
        except Exception as error:  # whatever the library and the model's own parts raise
            raise EncodeError(
                tasks[0].name, f"the model failed on a batch of {len(tasks)} inputs: {error}"
            ) from error
        states = np.asarray(found, np.float32)
        if states.shape != (len(tasks), self._dim):
            raise EncodeError(
                tasks[0].name,
                f"the model gave vectors of shape {states.shape}, expected ({len(tasks)}, "
                f"{self._dim})",
            )
        for task, state in zip(tasks, states, strict=True):
            length = float(np.linalg.norm(state.astype(np.float64)))
            if not np.isfinite(length) or length == 0:
                raise EncodeError(task.name, "the model gave no number; are its weights damaged?")
            rows[task.key] = np.asarray(state / length, np.float32)

    def _stack(self, rows: Sequence[Rows]) -> Rows:
        return np.asarray(rows, np.float32).reshape(len(rows), self._dim)

    def _text(self, text: str) -> str:
        """Return a text that the model can read."""
        window = self._model.max_seq_length or NO_WINDOW
        text = text.strip()[: min(window, NO_WINDOW) * MAX_CHARS_PER_TOKEN]
        if not text.isascii():  # unpaired surrogates of undecodable bytes are no text
            text = text.encode("utf-8", "replace").decode("utf-8")
        return text or EMPTY

    @cached_property
    def _query_prompt(self) -> str:
        if self._options.query_prompt is not None:
            return self._options.query_prompt
        config = _json(self._files.folder() / "config_sentence_transformers.json", {})
        prompts = config.get("prompts") or {}
        name = "query" if "query" in prompts else config.get("default_prompt_name")
        return str(prompts.get(name) or "")

    @cached_property
    def _dim(self) -> int:
        whole = _told_dim(self._files.folder())
        if whole is None:
            whole = int(self._model.get_embedding_dimension())
        dim = self._options.dim or whole
        if dim > whole:
            raise ConfigError(f"encoder dim {dim} is above the model's {whole} dimensions")
        return dim

    @property
    def _tokenizer(self) -> Any:
        tokenizer = self._model.tokenizer
        if tokenizer is None:
            raise ConfigError(f"encoder {self._files.name!r}: the model reads no text")
        return tokenizer

    @property
    def _model(self) -> Any:
        with self._lock:
            return self._loaded_model

    @cached_property
    def _loaded_model(self) -> Any:
        torch = require("torch", extra=EXTRA, feature=FEATURE)
        library = require("sentence_transformers", extra=EXTRA, feature=FEATURE)
        folder = self._files.folder()
        try:
            model = library.SentenceTransformer(
                str(folder),
                device=device_of(torch, self._options.placement),
                local_files_only=True,
                truncate_dim=self._options.dim,
                model_kwargs={
                    **loading_options(torch, self._options.placement),
                    "use_safetensors": True,
                },
            )
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, ImportError) as error:
            raise ModelError(
                f"encoder 'hf:{self._files.name}' cannot be loaded: {error}"
            ) from error
        if not model.supports("text"):
            raise ConfigError(f"encoder 'hf:{self._files.name}': the model reads no text")
        return model.eval()


def _told_dim(folder: Path) -> int | None:
    """Return the dimensions that a model's files tell, or None if only the model knows."""
    for module in reversed(_json(folder / "modules.json", [])):
        name = str(module["type"]).rpartition(".")[2]
        if name in ("Normalize", "Dropout", "LayerNorm"):
            continue
        config = _json(folder / str(module["path"]) / "config.json", {})
        if name == "Dense":
            return _number(config.get("out_features"))
        if name == "Pooling":
            return _pooled_dim(config)
        return None
    return None


def _pooled_dim(config: Mapping[str, Any]) -> int | None:
    """Return the dimensions of one way of pooling; None for several, which are put in a row."""
    ways = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    way = config.get("pooling_mode", "mean")
    if len(ways) > 1 or not isinstance(way, str) or "+" in way:
        return None
    return _number(config.get("embedding_dimension", config.get("word_embedding_dimension")))


def _json(path: Path, absent: Any) -> Any:
    """Return the content of one of the model's JSON files, or `absent` if it has no such file."""
    if not path.is_file():
        return absent
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
