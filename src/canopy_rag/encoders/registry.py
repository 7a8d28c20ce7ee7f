"""From the name of an encoder to the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.protocols import Encoder
from canopy_rag.encoders.minilm import MiniLM

KNOWN = ("minilm", "qwen3-vl", "hf:<model>", "http:<url>#<model>")


def encoder(
    name: str,
    *,
    mode: Literal["late", "node"] = "late",
    weights: Path | None = None,
    threads: int = 1,
) -> Encoder:
    """Return the encoder of a name; its weights load on first use.

    Args:
        name: `minilm`. The other names of the documentation are reserved.
        mode: `late`: nodes are pooled from one pass over the item. `node`: each is encoded alone.
        weights: Folder with other weights of the same architecture; None: those of the name.
        threads: Threads of one forward pass.

    Raises:
        UnknownNameError: If there is no such encoder.
        ConfigError: If this version does not have that encoder yet.
    """
    base, plus, adapter = name.partition("+")
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
            f"encoder {name!r}: this version of canopy cannot load the adapter {adapter!r} yet; "
            "use 'minilm' without one"
        )
    return MiniLM(mode=mode, weights=weights, threads=threads)
