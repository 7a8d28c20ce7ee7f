"""From the name of an encoder to the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.protocols import Encoder, MediaPlace
from canopy_rag.encoders.minilm import MiniLM

KNOWN = ("minilm", "qwen3-vl", "hf:<model>", "http:<url>#<model>")


def encoder(
    name: str,
    *,
    mode: Literal["late", "node"] | None = None,
    weights: Path | None = None,
    threads: int = 1,
) -> Encoder:
    """Return the encoder of a name; its weights load on first use.

    Args:
        name: One of `KNOWN`, and `+DIR` for an adapter.
        mode: `late`: nodes are pooled from one pass over the item. `node`: each is encoded alone.
            None: the encoder's own.
        weights: Folder with other weights of the same architecture; None: those of the name.
        threads: Threads of one forward pass.

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
        ConfigError: If a setting cannot work.
    """
    base, plus, adapter = config.name.partition("+")
    scheme = base.partition(":")[0]
    if base == "qwen3-vl" or (base != scheme and scheme in ("hf", "http", "https")):
        raise ConfigError(
            f"encoder {base!r}: this version of canopy has only 'minilm'; encoders from the hub, "
            "over HTTP and for pictures come with a later one"
        )
    if base != "minilm":
        raise UnknownNameError("encoder", base, KNOWN)
    if plus:
        raise ConfigError(
            f"encoder {config.name!r}: this version of canopy cannot load the adapter "
            f"{adapter!r} yet; use 'minilm' without one"
        )
    weights = None if config.weights is None else Path(config.weights)
    return MiniLM(mode=config.mode or "late", weights=weights, threads=config.threads)
