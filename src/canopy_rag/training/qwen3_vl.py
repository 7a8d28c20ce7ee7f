"""Qwen3-VL with an adapter on its language backbone; the vision tower stays frozen (P1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, EncodeError
from canopy_rag.core.node_text import context_text, pieces
from canopy_rag.core.types import Item
from canopy_rag.encoders.placement import Placement
from canopy_rag.encoders.qwen3_inputs import Reading
from canopy_rag.encoders.qwen3_model import LANGUAGE_PROJECTIONS, pooled, to_tensors
from canopy_rag.encoders.qwen3_vl import Qwen3VL
from canopy_rag.encoders.windows import batches
from canopy_rag.training.data import Example
from canopy_rag.training.kept import KEEP_BYTES, KeptReadings
from canopy_rag.training.lora import FEATURE, assert_frozen, with_lora, write_lora
from canopy_rag.training.recipe import Recipe

VISION = "visual"
"""Name of the vision tower among the network's parts."""
BATCH_TOKENS = 16384
"""Most tokens of one forward pass unless `encoder.batch_tokens` says so, padding included; a longer
sequence goes alone."""


class Qwen3VLBackbone:
    """Each node is encoded on its own, as `encoders.qwen3_vl.Qwen3VL` does, with gradients.

    Args:
        encoder: Without an adapter; it says what is read.
        recipe: How the adapter is trained.
        keep_bytes: Most bytes of decoded pictures and frames that are kept between steps.

    Raises:
        ConfigError: If all weights are to be trained, or some of the vision tower would be, or on
            another device than that of the process.
        MissingDependencyError: If torch, transformers or peft is not installed.
    """

    def __init__(self, encoder: Qwen3VL, recipe: Recipe, *, keep_bytes: int = KEEP_BYTES) -> None:
        self._torch = require("torch", extra="train", feature=FEATURE)
        if recipe.kind != "lora":
            raise ConfigError("training: of qwen3-vl an adapter is trained, not all weights; lora")
        self._encoder = encoder
        self._readings = KeptReadings(encoder, keep_bytes)
        self._batch_tokens = encoder.options.batch_tokens or BATCH_TOKENS
        _check_placement(self._torch, encoder.options.placement)
        fingerprint = encoder.fingerprint
        self._base = {"model": fingerprint.model, "revision": fingerprint.revision}
        self._dim = fingerprint.dim
        network = encoder.load_network()
        if network.dtype == self._torch.float16:
            network.float()  # gradients in half precision overflow
        if recipe.recompute:
            _recompute(network)
        self._module = with_lora(network, recipe, LANGUAGE_PROJECTIONS)
        assert_frozen(self._module, VISION)

    @property
    def base(self) -> dict[str, str]:
        """Model and revision of the frozen encoder."""
        return self._base

    @property
    def mode(self) -> Literal["late", "node"]:
        """Each node alone."""
        return "node"

    @property
    def module(self) -> Any:
        """The network, with its adapter."""
        return self._module

    def count_tokens(self, item: Item) -> int:
        """Return how many tokens an item's words have; pictures aside."""
        texts = [context_text(item), *(piece.text for piece in pieces(item))]
        return sum(self._encoder.count_tokens(text) for text in texts)

    def similarities(self, batch: Sequence[Example]) -> list[Any]:
        """Return for each example the similarities of its nodes, float32.

        Raises:
            EncodeError: Naming an item whose picture or video is broken, or that failed.
        """
        queries = list(dict.fromkeys(each.query for each in batch))
        wanted: dict[str, tuple[Item, set[int]]] = {}
        for each in batch:
            wanted.setdefault(each.item.id, (each.item, set()))[1].update(each.nodes)
        names = [f"query {query!r}" for query in queries]
        readings = [self._encoder.query_reading(query) for query in queries]
        where: dict[tuple[str, int], int] = {}
        for item_id, (item, nodes) in wanted.items():
            chosen = sorted(nodes)
            for node in chosen:
                where[item_id, node] = len(where) + len(queries)
            readings += self._readings.of(item, chosen)
            names += [item_id] * len(chosen)
        rows = self._vectors(readings, names)  # (n_readings, dim)
        return [
            rows[[where[each.item.id, node] for node in each.nodes]]
            @ rows[queries.index(each.query)]
            for each in batch
        ]

    def _vectors(self, readings: Sequence[Reading], names: Sequence[str]) -> Any:
        """Return unit vectors of readings, in order, Matryoshka cut included."""
        found: dict[int, Any] = {}
        for positions in batches([len(each.ids) for each in readings], self._batch_tokens):
            arrays = self._encoder.batch([readings[position] for position in positions])
            try:
                states = pooled(self._module, to_tensors(self._module, arrays))
            except self._torch.OutOfMemoryError as error:
                raise EncodeError(
                    names[positions[0]],
                    "the device ran out of memory on a batch with it; try --recompute, a larger "
                    "--accumulate, or lower encoder.batch_tokens",
                ) from error
            found.update(zip(positions, states[:, : self._dim], strict=True))
        rows = self._torch.stack([found[position] for position in range(len(readings))])
        return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)

    def write(self, folder: Path) -> None:
        """Write the adapter's files, under the names that the model has with its language head.

        vLLM has it with that, and takes names of the headless model without a word and without any
        effect (https://github.com/vllm-project/vllm/issues/48019).
        """
        write_lora(self._module, folder, inside="model.")


def _check_placement(torch: Any, placement: Placement) -> None:
    own = "cuda" if torch.cuda.is_available() else "cpu"
    if placement.device_map is not None:
        raise ConfigError(
            "training: each process holds a whole model; unset encoder.device_map, and for several "
            "GPUs start `accelerate launch`"
        )
    if placement.device not in ("auto", own):
        raise ConfigError(
            f"training: it computes on {own!r}, not on {placement.device!r}; unset encoder.device. "
            "CUDA_VISIBLE_DEVICES says which GPU there is, empty that there is none"
        )


def _recompute(network: Any) -> None:
    """Let a network of any transformers keep its layers' inputs alone until the backward pass."""
    newer = getattr(network, "activation_checkpointing_enable", None)
    enable = newer or network.gradient_checkpointing_enable
    enable({"use_reentrant": False})
