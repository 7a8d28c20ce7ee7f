"""What `canopy doctor` looks at."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from canopy_rag import __version__
from canopy_rag.config import Config
from canopy_rag.core.errors import CanopyError, MissingDependencyError

DISTRIBUTION = "canopy-rag"
FEATURES = {
    "index": "folders of files (PDF, Word, HTML, sheets and more) and the index: canopy index",
    "video": "videos with their subtitles",
    "ocr": "the text in pictures; without it they are found by their captions",
    "llm": "chat servers and encoders over HTTP: --llm URL",
    "cloud": "an index on object storage: --index s3://BUCKET/PATH",
    "server": "the explorer page, REST and OpenAI-compatible chat: canopy serve",
    "eval": "the plots of canopy diagnose",
    "qwen": "the encoder qwen3-vl, on a GPU",
    "hf": "encoders of the hub: hf:<model>",
    "openvino": "the embedded encoder in bfloat16: encoder.backend",
    "train": "canopy train with LoRA",
    "langchain": "the compressor and the retriever for LangChain",
    "llamaindex": "the postprocessor and the retriever for LlamaIndex",
    "haystack": "the component for Haystack",
    "mcp": "an index as tools for agents: canopy mcp",
    "local": "index, video and llm on one machine, and the embedded chat model: --llm local",
}
_REQUIREMENT = re.compile(
    r"""^([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?[^;]*(?:;.*extra\s*==\s*["']([^"']+)["'])?"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "missing", "broken"]
    detail: str
    remedy: str = ""
    """What to do about it; empty when nothing needs to be done."""
    is_base: bool = False
    """Whether every command needs it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "state": self.state,
            "detail": self.detail,
            "remedy": self.remedy or None,
        }


def all_checks(config: Config) -> list[Check]:
    """Return every check, those that all commands need first."""
    return [
        _python(),
        _base(),
        _encoder(config),
        *_extras(),
        _local_llm(),
        _index_address(config) if "://" in config.index.path else _index_folder(config.index.path),
    ]


def _python() -> Check:
    has = f"{platform.python_version()} on {platform.platform(terse=True)} {platform.machine()}"
    good = sys.version_info >= (3, 11)
    return Check(
        name="python",
        state="ok" if good else "broken",
        detail=has,
        remedy="" if good else "canopy needs Python 3.11 or newer",
        is_base=True,
    )


def requirements() -> dict[str | None, list[str]]:
    """Return extra -> names of the packages that it asks for; None: those of the base.

    Raises:
        PackageNotFoundError: If canopy was not installed as a package.
    """
    found: dict[str | None, list[str]] = {}
    for line in importlib.metadata.requires(DISTRIBUTION) or []:
        match = _REQUIREMENT.match(line)
        if match and match[1].lower() != DISTRIBUTION:
            found.setdefault(match[2], []).append(match[1])
    return found


def _base() -> Check:
    try:
        absent = [name for name in requirements().get(None, []) if not _is_installed(name)]
    except importlib.metadata.PackageNotFoundError:
        return Check(
            name=DISTRIBUTION,
            state="broken",
            detail=f"{__version__}, but not installed as a package",
            remedy="Run: pip install canopy-rag",
            is_base=True,
        )
    return Check(
        name=DISTRIBUTION,
        state="broken" if absent else "ok",
        detail=f"{__version__} in {Path(__file__).resolve().parents[1]}",
        remedy=f"missing: {', '.join(absent)}. Run: pip install canopy-rag" if absent else "",
        is_base=True,
    )


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _encoder(config: Config) -> Check:
    """Encode a word: whether weights, tokenizer and runtime work together."""
    from canopy_rag.pipeline.factory import build_encoder

    name = config.encoder.name

    def tried() -> str:
        encoder = build_encoder(config.encoder)
        encoder.encode_queries(["hello"])
        languages = encoder.languages
        tongue = "many languages" if languages is None else f"for {', '.join(sorted(languages))}"
        return f"{name}, {encoder.fingerprint.dim} dimensions, {tongue}; {_weights(config)}"

    return _tried("encoder", tried, is_base=True)


def _weights(config: Config) -> str:
    from canopy_rag.encoders import locate

    if config.encoder.weights is not None:
        return f"weights in {config.encoder.weights}"
    if config.encoder.name.partition("+")[0] != "minilm":
        return "with weights of its own"
    if locate.PACKED.is_file():
        return "weights carried by the package"
    return f"weights of the package {locate.PACKAGE}"


def _tried(name: str, trial: Callable[[], str], *, is_base: bool = False) -> Check:
    """Return how a trial ended; its error says what to do."""
    try:
        return Check(name=name, state="ok", detail=trial(), is_base=is_base)
    except MissingDependencyError as error:
        state: Literal["missing", "broken"] = "broken" if is_base else "missing"
        return Check(name=name, state=state, detail=str(error), is_base=is_base)
    except (CanopyError, ImportError, OSError) as error:
        return Check(name=name, state="broken", detail=str(error), is_base=is_base)


def _extras() -> Iterator[Check]:
    try:
        asked = requirements()
    except importlib.metadata.PackageNotFoundError:
        return
    for extra, adds in FEATURES.items():
        absent = [name for name in asked.get(extra, []) if not _is_installed(name)]
        yield Check(
            name=f"[{extra}]",
            state="missing" if absent else "ok",
            detail=adds,
            remedy=f"missing: {', '.join(absent)}. Run: pip install 'canopy-rag[{extra}]'"
            if absent
            else "",
        )


def _local_llm() -> Check:
    def tried() -> str:
        from canopy_rag.llms.llama_cpp import local_llm

        return f"{local_llm().name}, for --llm local"

    return _tried("local model", tried)


def _index_address(config: Config) -> Check:
    """Ask object storage for the index."""
    from canopy_rag.pipeline.factory import locate_index

    try:
        found = locate_index(config.index.path, config).has_index
    except CanopyError as error:
        return Check(
            name="index folder",
            state="broken",
            detail=str(error),
            remedy="Name another one with --index or CANOPY_INDEX",
        )
    detail = f"{config.index.path}: {'an index is here' if found else 'no index yet'}"
    return Check(name="index folder", state="ok", detail=detail)


def _index_folder(path: str) -> Check:
    """Write a file where the index is or would be."""
    folder = Path(path)
    place = folder.resolve()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check(
            name="index folder",
            state="broken",
            detail=f"{place} cannot be written: {error.strerror}",
            remedy="Name another one with --index or CANOPY_INDEX",
        )
    found = "an index is here" if folder.is_dir() else "can be written; no index yet"
    return Check(name="index folder", state="ok", detail=f"{folder}: {found}")
