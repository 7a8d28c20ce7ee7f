"""Names of encoders: `minilm`, `qwen3-vl`, `hf:<model>`, `http:<url>#<model>`, `+<adapter>`.

`minilm` has the adapter that comes with the package, `minilm:base` has none, `minilm:paper` has the
one that was trained by the paper's objective. `+DIR` takes the place of the package's.
"""

from __future__ import annotations

from dataclasses import dataclass

from canopy_rag.core.errors import ConfigError, UnknownNameError

KNOWN = ("minilm", "minilm:base", "minilm:paper", "qwen3-vl", "hf:<model>", "http:<url>#<model>")
PLAIN = ("minilm", "qwen3-vl", "hashing")
"""Names without a model in them; `hashing` is a fake for tests and the demo."""
VARIANTS = ("base", "paper")
"""Of `minilm`, after a colon: as it was published, without an adapter; with the adapter that has
not seen the paper's out-of-domain benchmarks (P16)."""
LORA = "lora:"
"""`+lora:NAME` after an `http:` encoder: the server's own name of a LoRA adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderName:
    """The parts of a name."""

    scheme: str
    """`minilm`, `qwen3-vl`, `hashing`, `hf` or `http`."""
    model: str
    """As the fingerprint has it, without adapter and address."""
    target: str = ""
    """What follows the scheme: the model's name for `hf`, `qwen3-vl:` and `http`, a variant of
    `minilm`."""
    urls: tuple[str, ...] = ()
    """Base URLs of an `http:` encoder; several serve the same model."""
    lora: str | None = None
    """A LoRA adapter by the name that the server knows."""
    adapter: str | None = None
    """An adapter folder."""


def parse(name: str) -> EncoderName:
    """Take an encoder's name apart.

    >>> parse("http:http://h:8000/v1#Qwen/Qwen3-VL-Embedding-2B+lora:canopy").lora
    'canopy'
    >>> parse("minilm+tuned/").adapter
    'tuned/'

    Raises:
        UnknownNameError: If there is no such encoder.
        ConfigError: If a part is missing.
    """
    if name.startswith(("http:", "https:")):
        return _http(name)
    base, plus, adapter = name.partition("+")
    if plus and not adapter:
        raise ConfigError(f"encoder {name!r}: name the adapter's folder after the +")
    folder = adapter if plus else None
    if base in PLAIN:
        return EncoderName(scheme=base, model=base, adapter=folder)
    scheme, colon, target = base.partition(":")
    if scheme == "minilm" and target in VARIANTS:
        if folder is not None and target != "base":
            raise ConfigError(f"encoder {name!r}: it has an adapter already; use minilm+DIR")
        return EncoderName(scheme=scheme, model=scheme, target=target, adapter=folder)
    if scheme not in ("hf", "qwen3-vl") or not colon:
        raise UnknownNameError("encoder", base, KNOWN)
    if not target:
        raise ConfigError(f"encoder {name!r}: name the model after the colon, as hf:owner/model")
    return EncoderName(scheme=scheme, model=base, target=target, adapter=folder)


def without_adapter(name: str) -> str | None:
    """Return the name of the same encoder without its adapter; None if it has none.

    >>> without_adapter("minilm"), without_adapter("qwen3-vl+tuned"), without_adapter("qwen3-vl")
    ('minilm:base', 'qwen3-vl', None)
    """
    found = parse(name)
    if found.scheme == "minilm":  # the bare name has the adapter of the package
        bare = found.target == "base" and found.adapter is None
        return None if bare else "minilm:base"
    if found.adapter is None and found.lora is None:
        return None
    if found.scheme == "http":
        return f"http:{','.join(found.urls)}#{found.target}"
    return found.model


def _http(name: str) -> EncoderName:
    """Take `http:<url>[,<url>]#<model>[+lora:NAME][+DIR]` apart; `http:` may be left out."""
    address, mark, rest = name.partition("#")
    if not mark or not rest:
        raise ConfigError(
            f"encoder {name!r}: name server and model as http:<url>#<model>, for example "
            "http:http://127.0.0.1:8000/v1#Qwen/Qwen3-VL-Embedding-2B"
        )
    if not address.startswith(("http://", "https://")):
        address = address.removeprefix("http:")
    model, *adapters = rest.split("+", 1)
    lora, folder = None, adapters[0] if adapters else None
    if folder is not None and folder.startswith(LORA):
        lora, *folders = folder.removeprefix(LORA).split("+", 1)
        folder = folders[0] if folders else None
    if "" in (model, lora, folder):
        raise ConfigError(f"encoder {name!r}: the name of the model or of an adapter is missing")
    return EncoderName(
        scheme="http",
        model=f"http:{model}",
        target=model,
        urls=tuple(url.strip().rstrip("/") for url in address.split(",")),
        lora=lora,
        adapter=folder,
    )
