"""From the name of an encoder to the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.protocols import Encoder, Fingerprint, MediaPlace
from canopy_rag.encoders.adapters import Adapter, read_adapter
from canopy_rag.encoders.checkpoint import DIM
from canopy_rag.encoders.locate import ADAPTERS
from canopy_rag.encoders.mapped import MappedEncoder
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.names import KNOWN, EncoderName, parse
from canopy_rag.encoders.placement import Placement

BUDGETS = ("min_picture_px", "max_picture_px", "max_frame_px", "max_video_px", "max_frames")
"""Settings that say how large pictures are read, by one encoder alone."""


def encoder(
    name: str,
    *,
    mode: Literal["late", "node"] | None = None,
    weights: Path | None = None,
    threads: int | None = None,
) -> Encoder:
    """Return the encoder of a name; its weights load on first use.

    Args:
        name: As `names.parse` takes it, and `+DIR` for an adapter.
        mode: `late`: nodes are pooled from one pass over the item. `node`: each is encoded alone.
            None: the encoder's own.
        weights: Folder with other weights of the same architecture; None: those of the name.
        threads: Most forward passes side by side; None: one for each core.

    Raises:
        UnknownNameError: If there is no such encoder.
        ConfigError: If a setting cannot work.
    """
    folder = None if weights is None else str(weights)
    return from_config(EncoderConfig(name=name, mode=mode, weights=folder, threads=threads))


def from_config(
    config: EncoderConfig,
    *,
    place: MediaPlace | None = None,
    dim: int | None = None,
    api_key: str | None = None,
) -> Encoder:
    """Return the encoder of a configuration; its weights load on first use.

    Args:
        config: The settings.
        place: Finds pictures and videos of items; None: by absolute path or `data:` URI.
        dim: Dimensions that are expected, as those of an index; None: whatever the encoder has.
        api_key: Key of the encoder's server.

    Raises:
        UnknownNameError: If there is no such encoder.
        ConfigError: If a setting cannot work, or the adapter belongs to another encoder.
    """
    named = parse(config.name)
    adapter = None if named.adapter is None else read_adapter(Path(named.adapter))
    mode = config.mode or (None if adapter is None else adapter.mode)
    if named.scheme != "minilm" and mode == "late":
        raise ConfigError(
            f"encoder {config.name!r} encodes each node on its own; use mode 'node', or leave the "
            "mode unset"
        )
    budgets = {name: value for name in BUDGETS if (value := getattr(config, name)) is not None}
    if budgets and named.scheme != "qwen3-vl":
        raise ConfigError(
            f"encoder {config.name!r} has limits of its own for pictures and frames; unset "
            f"{', '.join(f'encoder.{name}' for name in budgets)}, for qwen3-vl alone"
        )
    if config.backend != "onnxruntime" and named.scheme != "minilm":
        raise ConfigError(f"encoder.backend is for minilm, not for {config.name!r}; unset it")
    lora = adapter if adapter is not None and adapter.kind == "lora" else None
    built: Encoder
    if named.scheme == "minilm":
        built = _minilm(named, config, mode, adapter)
    elif named.scheme == "http":
        built = _http(named, config, lora, _Seams(place=place, dim=dim, api_key=api_key))
    elif named.scheme == "qwen3-vl":
        built = _qwen(named, config, budgets, lora, _Seams(place=place, dim=dim))
    elif named.scheme == "hf":
        built = _hf(named, config, lora, _Seams(place=place, dim=dim))
    else:
        raise UnknownNameError("encoder", named.model, KNOWN)
    return built if adapter is None or lora is not None else MappedEncoder(built, adapter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seams:
    """What an encoder needs besides settings."""

    place: MediaPlace | None
    dim: int | None
    api_key: str | None = None


def _minilm(
    named: EncoderName,
    config: EncoderConfig,
    mode: Literal["late", "node"] | None,
    adapter: Adapter | None,
) -> Encoder:
    if config.instruction:
        raise ConfigError("encoder 'minilm' takes no instruction; unset encoder.instruction")
    if config.dim not in (None, DIM):
        raise ConfigError(f"encoder 'minilm' has {DIM} dimensions; unset encoder.dim")
    weights = None if config.weights is None else Path(config.weights)
    lora = adapter if adapter is not None and adapter.kind == "lora" else None
    # A map may stand on the encoder as it is used by default, whose revision names an adapter.
    if adapter is None or (lora is None and "+" in adapter.base_revision):
        lora = _of_package(named, config, mode)
    return MiniLM(
        mode=mode or "late",
        weights=weights,
        threads=config.threads,
        backend=config.backend,
        adapter=lora,
    )


def _of_package(
    named: EncoderName, config: EncoderConfig, mode: Literal["late", "node"] | None
) -> Adapter | None:
    """Return the adapter that comes with the package, for the weights that come with it."""
    if named.target == "base" or config.weights is not None:
        return None
    if mode == "node":
        raise ConfigError(
            f"encoder {config.name!r}: its adapter pools nodes late; for mode 'node' use "
            "minilm:base, which has none"
        )
    return read_adapter(ADAPTERS[named.target])


def packaged(stored: Fingerprint) -> str | None:
    """Return the name of the embedded encoder with this fingerprint; None if none has it.

    All are `minilm` in a fingerprint: what tells them apart is the revision.
    """
    for name in ("minilm", *(f"minilm:{variant}" for variant in ("base", *ADAPTERS) if variant)):
        config = EncoderConfig(name=name, mode=stored.mode if name == "minilm:base" else None)
        if from_config(config).fingerprint == stored:
            return name
    return None


def _http(
    named: EncoderName, config: EncoderConfig, lora: Adapter | None, seams: _Seams
) -> Encoder:
    from canopy_rag.encoders.http import HttpEncoder
    from canopy_rag.encoders.http_inputs import HttpOptions

    if lora is not None:
        raise ConfigError(
            f"encoder {config.name!r}: the model is on a server, which has to load the adapter "
            f"{named.adapter!r} itself; then name it as the server does, with +lora:NAME"
        )
    options = HttpOptions(
        urls=named.urls,
        model=named.target,
        lora=named.lora,
        form=config.form,
        instruction=config.instruction,
        max_tokens=config.max_tokens,
        max_in_flight=config.max_in_flight,
        dimensions=config.dim,
    )
    return HttpEncoder(options, place=seams.place, dim=seams.dim, api_key=seams.api_key)


def _qwen(
    named: EncoderName,
    config: EncoderConfig,
    budgets: Mapping[str, int],
    lora: Adapter | None,
    seams: _Seams,
) -> Encoder:
    from canopy_rag.encoders.qwen3_inputs import Budgets
    from canopy_rag.encoders.qwen3_vl import Qwen3Options, Qwen3VL

    if config.max_tokens is not None:
        budgets = {**budgets, "max_tokens": config.max_tokens}
    options = Qwen3Options(
        dim=config.dim or seams.dim,
        budgets=Budgets(**budgets),
        placement=_placement(config),
        batch_tokens=config.batch_tokens,
    )
    if config.instruction is not None:
        options = replace(options, query_instruction=config.instruction)
    model = named.target or config.weights
    return Qwen3VL(model, options=options, adapter=lora, place=seams.place)


def _hf(named: EncoderName, config: EncoderConfig, lora: Adapter | None, seams: _Seams) -> Encoder:
    from canopy_rag.encoders.sentence_transformers import HFOptions, SentenceTransformers

    if lora is not None:
        raise ConfigError(
            f"encoder {config.name!r}: adapters of kind 'lora' are for minilm and qwen3-vl; this "
            "encoder takes one of kind 'map'"
        )
    if config.weights is not None:
        raise ConfigError(
            f"encoder {config.name!r}: name the folder after the colon and unset encoder.weights"
        )
    options = HFOptions(
        query_prompt=config.instruction,
        dim=config.dim or seams.dim,
        placement=_placement(config),
    )
    return SentenceTransformers(named.target, options=options, place=seams.place)


def _placement(config: EncoderConfig) -> Placement:
    return Placement(
        device=config.device,
        device_map=config.device_map,
        dtype=config.dtype,
        attention=config.attention,
    )
